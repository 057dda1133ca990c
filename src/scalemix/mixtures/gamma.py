"""A gamma-distributed variance. With shape one: Rayleigh noise; the Laplace prior."""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import LOG_2PI, inside, log_gamma_half_step, positive_part
from scalemix.mixtures._base import ScaleMixture, as_count
from scalemix.mixtures._quadrature import log_integral


def _sample(shape, key, dtype, gamma_shape, rate):
    # In logs: a small shape gives variances that a float32 cannot hold.
    log_gamma = jax.random.loggamma(key, gamma_shape, shape, dtype)
    return jnp.exp(0.5 * (log_gamma - jnp.log(rate))).astype(dtype)


def _log_prob(noise, shape, rate):
    # v ~ Gamma(shape, rate), xi = sqrt(v).
    positive, xi = positive_part(noise)
    normaliser = shape * jnp.log(rate) - gammaln(shape) + math.log(2)
    return inside(positive, normaliser + (2 * shape - 1) * jnp.log(xi) - rate * xi**2)


def _optimal_variance(moment, count, shape, rate):
    # The positive root of 2 rate v^2 + (K - 2 shape + 2) v - M = 0, free of cancellation.
    moment = as_array(moment)
    linear = as_count(count, moment) - 2 * shape + 2
    root = jnp.sqrt(linear**2 + 8 * rate * moment)
    growing = linear > 0
    return jnp.where(
        growing,
        2 * moment / jnp.where(growing, linear + root, 1.0),
        (root - linear) / (4 * rate),
    )


class Gamma(ScaleMixture):
    """`xi^2 ~ Gamma(shape, rate)`: Nakagami noise; the variance-gamma prior.

    Parameters
    ----------
    shape : float
        The shape of the variance's gamma distribution, positive. Up to a half, the weight's density
        has a pole at zero.
    rate : float
        Its rate, positive. The mean variance is `shape / rate`.

    Examples
    --------
    >>> sx.Gamma(2.0, 4.0).second_moment
    0.5
    """

    shape: Real = eqx.field(converter=as_parameter)
    rate: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.shape > 0, f"Gamma: shape must be positive, got {self.shape}.")
        require(self.rate > 0, f"Gamma: rate must be positive, got {self.rate}.")

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        return _sample(shape, key, dtype, self.shape, self.rate)

    def log_prob(self, noise: ArrayLike) -> Array:
        return _log_prob(noise, self.shape, self.rate)

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """By quadrature; infinite at zero when the shape is at most a half."""
        unit = as_array(scale) / jnp.sqrt(self.rate)
        x = jnp.abs(as_array(weight)) / unit
        return _standard_marginal(x, self.shape) - jnp.log(unit)

    @property
    def mean(self) -> Real:
        return jnp.exp(log_gamma_half_step(self.shape) - 0.5 * jnp.log(self.rate))

    @property
    def second_moment(self) -> Real:
        return self.shape / self.rate

    @property
    def inverse_square_mean(self) -> Real:
        above = self.shape > 1
        return jnp.where(above, self.rate / jnp.where(above, self.shape - 1, 1.0), jnp.inf)

    def optimal_variance(self, moment: ArrayLike, count: ArrayLike) -> Array:
        """Zero at moment zero if at least `2 shape - 2` weights share the variance."""
        return _optimal_variance(moment, count, self.shape, self.rate)


@jax.jit
@jnp.vectorize
def _standard_marginal(x: Array, shape: Array) -> Array:
    """Log density at x >= 0 of `sqrt(v) z` with `v ~ Gamma(shape, 1)`, over `v = exp(2 t)`."""

    def log_integrand(t: Array, x: Array, shape: Array) -> Array:
        return (2 * shape - 1) * t - jnp.exp(2 * t) - 0.5 * (x * jnp.exp(-t)) ** 2

    pole = (x == 0) & (shape <= 0.5)
    safe = jnp.where(pole, 1.0, x)
    lower, upper = jnp.full_like(x, -42.0), jnp.full_like(x, 42.0)
    log_mass = log_integral(log_integrand, lower, upper, safe, shape)
    density = log_mass + math.log(2) - 0.5 * LOG_2PI - gammaln(shape)
    return jnp.where(pole, jnp.inf, density)


class _Laplace(ScaleMixture):
    """What Rayleigh and Exponential share: the variance is exponential."""

    @property
    @abc.abstractmethod
    def _variance_rate(self) -> Real: ...

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        exponential = jax.random.exponential(key, shape, dtype)
        return jnp.sqrt(exponential / self._variance_rate).astype(dtype)

    def log_prob(self, noise: ArrayLike) -> Array:
        return _log_prob(noise, 1.0, self._variance_rate)

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """Laplace."""
        unit = as_array(scale) / jnp.sqrt(2 * self._variance_rate)
        return -jnp.abs(as_array(weight)) / unit - jnp.log(2 * unit)

    @property
    def mean(self) -> Real:
        return 0.5 * jnp.sqrt(math.pi / self._variance_rate)

    @property
    def second_moment(self) -> Real:
        return 1 / self._variance_rate

    @property
    def inverse_square_mean(self) -> Real:
        return jnp.full_like(self._variance_rate, jnp.inf)

    def optimal_variance(self, moment: ArrayLike, count: ArrayLike) -> Array:
        """Zero at moment zero, for any rate and count: the family can switch a unit off."""
        return _optimal_variance(moment, count, 1.0, self._variance_rate)


class Exponential(_Laplace):
    """`xi^2 ~ Exponential(rate)`: Rayleigh noise of scale `1 / sqrt(2 rate)`; the Laplace prior.

    Parameters
    ----------
    rate : float
        The rate of the variance, positive. The mean variance is `1 / rate`.

    Examples
    --------
    >>> sx.Exponential(2.0).second_moment
    0.5
    """

    rate: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.rate > 0, f"Exponential: rate must be positive, got {self.rate}.")

    @property
    def _variance_rate(self):
        return self.rate


class Rayleigh(_Laplace):
    """`xi ~ Rayleigh(scale)`: an exponential variance of mean `2 scale^2`; the Laplace prior.

    Parameters
    ----------
    scale : float
        The most probable noise, positive.

    Examples
    --------
    >>> sx.Rayleigh(0.5).second_moment
    0.5
    """

    scale: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.scale > 0, f"Rayleigh: scale must be positive, got {self.scale}.")

    @property
    def _variance_rate(self):
        return 0.5 / self.scale**2
