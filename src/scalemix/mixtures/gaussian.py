"""Gaussian noise: Gaussian dropout; a generalized hyperbolic prior."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import LOG_2PI, inside, log_normal, positive_part
from scalemix.mixtures._base import ScaleMixture
from scalemix.mixtures._quadrature import log_integral, log_sum_exp


class Gaussian(ScaleMixture):
    """`xi ~ N(mean, std^2)`: the variance is a scaled noncentral chi-square of one degree.

    The noise may be negative, and the weight has the same distribution for either sign of it. With
    `mean=0` a weight is a product of two normal variables.

    Parameters
    ----------
    std : float
        The standard deviation of the noise, positive.
    mean : float, default 1.0
        The mean of the noise.

    Examples
    --------
    >>> sx.Gaussian(0.5).second_moment
    1.25
    """

    std: Real = eqx.field(converter=as_parameter)
    mean: Real = eqx.field(default=1.0, converter=as_parameter)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self) -> None:
        require(self.std > 0, f"Gaussian: std must be positive, got {self.std}.")
        require(abs(self.mean) < math.inf, f"Gaussian: mean must be finite, got {self.mean}.")

    @property
    def support(self) -> tuple[Real, Real]:
        return -math.inf, math.inf

    def to_noise(self, u: Array, *, signed: bool = True) -> Array:
        return self.mean + self.std * u if signed else super().to_noise(u)

    def to_coordinate(self, noise: Array, *, signed: bool = True) -> Array:
        return (noise - self.mean) / self.std if signed else super().to_coordinate(noise)

    def coordinate_log_prob(self, u: Array, *, signed: bool = True) -> Array:
        noise = self.to_noise(u, signed=signed)
        if signed:
            return self.log_prob(noise) + jnp.log(self.std)
        # Noise of both signs has this magnitude.
        return jnp.logaddexp(self.log_prob(noise), self.log_prob(-noise)) + u

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        return (self.mean + self.std * jax.random.normal(key, shape, dtype)).astype(dtype)

    def log_prob(self, noise: ArrayLike) -> Array:
        return log_normal(as_array(noise) - self.mean, self.std)

    def variance_log_prob(self, variance: ArrayLike) -> Array:
        # Both roots of v contribute: p(v) = (p(sqrt v) + p(-sqrt v)) / (2 sqrt v).
        positive, v = positive_part(variance)
        root = jnp.sqrt(v)
        density = log_sum_exp(self.log_prob(root), self.log_prob(-root))
        return inside(positive, density - 0.5 * jnp.log(v) - math.log(2))

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """By quadrature; infinite at zero, where the density has a logarithmic pole."""
        unit = as_array(scale) * self.std
        x = jnp.abs(as_array(weight)) / unit
        return _standard_marginal(x, jnp.abs(self.mean) / self.std) - jnp.log(unit)

    @property
    def second_moment(self) -> Real:
        return self.mean**2 + self.std**2

    @property
    def inverse_square_mean(self) -> Real:
        return jnp.full_like(self.std * self.mean, jnp.inf)


@jax.jit
@jnp.vectorize
def _standard_marginal(x: Array, centre: Array) -> Array:
    """Log density at x > 0 of `u z` with `u ~ N(centre, 1)` and `z ~ N(0, 1)`.

    `int N(u; centre, 1) N(x; 0, u^2) du` over `u = +-exp(t)`: each sign gives one hump in t.
    """

    def log_integrand(t: Array, x: Array, signed_centre: Array) -> Array:
        return -0.5 * ((jnp.exp(t) - signed_centre) ** 2 + (x * jnp.exp(-t)) ** 2)

    # Far enough on both sides for x from 1e-16 to 1e16, and exp(2 t) finite in float32.
    lower, upper = jnp.full_like(x, -42.0), jnp.full_like(x, 42.0)
    safe = jnp.where(x > 0, x, 1.0)
    density = log_sum_exp(
        log_integral(log_integrand, lower, upper, safe, centre),
        log_integral(log_integrand, lower, upper, safe, -centre),
    )
    return jnp.where(x > 0, density - LOG_2PI, jnp.inf)
