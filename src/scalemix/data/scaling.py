"""Inputs and targets in units of their own spread, and predictions back in the user's.

All of it is done in double precision: in single precision, a column at 1e8 that varies by one is
constant.
"""

from typing import Any, NamedTuple

import numpy as np

from scalemix.data.values import within

# In single precision, a value so many standard deviations from the mean drowns all other columns.
FARTHEST = 1e6
# Rows scaled at a time, so that a large table is never held twice in double precision.
ROWS_AT_A_TIME = 65_536


class Scaling(NamedTuple):
    """Means and standard deviations of the training data; zero and one where nothing is scaled."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: float | np.ndarray
    """One number, or one for each of several targets."""
    y_scale: float | np.ndarray

    def inputs(self, x: np.ndarray, dtype: Any = None) -> np.ndarray:
        """Inputs as the network sees them; infinite where the type cannot hold the number.

        Unless given, the type is that of `x`, or double precision if `x` has whole numbers.
        """
        if dtype is None:
            dtype = x.dtype if np.issubdtype(x.dtype, np.floating) else np.float64
        if self.x_mean.size == 0:
            return x.astype(dtype)
        seen = np.empty(x.shape, dtype)
        with np.errstate(over="ignore"):
            for start in range(0, len(x), ROWS_AT_A_TIME):
                rows = slice(start, start + ROWS_AT_A_TIME)
                seen[rows] = (x[rows].astype(np.float64) - self.x_mean) / self.x_scale
        return seen

    def log_unit(self, has_density: np.ndarray) -> np.ndarray:
        """What the log density of each row loses where its targets are in their own units.

        `has_density` says of each target whether it has a density: a probability has no unit.
        """
        units = np.log(self.y_scale) * has_density
        return units.sum(axis=tuple(range(1, units.ndim)))

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Targets as the likelihood sees them; infinite beyond double precision."""
        with np.errstate(over="ignore"):
            return (y.astype(np.float64) - self.y_mean) / self.y_scale


# Data that stay as they are.
UNSCALED = Scaling(np.zeros(0), np.ones(0), 0.0, 1.0)


def farthest_cell(seen: np.ndarray) -> tuple[int, int] | None:
    """The first cell of scaled inputs that lies too far out to predict from, if there is one."""
    if within(seen, FARTHEST):
        return None
    row, column = np.argwhere(~(np.abs(seen) <= FARTHEST))[0]
    return int(row), int(column)


def find_scaling(
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    inputs: bool,
    targets: bool,
    positive: bool = False,
) -> Scaling:
    """Weighted means and standard deviations; a column that does not vary keeps its unit.

    Targets that are `positive` are not shifted: their scale is their geometric mean.
    """
    nothing = np.zeros(0), np.ones(0)
    x_mean, x_scale = _spread(x, weight) if inputs else nothing
    shape = y.shape[1:]
    y_mean, y_scale = np.zeros(shape), np.ones(shape)
    if targets and positive:
        # The sign of a time says whether it was observed to the end.
        y_scale = np.exp(np.average(np.log(np.abs(y)), axis=0, weights=weight))
    elif targets:
        y_mean, y_scale = _spread(y, weight)
    if y.ndim == 1:
        y_mean, y_scale = float(y_mean), float(y_scale)
    return Scaling(x_mean, x_scale, y_mean, y_scale)


class Moments:
    """Weighted means and deviations of rows that come a few at a time, in double precision."""

    total: float
    exponent: Any
    mean: np.ndarray
    squares: np.ndarray

    def __init__(self) -> None:
        self.total = 0.0

    def add(self, values: np.ndarray, weight: np.ndarray) -> None:
        """Some more rows."""
        values = values.astype(np.float64)
        if not self.total:
            # Dividing by a power of two costs no digit, and squares then hardly ever overflow.
            _, self.exponent = np.frexp(np.maximum(values.max(axis=0), -values.min(axis=0)))
            self.mean = np.zeros(values.shape[1:])
            self.squares = np.zeros(values.shape[1:])
        values = np.ldexp(values, -self.exponent)
        total = float(weight.sum())
        if not total:
            return
        mean = np.average(values, axis=0, weights=weight)
        away, share = mean - self.mean, total / (self.total + total)
        # The sum of squares of both parts, and of the distance between their means.
        self.squares += weight @ (values - mean) ** 2 + away**2 * self.total * share
        self.mean += away * share
        self.total += total

    def spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of each column; a column that does not vary keeps its unit."""
        return _in_units(self.mean, np.sqrt(self.squares / self.total), self.exponent)


def _in_units(
    mean: np.ndarray, scale: np.ndarray, exponent: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    varies = scale > 1e-12 * np.abs(mean)
    mean, scale = np.ldexp(mean, exponent), np.ldexp(scale, exponent)
    return mean, np.where(varies & (scale >= np.finfo(np.float64).tiny), scale, 1.0)


def _spread(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = values.astype(np.float64)
    # Dividing by a power of two costs no digit, and squares then neither overflow nor vanish.
    _, exponent = np.frexp(np.maximum(values.max(axis=0), -values.min(axis=0)))
    values = np.ldexp(values, -exponent)
    mean = np.average(values, axis=0, weights=weight)
    scale = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weight))
    return _in_units(mean, scale, exponent)
