"""Half-Cauchy noise: the horseshoe prior."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import inside, log_scaled_exp1
from scalemix.mixtures._base import ScaleMixture, as_count


class HalfCauchy(ScaleMixture):
    """`xi ~ HalfCauchy(scale)`: the horseshoe prior, with a pole at zero and heavy tails.

    Parameters
    ----------
    scale : float
        The median of the noise, positive.

    Examples
    --------
    >>> print(sx.HalfCauchy(1.0).mean)
    inf
    >>> print(sx.HalfCauchy(1.0).marginal_log_prob(0.0))
    inf
    """

    scale: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.scale > 0, f"HalfCauchy: scale must be positive, got {self.scale}.")

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        u = jax.random.uniform(key, shape, dtype)
        return (self.scale * _tan_half_pi(u)).astype(dtype)

    def log_prob(self, noise: ArrayLike) -> Array:
        xi = as_array(noise)
        normaliser = math.log(2 / math.pi) - jnp.log(self.scale)
        return inside(xi >= 0, normaliser - jnp.log1p((xi / self.scale) ** 2))

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """The horseshoe density `exp(c) E1(c) / (sqrt(2 pi^3) unit)`; infinite at zero."""
        # c = w^2 / (2 unit^2), unit = scale * eta.
        unit = as_array(scale) * self.scale
        c = 0.5 * (as_array(weight) / unit) ** 2
        normaliser = 0.5 * math.log(2 * math.pi**3) + jnp.log(unit)
        density = log_scaled_exp1(jnp.where(c > 0, c, 1.0)) - normaliser
        return jnp.where(c > 0, density, jnp.inf)

    @property
    def mean(self) -> Real:
        return jnp.full_like(self.scale, jnp.inf)

    @property
    def second_moment(self) -> Real:
        return jnp.full_like(self.scale, jnp.inf)

    @property
    def inverse_square_mean(self) -> Real:
        return jnp.full_like(self.scale, jnp.inf)

    def optimal_variance(self, moment: ArrayLike, count: ArrayLike) -> Array:
        """Zero at moment zero, for any scale and count: the family can switch a unit off."""
        # (K + 2) v^2 - (M - K eta^2) v - M eta^2 = 0. M and K eta^2 are divided by the larger of
        # the two first, so that no square leaves the range of float32; then the root is taken
        # in the form that adds where the other would cancel.
        moment = as_array(moment)
        count = as_count(count, moment)
        pull = count * self.scale**2
        unit = jnp.maximum(moment, pull)
        m, k = moment / unit, pull / unit
        difference, product = m - k, 4 * (1 + 2 / count) * m * k
        root = jnp.sqrt(difference**2 + product)
        positive = difference > 0
        numerator = jnp.where(
            positive,
            difference + root,
            product / jnp.where(positive, 1.0, root - difference),
        )
        return unit * numerator / (2 * count + 4)

    def hyperprior_log_prob(self, variance: ArrayLike) -> Array:
        """The half-Cauchy density itself: the point estimate is made in `xi`, not in `xi^2`."""
        return self.log_prob(jnp.sqrt(as_array(variance)))


def _tan_half_pi(u: Array) -> Array:
    """`tan(pi u / 2)` for u in [0, 1), and never the pole: half-Cauchy if u is uniform.

    The library's tangent is slow, and noise is a hot path. A continued fraction of six terms is
    exact to single precision up to a quarter turn; beyond it `tan(x) = 1 / tan(pi/2 - x)`.
    """
    if u.dtype != jnp.float32:
        return jnp.tan(0.5 * math.pi * u)
    beyond = u > 0.5
    x = (0.5 * math.pi) * jnp.where(beyond, 1 - u, u)
    z = x * x
    above = x * (10395 - z * (1260 - 21 * z))
    below = 10395 - z * (4725 - z * (210 - z))
    return jnp.where(beyond, below, above) / jnp.where(beyond, above, below)
