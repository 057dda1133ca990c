"""The weight that each draw of noise has in the gradient of an objective.

By Fisher's identity the gradient of `log E p(y | X, Xi)` is the mean of `grad l` over the noise
given the data, `p(Xi | y, X)`. Draws from the prior estimate that mean with weights in proportion
to `exp l_s`, which are the weights of `importance_weighted`. A few draws may have nearly all of the
weight, and the estimate is then as uncertain as those few make it. Truncated and Pareto-smoothed
weights have less variance, for a little bias. Weights by rank do not estimate that mean at all.

Each function takes `log_likelihoods[s, ...]`, draws along the first axis, and gives weights of the
same shape that sum to one over the draws. No gradient flows through them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from scalemix._pareto import smooth


def equal_weights(log_likelihoods: Array) -> Array:
    """`w_s = 1 / S`."""
    return jnp.full_like(log_likelihoods, 1 / log_likelihoods.shape[0])


def plain_weights(log_likelihoods: Array) -> Array:
    """`w_s ~ exp l_s`."""
    return jax.nn.softmax(jax.lax.stop_gradient(log_likelihoods), axis=0)


def tail_adaptive_weights(log_likelihoods: Array) -> Array:
    """`w_s ~ 1 / #{k : l_k >= l_s}`: the best draw has rank one."""
    # Draws that tie share the larger count.
    fixed = jax.lax.stop_gradient(log_likelihoods)
    ranks = jnp.sum(fixed[None] >= fixed[:, None], axis=1).astype(fixed.dtype)
    return (1 / ranks) / jnp.sum(1 / ranks, axis=0, keepdims=True)


def truncated_weights(log_likelihoods: Array) -> Array:
    """`w_s ~ min(exp l_s, sqrt(S) mean_k exp l_k)`."""
    # With weights that sum to one, the mean is 1 / S.
    weights = plain_weights(log_likelihoods)
    cut = jnp.minimum(weights, weights.shape[0] ** -0.5)
    return cut / jnp.sum(cut, axis=0, keepdims=True)


def pareto_smoothed_weights(log_likelihoods: Array) -> Array:
    """`w_s ~ exp l_s`, but the largest are quantiles of a distribution fitted to them."""
    fixed = jax.lax.stop_gradient(log_likelihoods)
    columns = fixed.reshape(fixed.shape[0], -1)
    smoothed = jax.vmap(lambda values: smooth(values).log_weights, 1, 1)(columns)
    return jax.nn.softmax(smoothed, axis=0).reshape(fixed.shape)


WEIGHTS: dict[str, Callable[[Array], Array]] = {
    "lower_bound": equal_weights,
    "importance_weighted": plain_weights,
    "truncated": truncated_weights,
    "pareto_smoothed": pareto_smoothed_weights,
    "tail_adaptive": tail_adaptive_weights,
    "hierarchical": equal_weights,
}
# The objectives that draw noise. Fits by any of these can run as one program.
OF_DRAWS = tuple(name for name in WEIGHTS if name != "hierarchical")


def importance_weights(objective: str | Array, log_likelihoods: Array) -> Array:
    """The weights of the objective of this name, or of the one at this place in `OF_DRAWS`."""
    if isinstance(objective, str):
        return WEIGHTS[objective](log_likelihoods)
    return jnp.stack([WEIGHTS[name](log_likelihoods) for name in OF_DRAWS])[objective]


def weighted_sum(weights: Array, log_likelihoods: Array) -> Array:
    """`sum_s w_s l_s`. A draw without weight counts for nothing, even if it is impossible."""
    return jnp.sum(weights * jnp.where(weights > 0, log_likelihoods, 0.0), axis=0)
