"""Two classes, zero and one."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import as_array
from scalemix.likelihoods._base import Likelihood, entropy


class Bernoulli(Likelihood):
    """Two classes, zero and one: `y ~ Bernoulli(sigmoid(output))`.

    The output is the log-odds of one.

    Examples
    --------
    >>> likelihood = sx.likelihoods.Bernoulli()
    >>> float(likelihood.mean(jnp.array(0.0)))
    0.5
    """

    summary: ClassVar[str] = "the probability of one of two classes"
    discrete = True

    @property
    def num_outputs(self) -> int:
        return 1

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        logit = self.one(output)[0]
        y = as_array(self.target(y))
        mass = y * jax.nn.log_sigmoid(logit) + (1 - y) * jax.nn.log_sigmoid(-logit)
        return jnp.where((y == 0) | (y == 1), mass, -jnp.inf)

    def mean(self, output: Array) -> Array:
        return jax.nn.sigmoid(self.one(output)[0])

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        y = as_array(self.target(y))
        below_one = jnp.where(y < 0, 0.0, jax.nn.sigmoid(-self.one(output)[0]))
        return jnp.where(y >= 1, 1.0, below_one)

    def sf(self, output: Array, y: ArrayLike) -> Array:
        y = as_array(self.target(y))
        above_zero = jnp.where(y < 0, 1.0, jax.nn.sigmoid(self.one(output)[0]))
        return jnp.where(y >= 1, 0.0, above_zero)

    def variance(self, output: Array) -> Array:
        logit = self.one(output)[0]
        return jax.nn.sigmoid(logit) * jax.nn.sigmoid(-logit)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        return jax.random.bernoulli(key, self.mean(output)).astype(output.dtype)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        share = np.average(y, weights=weight)
        return -entropy(np.array([1 - share, share]))
