"""A real target with Gaussian noise."""

import jax
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, ArrayLike

from scalemix._parameters import as_array, as_parameter
from scalemix._special import log_normal
from scalemix.likelihoods._base import LocationScale, raw_from_scale


class Gaussian(LocationScale):
    """`y ~ N(output, scale^2)`.

    `scale` is where the learned noise level starts. With `per_input=True` the network has two
    outputs, and the second decides the noise level of each input.
    """

    def __init__(self, scale: ArrayLike = 1.0, *, floor: ArrayLike = 1e-3, per_input: bool = False):
        self.raw_scale = raw_from_scale("Gaussian", scale, floor)
        self.floor = as_parameter(floor)
        self.per_input = per_input

    def log_prob(self, output, y):
        return log_normal(as_array(self.target(y)) - self.mean(output), self.scale(output))

    def cdf(self, output, y):
        return ndtr(self._error(output, y))

    def sf(self, output, y):
        return ndtr(-self._error(output, y))

    def _error(self, output: Array, y: ArrayLike) -> Array:
        return (as_array(self.target(y)) - self.mean(output)) / self.scale(output)

    def variance(self, output):
        return self.scale(output) ** 2

    def sample(self, output, *, key):
        mean = self.mean(output)
        return mean + self.scale(output) * jax.random.normal(key, mean.shape, mean.dtype)

    def constant_log_prob(self, y, weight):
        variance = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
        scale = max(np.sqrt(variance), float(self.floor), np.finfo(np.float32).tiny)
        return float(-0.5 * np.log(2 * np.pi) - np.log(scale) - 0.5 * variance / scale**2)
