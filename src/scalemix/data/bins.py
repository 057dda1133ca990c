"""Numbers in bins: inputs by which a network can bend where a column's values lie.

A tree splits a column wherever it likes; a network that reads it as one number has to build every
bend from hidden units. Here each bin between quantiles of the training values becomes an input of
its own, which rises from zero to one across the bin (the piecewise linear encoding of Gorishniy,
Rubachev and Babenko, 2022). The number itself stays an input, and alone goes on beyond the ends.
"""

import numpy as np


def find_edges(
    values: np.ndarray, num_bins: int, weight: np.ndarray | None = None
) -> tuple[float, ...]:
    """The ends of up to so many bins that hold about as many rows each.

    None for a column of one or two values, which a single number says all about. A row with a
    weight counts as often as it says.
    """
    shares = np.linspace(0, 1, num_bins + 1)
    weight = np.ones(len(values)) if weight is None else weight
    seen = weight > 0
    if not seen.any():
        # Whoever fits to such rows says what is wrong with them.
        return ()
    # Of the weighted kinds of quantile NumPy has this one, whose values are values of the column.
    edges = np.quantile(values[seen], shares, weights=weight[seen], method="inverted_cdf")
    edges = np.unique(edges)
    return tuple(edges.tolist()) if len(edges) > 2 else ()


def ramps(values: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """(rows, bins): zero below a bin, one above it, straight in between."""
    if not edges:
        return np.zeros((len(values), 0))
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    # Far outside a narrow bin the quotient may be infinite, and is clipped like any other.
    with np.errstate(over="ignore"):
        return np.clip((values[:, None] - low) / (high - low), 0.0, 1.0)


def check_bins(bins: int | None) -> None:
    """Raise `ValueError` for a number of bins that there cannot be."""
    whole = isinstance(bins, int | np.integer) and not isinstance(bins, bool)
    if bins is not None and not (whole and bins > 1):
        raise ValueError(f"bins must be a whole number of at least 2, or None; got {bins!r}.")
