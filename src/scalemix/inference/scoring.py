"""How well a state does on data that were held out."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix.inference.batches import Data
from scalemix.likelihoods import Likelihood

# Rows that are scored side by side.
ROWS_TOGETHER = 512


def predictive_log_probs(
    network: Callable[[PRNGKeyArray], Any], likelihood: Likelihood, keys: PRNGKeyArray, data: Data
) -> Array:
    """`log (1/S) sum_s p(y | x, W_s)` of each row, a network drawn for each key."""

    def one(x: Array, y: Array) -> Array:
        values = jax.vmap(lambda key: likelihood.log_prob(network(key)(x), y))(keys)
        return jax.nn.logsumexp(values) - jnp.log(len(keys))

    return jax.lax.map(lambda row: one(*row), data[:2], batch_size=ROWS_TOGETHER)


def weighted_mean(values: Array, weight: Array) -> Array:
    """The mean over rows; those that only pad do not count, whatever their value."""
    return jnp.sum(jnp.where(weight > 0, values, 0.0) * weight) / jnp.sum(weight)
