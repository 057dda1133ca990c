"""Objectives that weigh draws otherwise than by their likelihood alone: `sum_s w_s l_s`.

`scalemix.inference.training.objectives` says what all objectives have in common, and
`scalemix.inference.training.weights` has the weights.
"""

from jaxtyping import Array, ArrayLike

from scalemix.inference.training.reduction import Weighting, per_datum
from scalemix.inference.training.weights import (
    pareto_smoothed_weights,
    tail_adaptive_weights,
    truncated_weights,
    weighted_sum,
)


def truncated(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The log-likelihood averaged with truncated importance weights, `sum_s w_s l_s`.

    `w_s` is in proportion to `min(exp l_s, sqrt(S) mean_k exp l_k)` (Ionides, 2008). No draw then
    outweighs the others as far as it does in `importance_weighted`, unless it alone has any weight.
    The weights are constant in the gradient, which so estimates that of `log E p(y | X, Xi)`: with
    many draws hardly any weight is cut. The value itself is no bound on that objective.

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

    References
    ----------
    Ionides, E. L. (2008). Truncated importance sampling. Journal of Computational and Graphical
    Statistics 17(2).

    Examples
    --------
    Of four weights, the largest is cut from 7/10 to 1/2 of their sum:

    >>> from scalemix.inference import truncated
    >>> values = jnp.log(jnp.array([[0.7], [0.1], [0.1], [0.1]]))
    >>> round(truncated(values).item(), 4)
    -1.0864
    """

    def cut(values: Array) -> Array:
        return weighted_sum(truncated_weights(values), values)

    return per_datum(cut, log_likelihoods, example_weights, total, weighting)


def pareto_smoothed(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The log-likelihood averaged with Pareto-smoothed importance weights, `sum_s w_s l_s`.

    `w_s` is in proportion to `exp l_s`, but for the `min(S / 5, 3 sqrt(S))` largest: in their place
    are the quantiles of a generalised Pareto distribution that is fitted to them, none larger than
    the largest weight (Vehtari et al., 2024). The weights are constant in the gradient, which so
    estimates that of `log E p(y | X, Xi)`. The value itself is no bound on that objective.

    A tail is fitted to five weights or more. With 20 draws or fewer, and where draws tie so that
    fewer than five are above the rest, the weights are those of `importance_weighted`.

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

    See Also
    --------
    scalemix.Posterior.pareto_k : How heavy the tail of a fit's weights is.

    References
    ----------
    Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance
    sampling. Journal of Machine Learning Research 25(72).

    Examples
    --------
    >>> from scalemix.inference import pareto_smoothed
    >>> values = 2 * jax.random.normal(key, (100, 3))
    >>> pareto_smoothed(values).shape
    ()
    """

    def smooth(values: Array) -> Array:
        return weighted_sum(pareto_smoothed_weights(values), values)

    return per_datum(smooth, log_likelihoods, example_weights, total, weighting)


def tail_adaptive(
    log_likelihoods: Array,
    example_weights: Array | None = None,
    *,
    total: ArrayLike | None = None,
    weighting: Weighting = "example",
) -> Array:
    """The log-likelihood averaged with weights by rank, `sum_s w_s l_s`.

    `w_s` is in proportion to `1 / #{k : l_k >= l_s}`, so that the best draw counts most. The
    weights are constant in the gradient.

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
    >>> from scalemix.inference import tail_adaptive
    >>> round(tail_adaptive(jnp.array([[-1.0], [-4.0]])).item(), 4)
    -2.0
    """

    def by_rank(values: Array) -> Array:
        return weighted_sum(tail_adaptive_weights(values), values)

    return per_datum(by_rank, log_likelihoods, example_weights, total, weighting)
