"""Objectives of noise training: arrays in, a scalar out, to be maximised.

`log_likelihoods[s, n]` is `l_s = log p(y_n | x_n, W, Xi_s)`: draws first, examples second.

Every objective is per datum: a sum over examples, each times its entry of `example_weights`,
divided by `total`. The sum of the weights is right for `total` where the examples are all there
are. A batch of B out of N examples needs `B / N` times the sum of all N weights instead: the sum of
the batch's own weights is biased, and may be zero.

With `weighting="example"` each example weighs its own draws, which suits noise that was drawn for
each example. With `"batch"` a draw is one for the whole batch, and its log-likelihood is the sum
over the batch. In the mean over draws the lower bound is the same either way. Importance weights
are not. With more and more draws they tend

- by batch to `log E p(y | X, Xi)`: one noise for all rows, as a prior on weights has it. That is
  the marginal MAP objective, and the paper's equation;
- by example to `sum_n log E p(y_n | x_n, Xi)`: a mixture with noise of its own for each row. There
  the network makes use of the noise, and learns to be right under some draws for some rows. Neither
  of the two is a bound on the other.

So `NoiseTraining` weighs by batch for importance weights, be they plain, truncated or smoothed, and
by example for the others.

In a batch of B out of N rows the sum is over these B rows alone. But for the small number of draws,
a step then maximises the likelihood of the batch under one noise: for B = N the paper's equation,
for B = 1 that by example. A sum scaled up by N / B to stand for all rows would be no bound: the
logarithm of a mean of exponentials is convex, so that in the mean over batches it lies above the
marginal MAP objective. It would also let the luck of a batch's rows choose one draw, as if it had
been seen N / B times.

Examples
--------
A training loop of one's own, in which `draw` and `outputs` put noise into the network, and
`penalty` is what the prior says of the weights:

>>> import optax
>>> from scalemix.inference import tail_adaptive
>>> inputs, targets = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
>>> def loss(learned, key):
...     current = model.with_learned(learned)
...     scales = current.draw((4, len(inputs)), key=key)
...     outputs = jax.vmap(lambda drawn: current.outputs(inputs, drawn))(scales)
...     log_prob = jax.vmap(current.likelihood.log_prob)
...     log_likelihoods = jax.vmap(lambda output: log_prob(output, targets))(outputs)
...     return current.penalty() / len(inputs) - tail_adaptive(log_likelihoods)
>>> optimizer = optax.sgd(1e-2)
>>> learned = eqx.filter(model, model.learnable())
>>> state = optimizer.init(learned)
>>> slope_of = jax.jit(jax.grad(loss))
>>> for step_key in jax.random.split(key, 3):
...     slope = slope_of(learned, step_key)
...     updates, state = optimizer.update(slope, state)
...     learned = optax.apply_updates(learned, updates)
>>> trained = model.with_learned(learned)
>>> trained.network(inputs[0]).shape
()
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

from scalemix.inference.training.reduction import Weighting, per_datum
from scalemix.inference.training.reweighted import pareto_smoothed, tail_adaptive, truncated
from scalemix.inference.training.weights import OF_DRAWS

Objective = Callable[..., Array]


def lower_bound(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The mean log-likelihood over draws, `mean_s l_s`: what dropout maximises.

    Parameters
    ----------
    log_likelihoods : array (draws, examples)
        `log p(y_n | x_n, W, Xi_s)` of each draw and example.
    example_weights : array (examples,), optional
        How often each example counts; one unless given, zero for padding.
    total : float, optional
        What the sum over examples is divided by; the sum of `example_weights` unless given.
    weighting : {"example", "batch"}, default "example"
        Whether each example weighs its own draws, or the batch as a whole.

    Returns
    -------
    array ()
        The objective per datum, to be maximised.

    Examples
    --------
    >>> from scalemix.inference import lower_bound
    >>> lower_bound(jnp.array([[-1.0, -2.0], [-3.0, -4.0]])).item()
    -2.5
    """
    return per_datum(
        lambda values: jnp.mean(values, axis=0), log_likelihoods, example_weights, total, weighting
    )


def importance_weighted(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The log of the mean likelihood over draws, `log (1/S) sum_s exp l_s`.

    The bound is tighter for every extra draw. With one draw it is the lower bound.

    Parameters
    ----------
    log_likelihoods : array (draws, examples)
        `log p(y_n | x_n, W, Xi_s)` of each draw and example.
    example_weights : array (examples,), optional
        How often each example counts; one unless given, zero for padding.
    total : float, optional
        What the sum over examples is divided by; the sum of `example_weights` unless given.
    weighting : {"example", "batch"}, default "example"
        Whether each example weighs its own draws, or the batch as a whole.

    Returns
    -------
    array ()
        The objective per datum, to be maximised.

    Examples
    --------
    >>> from scalemix.inference import importance_weighted
    >>> round(importance_weighted(jnp.log(jnp.array([[0.1], [0.3]]))).item(), 4)
    -1.6094
    """

    def log_mean_exp(values: Array) -> Array:
        return jax.nn.logsumexp(values, axis=0) - jnp.log(values.shape[0])

    return per_datum(log_mean_exp, log_likelihoods, example_weights, total, weighting)


def hierarchical(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The log-likelihood `log p(y | x, W)` with no noise in the network (the paper's MN-HP).

    The noise is in the penalty instead, `model.penalty("hierarchical")`: each weight's square
    counts `E[xi^-2]` times.

    Parameters
    ----------
    log_likelihoods : array (draws, examples)
        `log p(y_n | x_n, W)` of each example: one row, for there are no draws.
    example_weights : array (examples,), optional
        How often each example counts; one unless given, zero for padding.
    total : float, optional
        What the sum over examples is divided by; the sum of `example_weights` unless given.
    weighting : {"example", "batch"}, default "example"
        Whether each example weighs its own draws, or the batch as a whole.

    Returns
    -------
    array ()
        The objective per datum, to be maximised.

    Raises
    ------
    ValueError
        If there is more than one row.

    Examples
    --------
    >>> from scalemix.inference import hierarchical
    >>> hierarchical(jnp.array([[-1.0, -2.0]])).item()
    -1.5
    """
    if log_likelihoods.shape[0] != 1:
        raise ValueError(
            f"The hierarchical objective has no noise in the network and takes one row of "
            f"log-likelihoods, got {log_likelihoods.shape[0]}."
        )
    return lower_bound(log_likelihoods, example_weights, total=total, weighting=weighting)


def objective_value(
    objective: str | Array,
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The objective of this name, or the one at this place in `OF_DRAWS`.

    A place is data, so that fits by different objectives are one program. All objectives are
    computed then, at a cost that is nothing beside the network's.
    """

    def value(name: str) -> Array:
        return OBJECTIVES[name](log_likelihoods, example_weights, total=total, weighting=weighting)

    if isinstance(objective, str):
        return value(objective)
    return jnp.stack([value(name) for name in OF_DRAWS])[objective]


OBJECTIVES: dict[str, Objective] = {
    "lower_bound": lower_bound,
    "importance_weighted": importance_weighted,
    "truncated": truncated,
    "pareto_smoothed": pareto_smoothed,
    "tail_adaptive": tail_adaptive,
    "hierarchical": hierarchical,
}
