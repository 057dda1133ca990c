"""Counts."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._incomplete import gammainc, gammaincc
from scalemix._parameters import as_array
from scalemix.likelihoods._base import Likelihood


class Poisson(Likelihood):
    """Counts: `y ~ Poisson(exp(output))`.

    The output is the logarithm of the rate.

    Examples
    --------
    >>> likelihood = sx.likelihoods.Poisson()
    >>> float(likelihood.mean(jnp.array(0.0)))
    1.0
    """

    summary: ClassVar[str] = "a rate of counts"
    discrete = True

    @property
    def num_outputs(self) -> int:
        return 1

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        log_rate = self.one(output)[0]
        y = as_array(self.target(y))
        count = jnp.where(y >= 0, y, 0.0)
        mass = count * log_rate - jnp.exp(log_rate) - gammaln(count + 1)
        return jnp.where((y >= 0) & (y == jnp.floor(y)), mass, -jnp.inf)

    def mean(self, output: Array) -> Array:
        return jnp.exp(self.one(output)[0])

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        y = jnp.floor(as_array(self.target(y)))
        return jnp.where(y < 0, 0.0, gammaincc(jnp.maximum(y, 0.0) + 1, self.mean(output)))

    def sf(self, output: Array, y: ArrayLike) -> Array:
        y = jnp.floor(as_array(self.target(y)))
        return jnp.where(y < 0, 1.0, gammainc(jnp.maximum(y, 0.0) + 1, self.mean(output)))

    def variance(self, output: Array) -> Array:
        return self.mean(output)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        return jax.random.poisson(key, self.mean(output)).astype(output.dtype)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        rate = max(np.average(y, weights=weight), np.finfo(np.float32).tiny)
        factorials = np.vectorize(math.lgamma, otypes=[float])(np.asarray(y, float) + 1)
        masses = y * np.log(rate) - rate - factorials
        return float(np.average(masses, weights=weight))
