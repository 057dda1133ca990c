"""A positive target whose spread grows with its mean."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._incomplete import gammainc, gammaincc
from scalemix._parameters import Real, as_parameter
from scalemix._special import inside, positive_part
from scalemix.likelihoods._dispersed import Dispersed, raw_from_scale
from scalemix.likelihoods._search import best_scale


class Gamma(Dispersed):
    """A positive target whose spread grows with its mean: the deviation is `scale * mean`.

    The output is the logarithm of the mean. In the usual parameters the shape is `1 / scale^2`, and
    with a `scale` of one targets are exponential. They are divided by their geometric mean, not
    shifted. Where the relative noise is below the floor, `LogNormal` is nearly the same and more
    precise.

    Parameters
    ----------
    scale : float or array, default 1.0
        The relative noise that learning starts from. Not used with `per_input`.
    floor : float or array, default 0.05
        What the relative noise always stays above.
    per_input : bool, default False
        Whether the network has a second output that decides the noise level of each input. By
        default one level is learned for all.

    Examples
    --------
    >>> likelihood = sx.likelihoods.Gamma(0.5)
    >>> output = jnp.log(jnp.array(4.0))
    >>> round(float(likelihood.mean(output)), 4), round(float(likelihood.variance(output)), 4)
    (4.0, 4.0)
    """

    summary: ClassVar[str] = "a positive number whose spread grows with its mean (gamma)"
    continuous_units = True
    support: ClassVar[tuple[float, float]] = (0.0, jnp.inf)

    def __init__(self, scale: ArrayLike = 1.0, *, floor: ArrayLike = 0.05, per_input: bool = False):
        self.raw_scale: Array = raw_from_scale("Gamma", scale, floor)
        self.floor: Real = as_parameter(floor)
        self.per_input = per_input

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        is_positive, y = positive_part(self.target(y))
        shape, log_ratio = self._parameters(output, y)
        # The two brackets are differences of large numbers, and are taken before the product.
        shared = shape * (log_ratio - jnp.expm1(log_ratio))
        normaliser = shape * (jnp.log(shape) - 1) - gammaln(shape)
        return inside(is_positive, shared + normaliser - jnp.log(y))

    def _parameters(self, output: Array, y: Array) -> tuple[Array, Array]:
        """The shape, and the logarithm of y over the mean."""
        return 1 / self.scale(output) ** 2, jnp.log(y) - self.one(output)[0]

    def mean(self, output: Array) -> Array:
        return jnp.exp(self.one(output)[0])

    def variance(self, output: Array) -> Array:
        return (self.scale(output) * self.mean(output)) ** 2

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        is_positive, y = positive_part(self.target(y))
        shape, log_ratio = self._parameters(output, y)
        return jnp.where(is_positive, gammainc(shape, shape * jnp.exp(log_ratio)), 0.0)

    def sf(self, output: Array, y: ArrayLike) -> Array:
        is_positive, y = positive_part(self.target(y))
        shape, log_ratio = self._parameters(output, y)
        return jnp.where(is_positive, gammaincc(shape, shape * jnp.exp(log_ratio)), 1.0)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        shape = 1 / self.scale(output) ** 2
        # Drawn as a logarithm: where the shape is small, many are less than the least number.
        log_ratio = jax.random.loggamma(key, shape) - jnp.log(shape)
        return jnp.exp(self.one(output)[0] + log_ratio)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        # Whatever the noise, the best mean is that of the targets.
        y = np.asarray(y, np.float64)
        log_y = float(np.average(np.log(y), weights=weight))
        log_ratio = log_y - math.log(np.average(y, weights=weight))

        def under(scale: float) -> float:
            shape = 1 / scale**2
            return shape * (log_ratio + math.log(shape) - 1) - math.lgamma(shape) - log_y

        return best_scale(under, float(self.floor))
