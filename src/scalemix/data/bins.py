"""Numbers in bins: extra inputs that let a network bend where a column's values lie.

A tree splits a column wherever it likes; a network that reads it as one number has to build every
bend from hidden units. Here each bin between quantiles of the training values becomes an input of
its own, which rises from zero to one across the bin (the piecewise linear encoding of Gorishniy,
Rubachev and Babenko, 2022). The number itself remains an input: only it varies beyond the outermost
bins.
"""

import numpy as np

from scalemix.data.values import is_whole


def find_edges(
    values: np.ndarray, num_bins: int, weight: np.ndarray | None = None
) -> tuple[float, ...]:
    """The ends of up to `num_bins` bins that hold about equally many rows each.

    There are none for a column of one or two values: the number itself says everything. A row
    counts as often as its weight says.
    """
    shares = np.linspace(0, 1, num_bins + 1)
    weight = np.ones(len(values)) if weight is None else weight
    seen = weight > 0
    if not seen.any():
        # The fit itself explains what is wrong with such rows.
        return ()
    # The only weighted quantiles that NumPy has. They are values of the column.
    edges = np.quantile(values[seen], shares, weights=weight[seen], method="inverted_cdf")
    edges = np.unique(edges)
    return tuple(edges.tolist()) if len(edges) > 2 else ()


def ramps(values: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """An array (rows, bins): zero below each bin, one above it, linear in between."""
    if not edges:
        return np.zeros((len(values), 0))
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    # Far outside a narrow bin the quotient may be infinite; it is clipped like any other.
    with np.errstate(over="ignore"):
        return np.clip((values[:, None] - low) / (high - low), 0.0, 1.0)


def check_bins(bins: int | None) -> None:
    """Raise `ValueError` unless `bins` is `None` or a whole number from 2."""
    if bins is not None and not (is_whole(bins) and bins > 1):
        raise ValueError(f"bins must be a whole number of at least 2, or None; got {bins!r}.")
