"""What a fitted model makes of its columns: direction and shape of effects, and their importance.

An effect is the mean prediction of some rows as one column takes each value of a grid and all else
stays as it is (partial dependence; Friedman 2001). Every draw of the network has a curve of its
own, so that the band around their mean is the posterior's: it says how sure the model is of the
effect, and not how targets scatter around it. The curves of single rows (Goldstein et al. 2015)
show what their mean hides: where they are not parallel, the column acts together with another one.

Rows with one value replaced may be unlike any that were seen, above all where columns go together.
"""

import itertools
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import check_key
from scalemix.data.ranges import RangeWarning
from scalemix.data.values import check_levels
from scalemix.posterior import statistics
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive

# Of so many of the strongest columns the pairs are compared.
MOST_PAIRED = 4
# The levels of the quantiles that a grid lies between: beyond them a few rows decide everything.
GRID_ENDS = 0.05, 0.95


class Estimator(Protocol):
    """A model that takes tables as its user has them."""

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of a table."""
        ...


class Effect(NamedTuple):
    """The mean prediction over a grid of values of a column, or of two.

    Attributes
    ----------
    columns : tuple of int
        Which column it is, or which two.
    grids : tuple of numpy.ndarray
        The values that each of them takes.
    mean : numpy.ndarray
        The mean prediction at each value, or at each pair of values.
    lower, upper : numpy.ndarray
        The band that holds the curve with the probability asked for, value by value.
    individual : numpy.ndarray
        The curve of each row, (rows, values), without a band; of two columns there are none.

    Examples
    --------
    >>> from scalemix.analysis.effects import effect
    >>> found = effect(post, x, 0, num_values=5)
    >>> found.mean.shape, found.individual.shape
    ((5,), (40, 5))
    """

    columns: tuple[int, ...]
    grids: tuple[np.ndarray, ...]
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    individual: np.ndarray

    @property
    def strength(self) -> float:
        """The standard deviation of the mean prediction over the grid."""
        return float(np.std(self.mean))


def effect(
    model: Posterior | Estimator,
    x: Any,
    columns: int | tuple[int, int],
    *,
    output: int | None = None,
    num_values: int = 20,
    num_rows: int = 100,
    probability: float = 0.9,
) -> Effect:
    """The effect of one column on the mean prediction, or of two together.

    Parameters
    ----------
    model : Posterior or estimator
        What was fitted. An estimator takes the table as it was fitted to, and a posterior the
        inputs of its network.
    x : array_like of shape (rows, columns)
        Rows that say what the other columns are, such as those of training: an array or a data
        frame.
    columns : int or pair of int
        Which column by its number, or which two.
    output : int, optional
        Which class, or which of several targets; of one target there is nothing to choose.
    num_values : int, default 20
        The most values in a grid: quantiles of the column from 5% to 95%, or all its values if
        they are fewer.
    num_rows : int, default 100
        The most rows to average over, evenly spread over those given.
    probability : float, default 0.9
        What the band is to hold, in (0, 1).

    Returns
    -------
    Effect
        Grid, curve, band, and the curves of single rows.

    Examples
    --------
    >>> from scalemix.analysis.effects import effect
    >>> both = effect(post, x, (0, 1), num_values=4)
    >>> both.mean.shape, bool((both.lower <= both.upper).all())
    ((4, 4), True)
    """
    several = (columns,) if isinstance(columns, int | np.integer) else columns
    chosen = tuple(int(column) for column in several)
    (held,) = check_levels("A band's probability", float(probability))
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), num_rows)).astype(int))
    rows = _take(x, some)
    grids = tuple(_grid(_column(x, column), num_values) for column in chosen)
    points = list(itertools.product(*grids))
    table = _take(rows, np.tile(np.arange(len(some)), len(points)))
    for column, values in zip(chosen, zip(*points, strict=True), strict=True):
        table = _replaced(table, column, np.repeat(_as_array(values), len(some)))
    means = _means(_predict(model, table), output).reshape(len(points), len(some), -1)
    # The curves of all draws, each a mean over the rows.
    curves, tails = means.mean(axis=1), (1 - held) / 2
    shape = tuple(len(grid) for grid in grids)
    lower, upper = np.quantile(curves, [tails, 1 - tails], axis=1)
    return Effect(
        chosen, grids, curves.mean(axis=1).reshape(shape), lower.reshape(shape),
        upper.reshape(shape), means.mean(axis=2).T if len(chosen) == 1 else np.zeros((0, 0)),
    )  # fmt: skip


def strongest_pair(
    model: Posterior | Estimator,
    x: Any,
    *,
    output: int | None = None,
    num_values: int = 6,
    num_rows: int = 30,
) -> tuple[tuple[int, int], float]:
    """The two columns whose joint effect differs most from the sum of their own.

    Only the four columns with the strongest effects are compared.

    Parameters
    ----------
    model : Posterior or estimator
        As in `effect`.
    x : array_like of shape (rows, columns)
        As in `effect`, with two columns or more.
    output : int, optional
        As in `effect`.
    num_values, num_rows : int, default 6 and 30
        As in `effect`, and fewer, since every pair has a grid of its own.

    Returns
    -------
    tuple
        The pair, and the standard deviation of what the two do together beyond the sum of their
        effects, in the unit of the prediction.

    Examples
    --------
    >>> from scalemix.analysis.effects import strongest_pair
    >>> pair, strength = strongest_pair(post, x, num_values=3)
    >>> len(pair), strength >= 0
    (2, True)
    """
    sizes = {"output": output, "num_values": num_values, "num_rows": num_rows}
    num_columns = np.shape(x)[1]
    if num_columns < 2:
        raise ValueError(f"A pair needs two columns or more, and x has {num_columns}.")
    alone = [effect(model, x, column, **sizes) for column in range(num_columns)]
    strongest = sorted(range(num_columns), key=lambda c: -alone[c].strength)[:MOST_PAIRED]

    def beyond(pair: tuple[int, int]) -> float:
        both = effect(model, x, pair, **sizes).mean
        rest = both - both.mean(axis=0, keepdims=True) - both.mean(axis=1, keepdims=True)
        return float(np.std(rest))

    strengths = {pair: beyond(pair) for pair in itertools.combinations(sorted(strongest), 2)}
    best = max(strengths, key=strengths.__getitem__)
    return best, strengths[best]


class Importance(NamedTuple):
    """How much predictions get worse when a column is shuffled among the rows.

    Attributes
    ----------
    loss : numpy.ndarray
        What the log-likelihood of a row loses on average, in nats, for each column.
    error : numpy.ndarray
        The standard error of each, from the rows and from the shuffles.

    Examples
    --------
    >>> from scalemix.analysis.effects import permutation_importance
    >>> permutation_importance(post, x, y, num_shuffles=2, key=key).loss.shape
    (3,)
    """

    loss: np.ndarray
    error: np.ndarray


def permutation_importance(
    model: Posterior | Estimator,
    x: Any,
    y: Any,
    *,
    groups: Sequence[Sequence[int]] | None = None,
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
        Their targets, as the posterior takes them: classes are counted from 0.
    groups : sequence of sequences of int, optional
        Columns to shuffle together, such as those that one category became. By default each alone.
    num_shuffles : int, default 5
        How often each column is shuffled.
    key : PRNGKeyArray
        The randomness of the shuffles.

    Returns
    -------
    Importance
        The loss for each column or group, with its standard error.

    Examples
    --------
    >>> from scalemix.analysis.effects import permutation_importance
    >>> together = [[0], [1, 2]]
    >>> permutation_importance(post, x, y, groups=together, num_shuffles=2, key=key).error.shape
    (2,)
    """
    check_key(key, "key")
    groups = [[column] for column in range(np.shape(x)[1])] if groups is None else groups
    before = _predict(model, x).log_prob(y)
    seeds = np.asarray(jax.random.bits(key, (len(groups), num_shuffles)))
    losses, errors = [], []
    for columns, own in zip(groups, seeds, strict=True):
        falls = []
        for seed in own.tolist():
            order = np.random.default_rng(seed).permutation(len(before))
            table = x
            for column in columns:
                table = _replaced(table, column, _column(x, column)[order])
            falls.append(before - _predict(model, table).log_prob(y))
        by_row = np.mean(falls, axis=0)
        losses.append(by_row.mean())
        # Shuffles that differ show in the rows' means; their own spread comes on top.
        of_shuffles = np.std(np.mean(falls, axis=1)) ** 2 / num_shuffles
        errors.append(np.sqrt(np.var(by_row) / len(by_row) + of_shuffles))
    return Importance(np.array(losses), np.array(errors))


def _predict(model: Any, x: Any) -> Predictive:
    predict = model.predict if isinstance(model, Posterior) else model.predict_dist
    with warnings.catch_warnings():
        # Rows with one value replaced are unlike others on purpose.
        warnings.simplefilter("ignore", RangeWarning)
        return predict(x)


def _means(predictive: Predictive, output: int | None) -> np.ndarray:
    """The mean of each row's target under each draw, (rows, draws)."""
    (means,) = predictive._stream(statistics.means)
    means = predictive._in_units(means)
    if means.ndim == 2:
        return means
    if output is None:
        raise ValueError(
            f"There are {means.shape[2]} classes or targets: say which of them, such as output=0."
        )
    return means[:, :, output]


def _as_array(values: Sequence[Any]) -> np.ndarray:
    # Words and truth values in one array would all be words.
    same = len({type(value) for value in values}) == 1
    return np.array(values) if same else np.array(values, object)


def _grid(values: np.ndarray, num: int) -> np.ndarray:
    """Values for a column to take: all of them if they are few; else quantiles, or the most
    frequent words. What is missing is none of them."""
    if values.dtype.kind in "biuf":
        values = values[~np.isnan(values.astype(np.float64))]
        different = np.unique(values)
        if len(different) <= num:
            return different
        return np.unique(np.quantile(values, np.linspace(*GRID_ENDS, num)))
    # What is missing is not equal to itself, or not there.
    present = [value for value in values.tolist() if value is not None and value == value]
    if values.dtype.kind in "mM":
        different = np.unique(values[~np.isnat(values)])
        places = np.linspace(0, len(different) - 1, min(num, len(different))).astype(int)
        return different[places]
    frequent = [word for word, _ in Counter(present).most_common(num)]
    return np.array(sorted(frequent, key=str), object)


# Tables are arrays or data frames: those of pandas have `iloc`, those of polars `with_columns`.


def _column(x: Any, column: int) -> np.ndarray:
    if hasattr(x, "iloc"):
        values = np.asarray(x.iloc[:, column])
    elif hasattr(x, "with_columns"):
        values = x[:, column].to_numpy()
    else:
        values = np.asarray(x)[:, column]
    return values


def _take(x: Any, rows: np.ndarray) -> Any:
    if hasattr(x, "iloc"):
        return x.iloc[rows]
    return x[rows.tolist()] if hasattr(x, "with_columns") else np.asarray(x)[rows]


def _replaced(x: Any, column: int, values: np.ndarray) -> Any:
    if hasattr(x, "iloc"):
        table = x.copy()
        table.isetitem(column, values)
        return table
    if hasattr(x, "with_columns"):
        old = x[:, column]
        return x.with_columns(type(old)(old.name, values.tolist(), dtype=old.dtype, strict=False))
    table = np.array(x)
    table[:, column] = values
    return table
