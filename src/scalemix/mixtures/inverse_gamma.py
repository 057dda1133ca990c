"""An inverse-gamma variance: inverse Nakagami noise; the Student-t prior. One family, two names."""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import inside, log_gamma_half_step, positive_part
from scalemix.mixtures._base import ScaleMixture, as_count

# Noise of a tiny shape can exceed what float32 holds; it is cut at exp(80).
LOG_LARGEST = 80.0


class _StudentT(ScaleMixture):
    """What both names share: `v ~ InverseGamma(shape, rate)`."""

    @property
    @abc.abstractmethod
    def _variance_shape(self) -> Real: ...

    @property
    @abc.abstractmethod
    def _variance_rate(self) -> Real: ...

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        log_gamma = jax.random.loggamma(key, self._variance_shape, shape, dtype)
        log_noise = 0.5 * (jnp.log(self._variance_rate) - log_gamma)
        return jnp.exp(jnp.minimum(log_noise, LOG_LARGEST)).astype(dtype)

    def log_prob(self, noise: ArrayLike) -> Array:
        positive, xi = positive_part(noise)
        normaliser = (
            self._variance_shape * jnp.log(self._variance_rate)
            - gammaln(self._variance_shape)
            + math.log(2)
        )
        density = (
            normaliser - (2 * self._variance_shape + 1) * jnp.log(xi) - self._variance_rate / xi**2
        )
        return inside(positive, density)

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """Student-t with `2 shape` degrees of freedom."""
        # (w / unit)^2 / dof = w^2 / (2 rate scale^2)
        unit = jnp.sqrt(2 * self._variance_rate) * as_array(scale)
        ratio = (as_array(weight) / unit) ** 2
        normaliser = (
            log_gamma_half_step(self._variance_shape) - 0.5 * math.log(math.pi) - jnp.log(unit)
        )
        return normaliser - (self._variance_shape + 0.5) * jnp.log1p(ratio)

    @property
    def mean(self) -> Real:
        # sqrt(rate) Gamma(shape - 1/2) / Gamma(shape)
        finite = self._variance_shape > 0.5
        below = jnp.where(finite, self._variance_shape - 0.5, 1.0)
        log_mean = 0.5 * jnp.log(self._variance_rate) - log_gamma_half_step(below)
        return jnp.where(finite, jnp.exp(log_mean), jnp.inf)

    @property
    def second_moment(self) -> Real:
        finite = self._variance_shape > 1
        return jnp.where(
            finite, self._variance_rate / jnp.where(finite, self._variance_shape - 1, 1.0), jnp.inf
        )

    @property
    def inverse_square_mean(self) -> Real:
        return self._variance_shape / self._variance_rate

    def optimal_variance(self, moment: ArrayLike, count: ArrayLike) -> Array:
        """Never zero. As shape and rate go to zero, the update becomes that of `LogUniform`."""
        moment = as_array(moment)
        return (moment + 2 * self._variance_rate) / (
            as_count(count, moment) + 2 * self._variance_shape + 2
        )


class InverseGamma(_StudentT):
    """`xi^2 ~ InverseGamma(shape, rate)`: Student-t weights with `2 shape` degrees of freedom.

    Parameters
    ----------
    shape : float
        The shape of the variance's distribution, positive. The smaller, the heavier the tails.
    rate : float
        Its rate, positive. The most probable variance is `rate / (shape + 1)`.

    Examples
    --------
    >>> print(sx.InverseGamma(3.0, 3.0).second_moment)
    1.5
    """

    shape: Real = eqx.field(converter=as_parameter)
    rate: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.shape > 0, f"InverseGamma: shape must be positive, got {self.shape}.")
        require(self.rate > 0, f"InverseGamma: rate must be positive, got {self.rate}.")

    @property
    def _variance_shape(self):
        return self.shape

    @property
    def _variance_rate(self):
        return self.rate


class InverseNakagami(_StudentT):
    """`1 / xi ~ Nakagami(shape, spread)`: the variance is `InverseGamma(shape, shape / spread)`.

    Parameters
    ----------
    shape : float
        The shape of the Nakagami distribution, positive.
    spread : float
        Its spread `E[xi^-2]`, positive.

    Examples
    --------
    >>> sx.InverseNakagami(2.0, 0.5).inverse_square_mean
    0.5
    """

    shape: Real = eqx.field(converter=as_parameter)
    spread: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.shape > 0, f"InverseNakagami: shape must be positive, got {self.shape}.")
        require(self.spread > 0, f"InverseNakagami: spread must be positive, got {self.spread}.")

    @property
    def _variance_shape(self):
        return self.shape

    @property
    def _variance_rate(self):
        return self.shape / self.spread
