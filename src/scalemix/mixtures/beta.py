"""Beta noise on the unit interval."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, xlog1py, xlogy
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import LOG_2PI, inside
from scalemix.mixtures._base import ScaleMixture
from scalemix.mixtures._quadrature import DROP, log_integral


class Beta(ScaleMixture):
    """`xi ~ Beta(a, b)`: units are damped at random, never amplified.

    Parameters
    ----------
    a : float
        The first shape, positive. Below one the density has a pole at zero.
    b : float
        The second shape, positive. Below one the density has a pole at one.

    Examples
    --------
    >>> sx.Beta(3.0, 2.0).mean
    0.6
    """

    a: Real = eqx.field(converter=as_parameter)
    b: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.a > 0, f"Beta: a must be positive, got {self.a}.")
        require(self.b > 0, f"Beta: b must be positive, got {self.b}.")

    @property
    def support(self) -> tuple[Real, Real]:
        return 0.0, 1.0

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        return jax.random.beta(key, self.a, self.b, shape, dtype)

    def log_prob(self, noise: ArrayLike) -> Array:
        xi = as_array(noise)
        within = (xi >= 0) & (xi <= 1)
        safe = jnp.where(within, xi, 0.5)
        density = xlogy(self.a - 1, safe) + xlog1py(self.b - 1, -safe) - betaln(self.a, self.b)
        return inside(within, density)

    def logit_log_prob(self, u: ArrayLike) -> Array:
        """`sigmoid(u)^a sigmoid(-u)^b / B(a, b)`."""
        u = as_array(u)
        kernel = self.a * jax.nn.log_sigmoid(u) + self.b * jax.nn.log_sigmoid(-u)
        return kernel - betaln(self.a, self.b)

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """By quadrature; infinite at zero when `a` is at most one."""
        unit = as_array(scale)
        x = jnp.abs(as_array(weight)) / unit
        return _standard_marginal(x, self.a, self.b) - jnp.log(unit)

    @property
    def mean(self) -> Real:
        return self.a / (self.a + self.b)

    @property
    def second_moment(self) -> Real:
        total = self.a + self.b
        return self.a * (self.a + 1) / (total * (total + 1))

    @property
    def inverse_square_mean(self) -> Real:
        finite = self.a > 2
        a = jnp.where(finite, self.a, 3.0)
        total = a + self.b
        return jnp.where(finite, (total - 1) * (total - 2) / ((a - 1) * (a - 2)), jnp.inf)


@jax.jit
@jnp.vectorize
def _standard_marginal(x: Array, a: Array, b: Array) -> Array:
    """Log density at x >= 0 of `xi z` with `xi = sigmoid(s) ~ Beta(a, b)`, integrated over s.

    The logit sends both ends to infinity, where an end with a singularity is as tame as any.
    """

    def log_integrand(s: Array, x: Array, a: Array, b: Array) -> Array:
        slab = 0.5 * (x * (1 + jnp.exp(-s))) ** 2
        return (a - 1) * jax.nn.log_sigmoid(s) + b * jax.nn.log_sigmoid(-s) - slab

    pole = (x == 0) & (a <= 1)
    safe = jnp.where(pole, 1.0, x)
    # The right tail falls only as exp(-b s).
    lower, upper = jnp.full_like(x, -42.0), 42.0 + DROP / b
    log_mass = log_integral(log_integrand, lower, upper.astype(x.dtype), safe, a, b)
    return jnp.where(pole, jnp.inf, log_mass - betaln(a, b) - 0.5 * LOG_2PI)
