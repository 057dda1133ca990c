"""A real target with Gaussian noise."""

import math
from typing import Any, ClassVar

import jax
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter
from scalemix._special import log_normal
from scalemix.likelihoods._dispersed import LocationScale, raw_from_scale


class Gaussian(LocationScale):
    """A real target with Gaussian noise: `y ~ N(output, scale^2)`.

    Parameters
    ----------
    scale : float or array, default 1.0
        The noise level that learning starts from, in the units that the network sees: standard
        deviations of the target where it is standardised. Not used with `per_input`.
    floor : float or array, default 1e-3
        What the noise level always stays above.
    per_input : bool, default False
        Whether the network has a second output that decides the noise level of each input. By
        default one level is learned for all.

    Examples
    --------
    >>> sx.likelihoods.Gaussian(0.5).num_outputs
    1
    >>> noisy = sx.likelihoods.Gaussian(per_input=True)
    >>> noisy.num_outputs
    2
    >>> bool(noisy.scale(jnp.array([0.0, 3.0])) > noisy.scale(jnp.array([0.0, -3.0])))
    True
    """

    summary: ClassVar[str] = "Gaussian noise around the network's output"

    def __init__(self, scale: ArrayLike = 1.0, *, floor: ArrayLike = 1e-3, per_input: bool = False):
        self.raw_scale: Array = raw_from_scale("Gaussian", scale, floor)
        self.floor: Real = as_parameter(floor)
        self.per_input = per_input

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        return log_normal(as_array(self.target(y)) - self.mean(output), self.scale(output))

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        return ndtr(self.error(output, y))

    def sf(self, output: Array, y: ArrayLike) -> Array:
        return ndtr(-self.error(output, y))

    def joint_log_prob(self, square: Array, num: Array) -> Array:
        return -0.5 * (num * math.log(2 * math.pi) + square)

    def joint_sample(self, num: int, dtype: Any, *, key: PRNGKeyArray) -> Array:
        return jax.random.normal(key, (num,), dtype)

    def variance(self, output: Array) -> Array:
        return self.scale(output) ** 2

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        mean = self.mean(output)
        return mean + self.scale(output) * jax.random.normal(key, mean.shape, mean.dtype)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
        scale = max(np.sqrt(variance), float(self.floor), np.finfo(np.float32).tiny)
        return float(-0.5 * np.log(2 * np.pi) - np.log(scale) - 0.5 * variance / scale**2)
