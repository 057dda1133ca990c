"""How well a state predicts rows that were held out."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import side_key
from scalemix.data.batches import Data
from scalemix.likelihoods import Likelihood
from scalemix.networks.rows import seed

# How many pairs of row and draw are scored side by side.
ROWS_TOGETHER = 4096


class RowScores(NamedTuple):
    """The scores of each held-out row under a state."""

    log_prob: Array
    """`log (1/S) sum_s p(y | x, W_s)`"""
    cdf: Array
    """`(1/S) sum_s P(Y <= y | x, W_s)`. Not a number unless targets are real-valued. Of several
    targets each has its own."""


def score_rows(
    network: Callable[[PRNGKeyArray], Any], likelihood: Likelihood, keys: PRNGKeyArray, data: Data
) -> RowScores:
    """The scores of each row, a network drawn for each key."""

    def one(x: Array, y: Array) -> RowScores:
        def under(key: PRNGKeyArray) -> tuple[Array, Array]:
            output = seed(network(key), side_key(key))(x)
            return likelihood.log_prob(output, y), likelihood.score(output, y)

        log_probs, cdfs = jax.vmap(under)(keys)
        return RowScores(jax.nn.logsumexp(log_probs) - jnp.log(len(keys)), jnp.mean(cdfs, axis=0))

    together = max(1, ROWS_TOGETHER // len(keys))
    return jax.lax.map(lambda row: one(*row), data[:2], batch_size=together)


def weighted_mean(values: Array, weight: Array) -> Array:
    """The mean over rows, without those of weight zero, whatever their value."""
    return jnp.sum(jnp.where(weight > 0, values, 0.0) * weight) / jnp.sum(weight)
