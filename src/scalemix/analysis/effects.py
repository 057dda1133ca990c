"""What a fitted model makes of its columns: direction and shape of effects, and their importance.

An effect is the mean prediction of some rows as one column takes each value of a grid and all else
stays as it is (partial dependence; Friedman 2001). Every draw of the network has a curve of its
own, so that the band around their mean is the posterior's: it says how sure the model is of the
effect, and not how targets scatter around it. The curves of single rows (Goldstein et al. 2015)
show what their mean hides: where they are not parallel, the column acts together with another one.

Rows with one value replaced may be unlike any that were seen, above all where columns go together.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from scalemix.analysis.asking import Estimator, means_of, predict_made_up
from scalemix.analysis.frames import column_of, names_of, number_of, replaced, take
from scalemix.analysis.importance import Importance, permutation_importance
from scalemix.data.values import check_levels
from scalemix.posterior.posterior import Posterior

__all__ = [
    "Effect",
    "Importance",
    "Pair",
    "beyond_sum",
    "effect",
    "grid_of",
    "permutation_importance",
    "strongest_pair",
    "summarise",
]

# Of so many of the strongest columns the pairs are compared.
MOST_PAIRED = 4
# The levels of the quantiles that a grid lies between: beyond them a few rows decide everything.
GRID_ENDS = 0.05, 0.95


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
    names : tuple of str
        What the columns are called.

    Examples
    --------
    >>> from scalemix.analysis.effects import effect
    >>> estimate = effect(post, x, 0, num_values=5)
    >>> estimate.mean.shape, estimate.individual.shape
    ((5,), (40, 5))
    """

    columns: tuple[int, ...]
    grids: tuple[np.ndarray, ...]
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    individual: np.ndarray
    names: tuple[str, ...]

    @property
    def strength(self) -> float:
        """The standard deviation of the mean prediction over the grid."""
        return float(np.std(self.mean))


class Pair(NamedTuple):
    """Two columns, and how much they do together. `strongest_pair` gives it, `effect` takes it.

    Attributes
    ----------
    columns : tuple of str or int
        The columns: by name if they have names, else by number.
    strength : float
        The standard deviation of what the two do together beyond the sum of their effects, in the
        unit of the prediction.

    Examples
    --------
    >>> from scalemix.analysis.effects import Pair, effect
    >>> effect(post, x, Pair((0, 2), 0.5), num_values=3).mean.shape
    (3, 3)
    """

    columns: tuple[int | str, int | str]
    strength: float


def effect(
    model: Posterior | Estimator,
    x: Any,
    columns: int | str | tuple[int | str, int | str] | Pair,
    *,
    output: Any = None,
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
    columns : int, str, or a pair of them
        Which column by its number, or by its name in a data frame; or which two, such as those of
        `strongest_pair`.
    output : int or label, optional
        Which class or which of several targets, by number; or a class by its label in the
        estimator's `classes_`, unless labels are whole numbers, which count as numbers; or a
        target by its name in the estimator's `target_names_`, if it was fitted to a data frame of
        targets. Of one target there is nothing to choose.
    num_values : int, default 20
        The most values in a grid: quantiles of the column from 5% to 95%, or all its values if
        they are fewer. Of a column that the network looks up, the most frequent values.
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
    columns = columns.columns if isinstance(columns, Pair) else columns
    several = (columns,) if isinstance(columns, int | np.integer | str) else columns
    names = names_of(x, model)
    chosen = tuple(number_of(x, column, names) for column in several)
    (held,) = check_levels("A band's probability", float(probability))
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), num_rows)).astype(int))
    rows = take(x, some)
    looked_up = _looked_up(model, np.shape(x)[1])
    grids = tuple(
        (most_frequent if column in looked_up else grid_of)(column_of(x, column), num_values)
        for column in chosen
    )
    points = list(itertools.product(*grids))
    table = take(rows, np.tile(np.arange(len(some)), len(points)))
    for column, values in zip(chosen, zip(*points, strict=True), strict=True):
        table = replaced(table, column, np.repeat(_as_array(values), len(some)))
    means = means_of(predict_made_up(model, table), output, model)
    means = means.reshape(len(points), len(some), -1)
    called = tuple(names[column] if names else f"column {column}" for column in chosen)
    return summarise(chosen, called, grids, means, held)


def summarise(
    columns: tuple[int, ...],
    names: tuple[str, ...],
    grids: tuple[np.ndarray, ...],
    means: np.ndarray,
    probability: float,
) -> Effect:
    """The effect from the means of all points of the grid, rows and draws, in this order."""
    # The curves of all draws, each a mean over the rows.
    curves, tails = means.mean(axis=1), (1 - probability) / 2
    shape = tuple(len(grid) for grid in grids)
    lower, upper = np.quantile(curves, [tails, 1 - tails], axis=1)
    own = means.mean(axis=2).T if len(columns) == 1 else np.zeros((0, 0))
    return Effect(
        columns, grids, curves.mean(axis=1).reshape(shape), lower.reshape(shape),
        upper.reshape(shape), own, names,
    )  # fmt: skip


def strongest_pair(
    model: Posterior | Estimator,
    x: Any,
    *,
    output: Any = None,
    num_values: int = 6,
    num_rows: int = 30,
) -> Pair:
    """The two columns whose joint effect differs most from the sum of their own.

    Only the four columns with the strongest effects are compared.

    Parameters
    ----------
    model : Posterior or estimator
        As in `effect`.
    x : array_like of shape (rows, columns)
        As in `effect`, with two columns or more.
    output : int or label, optional
        As in `effect`.
    num_values, num_rows : int, default 6 and 30
        As in `effect`, and fewer, since every pair has a grid of its own.

    Returns
    -------
    Pair
        The columns, and how much they do together. `effect` takes it as it is.

    Examples
    --------
    >>> from scalemix.analysis.effects import effect, strongest_pair
    >>> pair = strongest_pair(post, x, num_values=3)
    >>> effect(post, x, pair, num_values=4).mean.shape
    (4, 4)
    """
    sizes = {"output": output, "num_values": num_values, "num_rows": num_rows}
    num_columns = np.shape(x)[1]
    if num_columns < 2:
        raise ValueError(f"A pair needs two columns or more, and x has {num_columns}.")
    alone = [effect(model, x, column, **sizes) for column in range(num_columns)]
    strongest = sorted(range(num_columns), key=lambda c: -alone[c].strength)[:MOST_PAIRED]

    def beyond(pair: tuple[int, int]) -> float:
        return beyond_sum(effect(model, x, pair, **sizes))

    strengths = {pair: beyond(pair) for pair in itertools.combinations(sorted(strongest), 2)}
    first, second = best = max(strengths, key=strengths.__getitem__)
    names = names_of(x, model)
    # Names that two columns share would say nothing.
    named = len(set(names)) == num_columns
    return Pair((names[first], names[second]) if named else best, strengths[best])


def beyond_sum(both: Effect) -> float:
    """The standard deviation of what two columns do together beyond the sum of their effects."""
    mean = both.mean
    return float(np.std(mean - mean.mean(axis=0, keepdims=True) - mean.mean(axis=1, keepdims=True)))


def _as_array(values: Sequence[Any]) -> np.ndarray:
    # Words and truth values in one array would all be words.
    same = len({type(value) for value in values}) == 1
    return np.array(values) if same else np.array(values, object)


def grid_of(values: np.ndarray, num: int) -> np.ndarray:
    """Values for a column to take: all of them if they are few; else quantiles, or the most
    frequent words. What is missing is none of them."""
    if values.dtype.kind in "biuf":
        values = values[~np.isnan(values.astype(np.float64))]
        different = np.unique(values)
        if len(different) <= num:
            return different
        return np.unique(np.quantile(values, np.linspace(*GRID_ENDS, num)))
    if values.dtype.kind in "mM":
        ordered = np.sort(values[~np.isnat(values)])
        different = np.unique(ordered)
        if len(different) <= num:
            return different
        # Dates that there are: between whole days there would be hours.
        places = np.round(np.linspace(*GRID_ENDS, num) * (len(ordered) - 1)).astype(int)
        return np.unique(ordered[places])
    present = [value for value in values.tolist() if not _is_missing(value)]
    frequent = [word for word, _ in Counter(present).most_common(num)]
    return np.array(sorted(frequent, key=str), object)


def most_frequent(values: np.ndarray, num: int) -> np.ndarray:
    """The most frequent of the values, in order: between positions of levels there are none."""
    different, counts = np.unique(values, return_counts=True)
    return np.sort(different[np.argsort(-counts, kind="stable")[:num]])


def _looked_up(model: Any, num_columns: int) -> set[int]:
    """Which inputs of a posterior's network are positions of levels. Estimators encode columns."""
    if not isinstance(model, Posterior):
        return set()
    example = jax.ShapeDtypeStruct((num_columns,), model.model.dtype)
    lookups = model.model.lookups(example)
    return {place for each in lookups for place in np.concatenate(each.places).tolist()}


def _is_missing(value: Any) -> bool:
    # What is missing is not there, is not equal to itself, or will not say whether it is.
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True
