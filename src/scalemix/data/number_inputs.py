"""What a column of numbers becomes besides the number itself: its bins, and numbers that repeat.

A number that many rows share may mean something of its own: a code, a round figure, an amount that
a law fixes. A network that reads numbers and bins has to build such a spike from a step up and a
step down; here each number that is frequent enough is a level, as a word is, with an input that is
one where it stands and zero elsewhere.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalemix.data.bins import Bins, count_bins, find_edges, ramps

# A number may have an input of its own if so many rows have it, whatever their weights: fewer say
# little about it, and the one row of a heavy class would be told from all others.
LEAST_ROWS = 32
# A column has no more of them than this, the most frequent ones. What sets apart the next ones of a
# column that has many is mostly chance.
MOST_OF_A_COLUMN = 100
# All columns together have one per so many rows, and no more than these.
ROWS_AN_INPUT, MOST_TOGETHER = 64, 512


class NumberInputs(NamedTuple):
    """The inputs of one column of numbers, but for the number itself."""

    edges: tuple[float, ...] = ()
    """The ends of its bins."""
    repeated: tuple[float, ...] = ()
    """The numbers that have inputs of their own."""

    @property
    def num_bins(self) -> int:
        """How many bins there are."""
        return max(len(self.edges) - 1, 0)

    def names(self, column: str) -> list[str]:
        """What each input is."""
        bins = [
            f"{column}, {low:.4g} to {high:.4g}" for low, high in itertools.pairwise(self.edges)
        ]
        return [*bins, *(f"{column} = {written(number)}" for number in self.repeated)]

    def expand(self, numbers: np.ndarray, present: np.ndarray | None = None) -> np.ndarray:
        """The inputs of numbers. Where one is not `present`, it stands for a gap, and is none of
        those that repeat."""
        is_one = same(numbers[:, None], np.array(self.repeated, float))
        if present is not None:
            is_one &= present[:, None]
        return np.concatenate([ramps(numbers, self.edges), is_one.astype(float)], axis=1)


def learn_number_inputs(
    columns: Sequence[np.ndarray], bins: Bins, num_rows: int, weight: np.ndarray | None = None
) -> list[NumberInputs]:
    """What each column of numbers is to become, of which gaps are not a number.

    Numbers that repeat have inputs with `bins="auto"`, where a fit decides whether it uses them.
    """
    num_bins = count_bins(bins, num_rows, len(columns))
    if num_bins is None:
        return [NumberInputs()] * len(columns)
    weight = np.ones(len(columns[0]) if columns else 0) if weight is None else weight
    seen = [~np.isnan(column) for column in columns]
    known = [(column[s], weight[s]) for column, s in zip(columns, seen, strict=True)]
    most = min(num_rows // ROWS_AN_INPUT, MOST_TOGETHER) if bins == "auto" else 0
    repeated = find_repeated([numbers[counts > 0] for numbers, counts in known], most)
    return [
        NumberInputs(find_edges(numbers, num_bins, counts), of_column)
        for (numbers, counts), of_column in zip(known, repeated, strict=True)
    ]


def find_repeated(columns: Sequence[np.ndarray], most: int) -> list[tuple[float, ...]]:
    """The most frequent numbers of all columns, so many at most; of equally frequent ones those of
    the first columns.

    There are none of a column with one or two different numbers, about which the number itself says
    everything.
    """
    frequent: list[tuple[int, int, float]] = []
    for place, numbers in enumerate(columns):
        # Zero has no sign.
        different, rows = np.unique(numbers + 0.0, return_counts=True)
        if len(different) > 2:
            often = rows >= LEAST_ROWS
            ranked = sorted(zip((-rows[often]).tolist(), different[often].tolist(), strict=True))
            frequent += [(count, place, number) for count, number in ranked[:MOST_OF_A_COLUMN]]
    chosen = sorted(frequent)[:most]
    return [
        tuple(sorted(number for _, where, number in chosen if where == place))
        for place in range(len(columns))
    ]


def same(numbers: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether numbers are equal, or one is the other in single precision.

    A tenth in single precision is not a tenth in double precision, and tables come in both. Whole
    numbers have to be equal: codes may differ in their last digit alone.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        rounded, others_rounded = (
            each.astype(np.float32).astype(np.float64) for each in (numbers, others)
        )
        whole = (numbers == np.rint(numbers)) | (others == np.rint(others))
    alike = (rounded == others) | (numbers == others_rounded)
    return (numbers == others) | (alike & ~whole)


def written(number: float) -> str:
    """The number with as many digits as tell it from all others."""
    return repr(float(number)).removesuffix(".0")
