"""A positive target whose logarithm is Gaussian."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import Real, as_parameter
from scalemix._special import inside, log_normal, positive_part
from scalemix.likelihoods._dispersed import Dispersed, raw_from_scale
from scalemix.likelihoods.gaussian import Gaussian


class LogNormal(Dispersed):
    """A positive target whose logarithm is Gaussian: `log y ~ N(output, scale^2)`.

    The output is the logarithm of the median, and `scale` the relative noise: about 0.1 where
    targets are ten per cent off. Targets are divided by their geometric mean, not shifted.

    Parameters
    ----------
    scale : float or array, default 1.0
        The noise level of the logarithm that learning starts from. Not used with `per_input`.
    floor : float or array, default 1e-3
        What the noise level always stays above.
    per_input : bool, default False
        Whether the network has a second output that decides the noise level of each input. By
        default one level is learned for all.

    Examples
    --------
    >>> likelihood = sx.likelihoods.LogNormal(0.5)
    >>> output = jnp.log(jnp.array(3.0))
    >>> round(float(likelihood.cdf(output, 3.0)), 6), float(likelihood.cdf(output, -1.0))
    (0.5, 0.0)
    """

    summary: ClassVar[str] = "a positive number with Gaussian noise on its logarithm"
    continuous_units = True
    support: ClassVar[tuple[float, float]] = (0.0, jnp.inf)

    def __init__(self, scale: ArrayLike = 1.0, *, floor: ArrayLike = 1e-3, per_input: bool = False):
        self.raw_scale: Array = raw_from_scale("LogNormal", scale, floor)
        self.floor: Real = as_parameter(floor)
        self.per_input = per_input

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        is_positive, y = positive_part(self.target(y))
        log_y = jnp.log(y)
        density = log_normal(log_y - self.one(output)[0], self.scale(output)) - log_y
        return inside(is_positive, density)

    def mean(self, output: Array) -> Array:
        return jnp.exp(self.one(output)[0] + 0.5 * self.scale(output) ** 2)

    def variance(self, output: Array) -> Array:
        return self.mean(output) ** 2 * jnp.expm1(self.scale(output) ** 2)

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        is_positive, error = self._error(output, y)
        return jnp.where(is_positive, ndtr(error), 0.0)

    def sf(self, output: Array, y: ArrayLike) -> Array:
        is_positive, error = self._error(output, y)
        return jnp.where(is_positive, ndtr(-error), 1.0)

    def log_sf(self, output: Array, y: ArrayLike) -> Array:
        is_positive, error = self._error(output, y)
        return jnp.where(is_positive, log_ndtr(-error), 0.0)

    def _error(self, output: Array, y: ArrayLike) -> tuple[Array, Array]:
        is_positive, y = positive_part(self.target(y))
        return is_positive, (jnp.log(y) - self.one(output)[0]) / self.scale(output)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        centre = self.one(output)[0]
        return jnp.exp(centre + self.scale(output) * jax.random.normal(key, (), centre.dtype))

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        log_y = np.log(np.asarray(y, np.float64))
        of_logarithms = Gaussian(floor=self.floor, scale=1.0 + 2 * self.floor)
        constant = of_logarithms.constant_log_prob(log_y, weight)
        return None if constant is None else constant - float(np.average(log_y, weights=weight))
