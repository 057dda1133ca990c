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


def predictive_score(
    network: Callable[[PRNGKeyArray], Any], likelihood: Likelihood, keys: PRNGKeyArray, data: Data
) -> Array:
    """The mean over the data of `log (1/S) sum_s p(y | x, W_s)`, a network drawn for each key."""

    def one(x: Array, y: Array) -> Array:
        values = jax.vmap(lambda key: likelihood.log_prob(network(key)(x), y))(keys)
        return jax.nn.logsumexp(values) - jnp.log(len(keys))

    values = jax.lax.map(lambda row: one(*row), data[:2], batch_size=ROWS_TOGETHER)
    counted = jnp.where(data.weight > 0, values, 0.0) * data.weight
    return jnp.sum(counted) / jnp.sum(data.weight)
