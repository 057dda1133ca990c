"""What training data lie between, by column and together, and how far other rows lie outside.

A network says something everywhere. Where no row like it was seen, that is an extrapolation, and
whoever reads it should know. A row with a word that training did not have is such a row, too, and
so is one without any value, of which nothing is known.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scalemix._text import counted, listing
from scalemix._warnings import Said
from scalemix.data.values import is_finite

# Rows are spoken of if they are outside by more than this. Somewhat beyond the range of a few dozen
# rows lie many that are drawn just like them.
FAR = 0.5
# The same of the distance from the centre, in units of that of the farthest training row.
FAR_TOGETHER = 1 + FAR
# More columns than this, or fewer rows for each than the other, tell nothing of how columns go
# together: distances then count each by itself.
MOST_COLUMNS, LEAST_ROWS = 50, 10
# How much the covariance is drawn to that of columns without correlation.
SHRINKAGE = 0.1
NAMED = 3
# How far outside a word is that training did not have, or a row without any value: as a number that
# is a range beyond its end.
UNKNOWN = 1.0


# A cell so many times as far from the middle as the middle half of its column is wide is no value
# of it, but a mistake. Of fewer rows nobody can tell.
STRAY, LEAST_TO_TELL = 1_000, 20


class RangeWarning(UserWarning):
    """Rows lie outside what a model was fitted to, so that their predictions are extrapolations.

    A fitted estimator says it once for each set of rows, however often it is asked about them.

    Examples
    --------
    >>> import warnings
    >>> from scalemix.data.ranges import find_ranges, warn_outside
    >>> ranges = find_ranges(x, ["a", "b", "c"])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_outside(ranges.outside(100 * x))
    >>> caught[0].category.__name__
    'RangeWarning'
    """


class UnknownWords(NamedTuple):
    """Words of a column that training did not have, and for each row whether it has one."""

    name: str
    words: tuple[str, ...]
    rows: np.ndarray


class Ranges(NamedTuple):
    """The ends of each column of the training data, and how the columns go together."""

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    precision: np.ndarray
    """The inverse of the covariance, (columns, columns); or of the variances, (columns,)."""
    farthest: float
    """The distance of the farthest training row from the centre."""

    def outside(
        self,
        x: np.ndarray,
        unknown: Sequence[UnknownWords] = (),
        empty: np.ndarray | None = None,
    ) -> "Outside":
        """How far rows lie outside, of which some words are unknown, and some rows `empty`.

        A missing number is inside.
        """
        width = np.where(self.high > self.low, self.high - self.low, 1.0)
        filled = np.where(np.isnan(x), self.centre, x)
        beyond = np.maximum(filled - self.high, 0) - np.maximum(self.low - filled, 0)
        together = _distance(filled - self.centre, self.precision) / self.farthest
        return Outside(self.names, beyond / width, together, tuple(unknown), empty)

    def to_json(self) -> dict[str, Any]:
        """The same as dicts and lists, for a model's file."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self._asdict().items()
        } | {"names": list(self.names)}

    @staticmethod
    def from_json(said: Any) -> "Ranges":
        """What `to_json` gave, or a `ValueError`."""
        names = tuple(said["names"])
        arrays = {
            name: np.array(said[name], np.float64)
            for name in ("low", "high", "centre", "precision")
        }
        ranges = Ranges(names=names, farthest=said["farthest"], **arrays)
        num = len(names)
        if not (
            all(isinstance(name, str) for name in names)
            and all(arrays[name].shape == (num,) for name in ("low", "high", "centre"))
            and ranges.precision.shape in ((num,), (num, num))
            and all(np.isfinite(array).all() for array in arrays.values())
            and is_finite(ranges.farthest)
            and ranges.farthest > 0
        ):
            raise ValueError("its ranges are none")
        return ranges


class Outside(NamedTuple):
    """How far rows lie outside the training data."""

    names: tuple[str, ...]
    beyond: np.ndarray
    """For each row and column, in ranges of the column: above zero above it, below zero below."""
    together: np.ndarray
    """The distance of each row from the centre, in that of the farthest training row."""
    unknown: tuple[UnknownWords, ...] = ()
    """The columns with words that training did not have."""
    empty: np.ndarray | None = None
    """For each row, whether it has no value at all; `None` if every row has one."""

    @property
    def by_row(self) -> np.ndarray:
        """One number a row: zero inside, else by how much, in ranges or in farthest distances.

        A row with a word that training did not have is outside by one, or more, and so is a row
        without any value. Rows above 0.5 are far outside, and a `RangeWarning` counts them.
        """
        farthest = np.abs(self.beyond).max(axis=1, initial=0.0)
        numbers = np.maximum(farthest, np.maximum(self.together - 1, 0))
        empty = False if self.empty is None else self.empty
        return np.maximum(numbers, UNKNOWN * (self._has_unknown | empty))

    @property
    def is_far(self) -> np.ndarray:
        """For each row, whether it lies so far outside that it is spoken of."""
        return self.by_row > FAR

    @property
    def _has_unknown(self) -> np.ndarray:
        """For each row, whether one of its words is unknown."""
        return np.any([of.rows for of in self.unknown], axis=0) | np.zeros(len(self.beyond), bool)

    def in_words(self) -> str | None:
        """A line about the rows that lie far outside, if there are any."""
        num = int(self.is_far.sum())
        if not num:
            return None
        far = np.abs(self.beyond) > FAR
        by_column, jointly = far.any(axis=1), self.together > FAR_TOGETHER
        said = [
            f"{self.names[column]!r} by up to {np.abs(self.beyond[:, column]).max():.2g} times its "
            f"range ({counted(far[:, column].sum(), 'row')})"
            for column in np.argsort(-np.abs(self.beyond).max(axis=0), kind="stable")
            if far[:, column].any()
        ]
        if len(said) > NAMED:
            said[NAMED:] = [f"{len(said) - NAMED} more columns"]
        only = jointly & ~by_column
        if only.any():
            said.append(
                f"columns together, up to {self.together[only].max():.2g} times as far from the "
                f"centre as any training row ({counted(only.sum(), 'row')})"
            )
        words = [
            f"{of.name!r} has the unknown {listing(of.words, 5)} ({counted(of.rows.sum(), 'row')})"
            for of in self.unknown
        ]
        said += words[:NAMED]
        if len(words) > NAMED:
            said.append(f"{len(words) - NAMED} more columns have unknown words")
        if self.empty is not None and self.empty.any():
            said.append(f"no column has a value ({counted(self.empty.sum(), 'row')})")
        return (
            f"{num:,} of {counted(len(jointly), 'row')} {'lies' if num == 1 else 'lie'} far "
            f"outside the training data (outside > {FAR}), where predictions are guesses: "
            f"{', '.join(said)}."
        )


def find_ranges(x: np.ndarray, names: Sequence[str]) -> Ranges:
    """The ranges of training data, which may have gaps (NaN) but no column of nothing else."""
    x = np.asarray(x, np.float64)
    num_rows, num_columns = x.shape
    centre = np.nanmean(x, axis=0)
    away = np.where(np.isnan(x), 0.0, x - centre)
    variance = np.mean(away**2, axis=0)
    variance = np.where(variance > 0, variance, 1.0)
    precision = 1 / variance
    if num_columns <= MOST_COLUMNS and num_rows >= LEAST_ROWS * num_columns:
        covariance = (1 - SHRINKAGE) * (away.T @ away) / num_rows + SHRINKAGE * np.diag(variance)
        covariance[np.diag_indices(num_columns)] = variance
        precision = np.linalg.inv(covariance)
    farthest = float(_distance(away, precision).max())
    return Ranges(
        tuple(names), np.nanmin(x, axis=0), np.nanmax(x, axis=0), centre, precision, farthest or 1.0
    )


def warn_outside(
    outside: Outside, said: Said | None = None, rows: np.ndarray | None = None
) -> None:
    """Warn of rows that lie far outside, unless that was `said` of them."""
    if words := outside.in_words():
        (said or Said()).warn(words, RangeWarning, rows)


def _distance(away: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The Mahalanobis distance of each row from the centre."""
    scaled = away @ precision if precision.ndim == 2 else away * precision
    return np.sqrt(np.maximum(np.sum(scaled * away, axis=1), 0.0))


def strays_in_words(x: np.ndarray, names: Sequence[str]) -> str | None:
    """A line about cells of training data that are far from all others of their column.

    The deviation of a column is then that of one cell, and divided by it all others are alike.
    """
    x = np.asarray(x, np.float64)
    if len(x) < LEAST_TO_TELL:
        return None
    said = []
    for name, column in zip(names, x.T, strict=True):
        cells = column[~np.isnan(column)]
        if not cells.size:
            continue
        low, middle, high = np.percentile(cells, [25, 50, 75])
        stray = cells[np.argmax(np.abs(cells - middle))]
        # Where half the cells are one value, the others are as far from it as they like.
        if 0 < STRAY * (high - low) < abs(stray - middle):
            said.append(f"{name!r} has {stray:g}, and half of it lies between {low:g} and {high:g}")
    if not said:
        return None
    if len(said) > NAMED:
        said[NAMED:] = [f"{len(said) - NAMED} more columns have such cells"]
    return (
        f"{'; '.join(said)}. If it is a mistake, correct it or leave it empty; if the column holds "
        f"codes, make categories of it; if not, take logarithms: beside such a cell networks see "
        f"the others as nearly the same number."
    )
