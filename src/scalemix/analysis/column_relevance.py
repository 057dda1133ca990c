"""The prior's relevance of the columns of a table, of which each may have become several inputs."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from scalemix.networks import ColumnLinear, ColumnReader
from scalemix.posterior.posterior import Posterior


def column_relevance(
    posterior: Posterior, x: np.ndarray, groups: Sequence[Sequence[int]]
) -> np.ndarray:
    """Each column's share of the variance that the prior gives to what the first layer passes on.

    With the scales that the fit has found, a weight that reads input `i` has the prior variance
    `v_i`, and a unit receives `sum_i w_i x_i`. Over weights and rows, column `c` gives to the
    variance of that

        sum over its inputs of  v_i var(x_i)

    with inputs as the network sees them. So a column with many bins or categories counts by what
    all of them do together, rare categories count little, and an input that a member of an ensemble
    does not read counts for nothing there. Shares are averaged over the members.

    Parameters
    ----------
    posterior : Posterior
        What a fit returned.
    x : numpy.ndarray of shape (rows, inputs)
        Rows, such as those of training.
    groups : sequence of sequences of int
        The inputs that each column became.

    Returns
    -------
    numpy.ndarray
        One share for each column; they add up to one.

    Raises
    ------
    ValueError
        Where it cannot be told which weights read the inputs, or where scales are not known.

    Examples
    --------
    >>> from scalemix.analysis.column_relevance import column_relevance
    >>> shares = column_relevance(post, x, [[0], [1, 2]])
    >>> shares.shape, round(float(shares.sum()), 3)
    ((2,), 1.0)
    """
    return shares_of_columns(posterior, input_variances(posterior, x), groups)


def input_variances(
    posterior: Posterior, x: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """The variance of each input as the network sees it, over rows that may have weights.

    Of an input that is looked up, the variance of all that it stands for: whether each level is
    there.
    """
    scaling = posterior.scaling
    seen = scaling.drawn_in(scaling.inputs(np.asarray(x, np.float64)))
    mean = np.average(seen, axis=0, weights=weight)
    variances = np.average((seen - mean) ** 2, axis=0, weights=weight)
    model = posterior.model
    for _, _, places in model.lookups(jax.ShapeDtypeStruct(seen.shape[1:], model.dtype)):
        for place in np.concatenate(places).tolist():
            # The position says nothing; what varies is which level is there: the sum of
            # p (1 - p) over inputs of zeros and ones.
            _, levels = np.unique(seen[:, place], return_inverse=True)
            shares = np.bincount(levels, weight) / np.bincount(levels, weight).sum()
            variances[place] = 1 - np.sum(shares**2)
    return variances


def shares_of_columns(
    posterior: Posterior, variances_of_inputs: np.ndarray, groups: Sequence[Sequence[int]]
) -> np.ndarray:
    """As `column_relevance`, where the variances of the inputs are known."""
    shares = []
    for member in posterior.members:
        relevance = member.relevance()
        if not len(relevance.inputs):
            raise ValueError(f"{relevance.remarks[0]}.")
        variances = relevance.inputs * _is_read(member) * variances_of_inputs
        by_column = np.array([variances[list(places)].sum() for places in groups])
        shares.append(by_column / max(by_column.sum(), np.finfo(float).tiny))
    return np.mean(shares, axis=0)


def _is_read(member: Posterior) -> np.ndarray:
    """Which inputs a network reads: all, unless its first layer says otherwise."""
    nodes = jax.tree.leaves(member.model.network, is_leaf=_knows_columns)
    layers = [node for node in nodes if _knows_columns(node)]
    return np.asarray(layers[0].reads, np.float64) if len(layers) == 1 else np.ones(1)


def _knows_columns(node: Any) -> bool:
    return isinstance(node, ColumnLinear | ColumnReader)
