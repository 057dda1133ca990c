"""Numbers in bins: extra inputs that let a network bend where a column's values lie.

A tree splits a column wherever it likes; a network that reads it as one number has to build every
bend from hidden units. Here each bin between quantiles of the training values becomes an input of
its own, which rises from zero to one across the bin (the piecewise linear encoding of Gorishniy,
Rubachev and Babenko, 2022). The number itself remains an input: only it varies beyond the outermost
bins.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from scalemix.data.values import is_whole

Bins = int | Literal["auto"] | None
# With "auto" a column has one bin per so many rows, but no fewer and no more than these.
ROWS_A_BIN, FEWEST, MOST = 32, 8, 128
# All columns together have one per so many rows, within bounds too: each bin is an input, and makes
# every step of a fit slower.
ROWS_AN_INPUT, FEWEST_TOGETHER, MOST_TOGETHER = 16, 256, 1024
# A column with more different values than bins could tell apart has no more bins than this: in
# narrower ones networks would learn noise by heart.
MOST_OF_MANY = 32


class NumBins(NamedTuple):
    """How many bins a column may have."""

    most: int
    """If so many bins can tell all its different values apart."""
    of_many: int
    """If it has more values than that."""


def find_edges(
    values: np.ndarray, num_bins: NumBins, weight: np.ndarray | None = None
) -> tuple[float, ...]:
    """The ends of up to so many bins, which hold about equally many rows each.

    Where values repeat, there are fewer such bins. The others then hold about equally many of the
    different values: a column that is mostly zero can bend at its other values, too.

    There are none for a column of one or two values: the number itself says everything. A row
    counts as often as its weight says.
    """
    weight = np.ones(len(values)) if weight is None else weight
    seen = weight > 0
    if not seen.any():
        # The fit itself explains what is wrong with such rows.
        return ()
    different = np.unique(values[seen])
    num = num_bins.most if len(different) <= num_bins.most + 1 else num_bins.of_many
    shares = np.linspace(0, 1, num + 1)
    # The only weighted quantiles that NumPy has. They are values of the column.
    edges = np.quantile(values[seen], shares, weights=weight[seen], method="inverted_cdf")
    edges = np.unique(edges)
    missing = num + 1 - len(edges)
    if missing:
        others = np.setdiff1d(different, edges)
        if len(others) > missing:
            inner = np.linspace(0, 1, missing + 2)[1:-1]
            others = np.quantile(others, inner, method="inverted_cdf")
        edges = np.union1d(edges, others)
    return tuple(edges.tolist()) if len(edges) > 2 else ()


def weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    """The median, where a value counts as often as its weight says: that of repeated values."""
    order = np.argsort(values)
    values, reached = values[order], np.cumsum(weight[order])
    half = reached[-1] / 2
    # Where a value ends just at the half, the median lies between it and the next.
    last = len(values) - 1
    low, high = (min(np.searchsorted(reached, half, side), last) for side in ("left", "right"))
    return float((values[low] + values[high]) / 2)


def ramps(values: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """An array (rows, bins): zero below each bin, one above it, linear in between."""
    if not edges:
        return np.zeros((len(values), 0))
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    # Far outside a narrow bin the quotient may be infinite; it is clipped like any other.
    with np.errstate(over="ignore"):
        return np.clip((values[:, None] - low) / (high - low), 0.0, 1.0)


def check_bins(bins: Any) -> None:
    """Raise `ValueError` unless `bins` is "auto", `None` or a whole number from 2."""
    known = ("auto",) if isinstance(bins, str) else (None,)
    if bins not in known and not (is_whole(bins) and int(bins) > 1):
        raise ValueError(
            f"bins must be a whole number of at least 2, 'auto', or None; got {bins!r}."
        )


def count_bins(bins: Bins, num_rows: int, num_columns: int) -> NumBins | None:
    """How many bins a column of numbers may have, of which a table has so many."""
    if bins is None:
        return None
    if bins != "auto":
        return NumBins(bins, bins)
    by_rows = min(max(num_rows // ROWS_A_BIN, FEWEST), MOST)
    together = min(max(num_rows // ROWS_AN_INPUT, FEWEST_TOGETHER), MOST_TOGETHER)
    most = max(min(by_rows, together // max(num_columns, 1)), 2)
    return NumBins(most, min(most, MOST_OF_MANY))
