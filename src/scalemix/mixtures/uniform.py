"""Uniform noise, and its improper cousin on the log scale."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import LOG_2PI, inside, positive_part
from scalemix.mixtures._base import ScaleMixture, as_count
from scalemix.mixtures._quadrature import log_integral


class Uniform(ScaleMixture):
    """`xi ~ Uniform(low, high)`.

    Parameters
    ----------
    low : float
        The smallest noise, zero or more. At zero the weight's density has a pole.
    high : float
        The largest noise, finite and above `low`.

    Examples
    --------
    >>> sx.Uniform(0.5, 1.5).mean
    1.0
    """

    low: Real = eqx.field(converter=as_parameter)
    high: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.low >= 0, f"Uniform: low must not be negative, got {self.low}.")
        require(
            (self.high > self.low) & (self.high < math.inf),
            f"Uniform: high must be finite and above low, got low={self.low}, high={self.high}.",
        )

    @property
    def support(self) -> tuple[Real, Real]:
        return self.low, self.high

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        unit = jax.random.uniform(key, shape, dtype)
        return (self.low + (self.high - self.low) * unit).astype(dtype)

    def log_prob(self, noise: ArrayLike) -> Array:
        xi = as_array(noise)
        within = (xi >= self.low) & (xi <= self.high)
        return inside(within, -jnp.log(self.high - self.low) + 0 * xi)

    def logit_log_prob(self, u: ArrayLike) -> Array:
        """The slope of the sigmoid, which no rounding of the noise takes beyond an end."""
        u = as_array(u)
        return jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """A difference of exponential integrals; infinite at zero when low is zero."""
        # By quadrature: as a difference it would cancel when the interval is narrow.
        x = jnp.abs(as_array(weight)) / (as_array(scale) * self.high)
        width = as_array(scale) * (self.high - self.low)
        return _standard_marginal(x, self.low / self.high) - jnp.log(width) - 0.5 * LOG_2PI

    @property
    def mean(self) -> Real:
        return 0.5 * (self.low + self.high)

    @property
    def second_moment(self) -> Real:
        return (self.low**2 + self.low * self.high + self.high**2) / 3

    @property
    def inverse_square_mean(self) -> Real:
        finite = self.low > 0
        product = jnp.where(finite, self.low, 1.0) * self.high
        return jnp.where(finite, 1 / product, jnp.inf)


@jax.jit
@jnp.vectorize
def _standard_marginal(x: Array, ratio: Array) -> Array:
    """`log int exp(-x^2 / (2 xi^2)) dxi / xi` over xi from `ratio` to one, with `xi = exp(t)`."""

    def log_integrand(t: Array, x: Array) -> Array:
        return -0.5 * (x * jnp.exp(-t)) ** 2

    from_zero = ratio == 0
    lower = jnp.where(from_zero, -42.0, jnp.log(jnp.where(from_zero, 1.0, ratio)))
    pole = from_zero & (x == 0)
    safe = jnp.where(pole, 1.0, x)
    log_mass = log_integral(log_integrand, lower, jnp.zeros_like(lower), safe)
    return jnp.where(pole, jnp.inf, log_mass)


class LogUniform(ScaleMixture):
    """`p(xi) ~ 1 / xi`: an improper prior, for variational EM only.

    Equally `p(v) ~ 1 / v` on the variance and `p(w) ~ 1 / |w|` on the weight. It cannot be sampled,
    so it is no noise, and its densities have no normalising constant. It has no parameters.

    Examples
    --------
    >>> print(sx.LogUniform().optimal_variance(6.0, 4))
    1.0
    """

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        raise ValueError(
            "LogUniform is improper and cannot be sampled, so it serves variational EM only. "
            "HalfCauchy is the proper family closest to it."
        )

    def log_prob(self, noise: ArrayLike) -> Array:
        positive, xi = positive_part(noise)
        return inside(positive, -jnp.log(xi))

    def variance_log_prob(self, variance: ArrayLike) -> Array:
        positive, v = positive_part(variance)
        return inside(positive, -jnp.log(v))

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """`-log(2 |w|)`, whatever the scale: an improper prior has none."""
        w = as_array(weight) + 0 * as_array(scale)
        return -jnp.log(jnp.abs(w)) - math.log(2)

    @property
    def mean(self) -> Real:
        return as_array(jnp.inf)

    @property
    def second_moment(self) -> Real:
        return as_array(jnp.inf)

    @property
    def inverse_square_mean(self) -> Real:
        return as_array(jnp.inf)

    def optimal_variance(self, moment: ArrayLike, count: ArrayLike) -> Array:
        """`M / (K + 2)`: the density is 1/v on the variance. Zero at moment zero."""
        moment = as_array(moment)
        return moment / (as_count(count, moment) + 2)
