"""How much the predictions of some rows need each column: shuffle it, and see what is lost.

Two measures are taken. What the log-likelihood loses has all of the prediction in it, but a single
row that the model holds for impossible may decide it. The error of the prediction itself is what
most people mean, and it orders the columns.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import check_key
from scalemix.analysis.asking import Estimator, predict, predict_made_up, targets_of
from scalemix.analysis.baselines import row_losses
from scalemix.analysis.frames import column_of, names_of, number_of, replaced
from scalemix.likelihoods import Bernoulli
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive

RMSE, RMSE_OF_SEVERAL = "RMSE", "RMSE in spreads of the targets"
BRIER, LOG_LIKELIHOOD = "Brier score", "log-likelihood"


class Importance(NamedTuple):
    """How much predictions get worse when a column is shuffled among the rows.

    Attributes
    ----------
    loss : numpy.ndarray
        What the log-likelihood of a row loses on average, in nats, for each column.
    error : numpy.ndarray
        The standard error of each, from the rows and from the shuffles.
    rise : numpy.ndarray
        By how much the `measure` gets worse, for each column.
    rise_error : numpy.ndarray
        The standard error of each.
    measure : str
        The measure that orders the columns: "RMSE" of numbers, in spreads of the targets if there
        are several; "Brier score" of classes. Of times that were not all observed to the end it is
        the "log-likelihood", and `rise` is `loss`.

    Examples
    --------
    >>> from scalemix.analysis.effects import permutation_importance
    >>> importance = permutation_importance(post, x, y, num_shuffles=2, key=key)
    >>> importance.loss.shape, importance.measure
    ((3,), 'RMSE')
    """

    loss: np.ndarray
    error: np.ndarray
    rise: np.ndarray
    rise_error: np.ndarray
    measure: str

    @property
    def order(self) -> np.ndarray:
        """The columns by number: first those that are beyond chance, the most important first."""
        # A rise that one row decides may be the largest, and has a standard error to match.
        return np.lexsort((-self.rise, ~self.is_sure))

    @property
    def is_sure(self) -> np.ndarray:
        """Whether each column's `rise` is beyond two standard errors."""
        return self.rise > 2 * self.rise_error


def permutation_importance(
    model: Posterior | Estimator,
    x: Any,
    y: Any,
    *,
    groups: Sequence[Sequence[int | str]] | None = None,
    num_shuffles: int = 5,
    key: PRNGKeyArray,
) -> Importance:
    """How much the predictions of some rows need each column.

    It differs from the prior's relevance, which says how large the weights are that read a column.
    Large weights need not matter for predictions: their effects may cancel, or only rare rows may
    need them. And of two columns that say the same, both may have large weights, or either one.

    Parameters
    ----------
    model : Posterior or estimator
        As in `effect`.
    x : array_like of shape (rows, columns)
        Rows with known targets, best such as were not trained on.
    y : array_like
        Their targets. Classes are labels as an estimator's `classes_` has them; for a posterior
        they are counted from 0.
    groups : sequence of sequences of int or str, optional
        Columns to shuffle together, by number or by name in a data frame, such as those that one
        category became. By default each alone.
    num_shuffles : int, default 5
        How often each column is shuffled.
    key : PRNGKeyArray
        The randomness of the shuffles.

    Returns
    -------
    Importance
        What is lost without each column or group, by two measures, with standard errors.

    Examples
    --------
    >>> from scalemix.analysis.effects import permutation_importance
    >>> together = [[0], [1, 2]]
    >>> permutation_importance(post, x, y, groups=together, num_shuffles=2, key=key).error.shape
    (2,)
    """
    check_key(key, "key")
    groups = [[column] for column in range(np.shape(x)[1])] if groups is None else groups
    y, names = targets_of(model, y), names_of(x, model)
    predictive = predict(model, x)
    measure, costs_of = _measure(predictive, y)
    likely, costs = predictive.log_prob(y), costs_of(predictive)
    seeds = np.asarray(jax.random.bits(key, (len(groups), num_shuffles)))
    by_group = []
    for columns, own in zip(groups, seeds, strict=True):
        numbers = [number_of(x, column, names) for column in columns]
        falls, shuffled = [], []
        for seed in own.tolist():
            order = np.random.default_rng(seed).permutation(len(likely))
            table = x
            for column in numbers:
                table = replaced(table, column, column_of(x, column)[order])
            after = predict_made_up(model, table)
            falls.append(likely - after.log_prob(y))
            shuffled.append(costs_of(after))
        lost = _mean_and_error(np.array(falls))
        by_group.append((*lost, *_risen(costs, np.array(shuffled), measure, lost)))
    loss, error, rise, rise_error = np.array(by_group).reshape(-1, 4).T
    return Importance(loss, error, rise, rise_error, measure)


def _measure(predictive: Predictive, y: np.ndarray) -> tuple[str, Callable[..., np.ndarray]]:
    """The measure that orders columns, and what each row costs by it, before a root is taken."""
    likelihood = predictive.likelihood
    if not likelihood.ordered:
        share = 0.5 if likelihood.mean_shape[0] == 2 else 1.0
        truth = np.eye(likelihood.mean_shape[0])[y]
        return BRIER, lambda p: share * np.sum((p.mean - truth) ** 2, axis=1)
    if np.any(y < likelihood.support[0]):
        return LOG_LIKELIHOOD, lambda p: np.zeros(len(y))
    name = BRIER if isinstance(likelihood, Bernoulli) else RMSE
    return name if y.ndim == 1 else RMSE_OF_SEVERAL, lambda p: row_losses(p.mean, y, "real")


def _risen(
    before: np.ndarray, shuffled: np.ndarray, measure: str, lost: tuple[float, float]
) -> tuple[float, float]:
    """By how much a measure gets worse, and its standard error, from what rows cost.

    That of a root is from its slope at the mean cost: `d sqrt(m) = dm / (2 sqrt(m))`.
    """
    if measure == LOG_LIKELIHOOD:
        return lost
    if measure == BRIER:
        return _mean_and_error(shuffled - before)
    old, new = np.sqrt(before.mean()), np.sqrt(shuffled.mean())
    slopes = [0.5 / root if root > 0 else 0.0 for root in (old, new)]
    return new - old, _mean_and_error(slopes[1] * shuffled - slopes[0] * before)[1]


def _mean_and_error(falls: np.ndarray) -> tuple[float, float]:
    """The mean over shuffles and rows, with its standard error."""
    by_row = falls.mean(axis=0)
    # Shuffles that differ show in the rows' means; their own spread comes on top.
    of_shuffles = np.std(falls.mean(axis=1)) ** 2 / len(falls)
    return by_row.mean(), np.sqrt(np.var(by_row) / len(by_row) + of_shuffles)
