"""Objectives of noise training: arrays in, a scalar out, to be maximised.

`log_likelihoods[s, n]` is `l_s = log p(y_n | x_n, W, Xi_s)`: draws first, examples second. With
`weighting="example"` each example weighs its own draws (noise was drawn for each example); with
`"batch"` a draw is one for the whole batch, and its log-likelihood is the batch's sum. Every
objective is per datum: a sum over examples, each times its entry of `example_weights` (one unless
given, zero for padding), divided by `total`. That is the sum of the weights unless given, which is
right where the examples are all there are. For a batch of B out of N examples with weights give
`B / N` times the sum of all N weights: a batch's own sum is biased, and may be zero.

The lower bound is the same either way, in the mean over draws. Importance weights are not: with
more and more draws they tend

- by batch to `log E p(y | X, Xi)`: one noise for all rows, as a prior on weights has it. That is
  the marginal MAP objective, and the paper's equation;
- by example to `sum_n log E p(y_n | x_n, Xi)`: noise of its own for each row, a mixture. There the
  network uses the noise, and learns to be right under some draws for some rows. This is no bound on
  the first, nor the first on this.

So `NoiseTraining` weighs by batch for importance weights, and by example for the others.

Of a batch of B out of N rows the sum is the batch's own. A step then maximises, but for the few
draws, the likelihood of these B rows under one noise: for B = N the paper's equation, for B = 1 by
example. A sum scaled up by N / B, for all rows, would be no bound: the logarithm of a mean of
exponentials is convex, and lies above the marginal MAP objective in the mean over batches. It would
also let the luck of a batch's rows choose one draw, as if it had been seen N / B times.
"""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

Weighting = Literal["example", "batch"]
Objective = Callable[..., Array]


def _per_datum(
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
    """A weight of zero must also silence what is not finite."""
    return jnp.where(example_weights > 0, log_likelihoods, 0.0)


def lower_bound(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """`mean_s l_s`: what dropout maximises."""
    return _per_datum(
        lambda values: jnp.mean(values, axis=0), log_likelihoods, example_weights, total, weighting
    )


def importance_weighted(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """`log (1/S) sum_s exp l_s`: tighter for every extra draw; one draw is the lower bound."""

    def log_mean_exp(values: Array) -> Array:
        return jax.nn.logsumexp(values, axis=0) - jnp.log(values.shape[0])

    return _per_datum(log_mean_exp, log_likelihoods, example_weights, total, weighting)


def tail_adaptive(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """`sum_s w_s l_s` with weights by rank, constant in the gradient."""

    def by_rank(values: Array) -> Array:
        return jnp.sum(tail_adaptive_weights(values) * values, axis=0)

    return _per_datum(by_rank, log_likelihoods, example_weights, total, weighting)


def tail_adaptive_weights(log_likelihoods: Array) -> Array:
    """`w_s ~ 1 / #{k : l_k >= l_s}`, normalised over draws: the best draw has rank one."""
    # Draws that tie share the larger count.
    fixed = jax.lax.stop_gradient(log_likelihoods)
    ranks = jnp.sum(fixed[None] >= fixed[:, None], axis=1).astype(fixed.dtype)
    return (1 / ranks) / jnp.sum(1 / ranks, axis=0, keepdims=True)


def hierarchical(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """`log p(y | x, W)` with no noise in the network (the paper's MN-HP).

    The noise is in the penalty instead: each weight's square counts `E[xi^-2]` times.
    """
    if log_likelihoods.shape[0] != 1:
        raise ValueError(
            f"The hierarchical objective has no noise in the network and takes one row of "
            f"log-likelihoods, got {log_likelihoods.shape[0]}."
        )
    return lower_bound(log_likelihoods, example_weights, total=total, weighting=weighting)


def importance_weights(objective: str | Array, log_likelihoods: Array) -> Array:
    """The weight that each draw has in the objective's gradient; they sum to one over draws."""
    if not isinstance(objective, str):
        return jnp.stack([importance_weights(n, log_likelihoods) for n in OF_DRAWS])[objective]
    if objective == "importance_weighted":
        return jax.nn.softmax(log_likelihoods, axis=0)
    if objective == "tail_adaptive":
        return tail_adaptive_weights(log_likelihoods)
    return jnp.full_like(log_likelihoods, 1 / log_likelihoods.shape[0])


def objective_value(
    objective: str | Array,
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The objective of this name, or the one at this place in `OF_DRAWS`.

    A place is data, so that fits by different objectives are one program. All are computed then,
    at a cost that is nothing beside the network's.
    """

    def value(name: str) -> Array:
        return OBJECTIVES[name](log_likelihoods, example_weights, total=total, weighting=weighting)

    if isinstance(objective, str):
        return value(objective)
    return jnp.stack([value(name) for name in OF_DRAWS])[objective]


OF_DRAWS = ("lower_bound", "importance_weighted", "tail_adaptive")
OBJECTIVES: dict[str, Objective] = {
    "lower_bound": lower_bound,
    "importance_weighted": importance_weighted,
    "tail_adaptive": tail_adaptive,
    "hierarchical": hierarchical,
}
