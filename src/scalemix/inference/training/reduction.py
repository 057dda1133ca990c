"""From the log-likelihoods of draws and examples to one number per datum."""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

Weighting = Literal["example", "batch"]


def per_datum(
    over_draws: Callable[[Array], Array],
    log_likelihoods: Array,
    example_weights: Array | None,
    total: ArrayLike | None,
    weighting: Weighting,
) -> Array:
    """Reduce over draws, then over examples; or, for a shared draw, the other way round."""
    if example_weights is None:
        example_weights = jnp.ones_like(log_likelihoods[0])
    total = jnp.sum(example_weights) if total is None else total
    if weighting == "batch":
        return over_draws(batch_sums(log_likelihoods, example_weights)) / total
    return jnp.sum(over_draws(_counted(log_likelihoods, example_weights)) * example_weights) / total


def batch_sums(log_likelihoods: Array, example_weights: Array) -> Array:
    """Each draw's log-likelihood of the whole batch."""
    counted = _counted(log_likelihoods, example_weights)
    return jnp.sum(counted * example_weights[None, :], axis=1)


def _counted(log_likelihoods: Array, example_weights: Array) -> Array:
    """The log-likelihoods, but zero where the weight is: even of those that are not finite."""
    return jnp.where(example_weights > 0, log_likelihoods, 0.0)
