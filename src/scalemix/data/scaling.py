"""Inputs and targets in units of their own spread, and predictions back in the user's.

All of it is done in double precision: in single precision, a column at 1e8 that varies by one is
constant.
"""

from typing import Any, NamedTuple

import numpy as np

from scalemix.data.values import within

# In single precision, a value so many standard deviations from the mean drowns all other columns.
FARTHEST = 1e6
# The digits that numbers in single and in double precision have.
SINGLE, DOUBLE = 7, 17
# Numbers scaled at a time, so that a large table is never held twice in double precision, and those
# in between stay in the processor's cache.
AT_A_TIME = 65_536
# Less than any exponent of a number in double precision.
NO_EXPONENT = -2_000


class Scaling(NamedTuple):
    """Means and standard deviations of the training data; zero and one where nothing is scaled."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: float | np.ndarray
    """One number, or one for each of several targets."""
    y_scale: float | np.ndarray
    x_ends: np.ndarray | None = None
    """The least and the largest value of each column, (2, columns), where they are known."""
    draws_in: bool = False
    """Whether inputs far beyond these ends are drawn in (`draw_in`)."""

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
            step = max(AT_A_TIME // x.shape[1], 1)
            for start in range(0, len(x), step):
                part = x[start : start + step].astype(np.float64)
                part -= self.x_mean
                part /= self.x_scale
                seen[start : start + step] = part
        return seen

    def drawn_in(self, seen: np.ndarray) -> np.ndarray:
        """Scaled inputs, none of them farther outside than networks are to be asked about.

        Hardly any table has such cells, so that rows are looked at some at a time, and copied only
        where there is one.
        """
        if not self.draws_in or self.x_ends is None:
            return seen
        ends = self.inputs(self.x_ends, seen.dtype)
        low, high = ends[0] - _widths(ends)[0], ends[1] + _widths(ends)[0]
        drawn, step = seen, max(AT_A_TIME // seen.shape[1], 1)
        for start in range(0, len(seen), step):
            part = seen[start : start + step]
            if np.any(part < low) or np.any(part > high):
                drawn = seen.copy() if drawn is seen else drawn
                drawn[start : start + step] = draw_in(part, ends)
        return drawn

    def keeping_inputs(self, kept: list[int]) -> "Scaling":
        """The scaling of these columns alone."""
        if not self.x_mean.size:
            return self
        ends = None if self.x_ends is None else self.x_ends[:, kept]
        return self._replace(x_mean=self.x_mean[kept], x_scale=self.x_scale[kept], x_ends=ends)

    @property
    def digits(self) -> int:
        """How many digits of a prediction say something: those of single precision, in its units.

        A target that lies far from zero has more of them before the first that varies.
        """
        ratio = np.max(np.abs(self.y_mean) / self.y_scale, initial=1.0)
        return min(SINGLE + int(np.ceil(np.log10(ratio))), DOUBLE)

    def keeping_units(self, keep: np.ndarray) -> "Scaling":
        """The scaling, except that inputs which keep their units are only centred."""
        return self._replace(x_scale=np.where(keep, 1.0, self.x_scale))

    def leaving_levels(self, num_levels: dict[int, int]) -> "Scaling":
        """The scaling, except that inputs which are positions of levels stay as they are.

        `num_levels` says which inputs these are, and how many levels each has. Every position of a
        level counts as inside, whether training had it or not.
        """
        if not num_levels or not self.x_mean.size:
            return self
        places = list(num_levels)
        mean, scale = self.x_mean.copy(), self.x_scale.copy()
        mean[places], scale[places] = 0.0, 1.0
        ends = None
        if self.x_ends is not None:
            ends = self.x_ends.copy()
            ends[0, places], ends[1, places] = 0.0, np.array([*num_levels.values()]) - 1.0
        return self._replace(x_mean=mean, x_scale=scale, x_ends=ends)

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


# A column that varies by less, in its own unit, does so by rounding alone.
LEAST_WIDTH = 1e-6


def draw_in(seen: Any, ends: Any) -> Any:
    """Scaled inputs in which none lies beyond its ends, (2, columns), by two of their widths.

    Up to one width they stay as they are. Beyond, a distance of `t` widths becomes `2 - 1 / t`,
    which goes on smoothly. A network's mean and noise go on in straight lines, and a cell that is a
    hundred widths away, mostly a mistake, would get a prediction a hundred times as far out. What
    is no number, or infinite, stays so. The arrays are NumPy's or JAX's.
    """
    numpy = seen.__array_namespace__()
    width = _widths(ends)
    # What is infinite or no number stays, and plain numbers in its place do no harm below.
    known = numpy.isfinite(seen) & numpy.isfinite(width)
    cells, low, high = (numpy.where(known, part, 0) for part in (seen, ends[:1], ends[1:]))
    width = numpy.where(known, width, 1)
    inside = numpy.clip(cells, low, high)
    beyond = (cells - inside) / width
    far = numpy.abs(beyond) > 1
    drawn = numpy.sign(beyond) * (2 - 1 / numpy.where(far, numpy.abs(beyond), 1))
    return numpy.where(far, inside + drawn * width, seen)


def _widths(ends: Any) -> Any:
    """How wide each column is, (1, columns); one that does not vary keeps its unit."""
    numpy = ends.__array_namespace__()
    width = ends[1:] - ends[:1]
    return numpy.where(width > LEAST_WIDTH, width, numpy.ones_like(width))


def farthest_cell(seen: np.ndarray, positions: Any = ()) -> tuple[int, int] | None:
    """The first cell of scaled inputs that lies too far out to predict from, if there is one.

    `positions` are the columns that are looked up, of which none is far from another.
    """
    if within(seen, FARTHEST):
        return None
    far = ~(np.abs(seen) <= FARTHEST)
    far[:, np.asarray(positions, int)] = False
    if not far.any():
        return None
    row, column = np.argwhere(far)[0]
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
    """The scaling of rows that are all there; see `ScalingMoments`."""
    moments = ScalingMoments(inputs=inputs, targets=targets, positive=positive)
    moments.add(x, y, weight)
    return moments.scaling()


class ScalingMoments:
    """Finds means and standard deviations of rows that come a few at a time, or all at once.

    A column that does not vary keeps its unit. Targets that are `positive` are not shifted: their
    scale is their geometric mean.
    """

    def __init__(self, *, inputs: bool, targets: bool, positive: bool):
        self._inputs, self._targets, self._positive = inputs, targets, positive
        self._of_inputs, self._of_targets = Moments(), Moments()
        self._target_shape: tuple[int, ...] = ()

    def add(self, x: Any, y: np.ndarray, weight: np.ndarray) -> None:
        """Some more rows."""
        self._target_shape = y.shape[1:]
        if self._inputs:
            self._of_inputs.add(x, weight)
        if self._targets:
            # The sign of a time says whether it was observed to the end.
            self._of_targets.add(np.log(np.abs(y)) if self._positive else y, weight)

    def merge(self, other: "ScalingMoments") -> "ScalingMoments":
        """These rows and the rows of another one of the same kind."""
        self._of_inputs.merge(other._of_inputs)
        self._of_targets.merge(other._of_targets)
        return self

    def scaling(self) -> Scaling:
        """That of all rows so far."""
        x_mean, x_scale, x_ends = np.zeros(0), np.ones(0), None
        if self._inputs:
            (x_mean, x_scale), x_ends = self._of_inputs.spread(), self._of_inputs.ends()
        shape = self._target_shape
        y_mean, y_scale = np.zeros(shape), np.ones(shape)
        if self._targets:
            y_mean, y_scale = self._of_targets.spread()
            if self._positive:
                y_mean, y_scale = np.zeros(shape), np.exp(y_mean)
        if not shape:
            y_mean, y_scale = float(y_mean), float(y_scale)
        return Scaling(x_mean, x_scale, y_mean, y_scale, x_ends)


class Moments:
    """Weighted means and deviations of rows that come a few at a time, in double precision.

    The least and the largest value are kept, too.
    """

    def __init__(self) -> None:
        self._total = 0.0
        self._exponent: Any = 0
        self._mean: np.ndarray = np.zeros(())
        self._squares: np.ndarray = np.zeros(())
        self._low: np.ndarray = np.array(np.inf)
        self._high: np.ndarray = np.array(-np.inf)

    def add(self, values: np.ndarray, weight: np.ndarray) -> None:
        """Some more rows."""
        if not weight.all():
            # Rows that do not count may hold anything.
            values, weight = values[weight > 0], weight[weight > 0]
        values, total = values.astype(np.float64), float(weight.sum())
        if not total:
            return
        part = Moments()
        part._low, part._high = values.min(axis=0), values.max(axis=0)
        # Dividing by a power of two costs no digit, and squares then hardly ever overflow.
        largest = np.maximum(part._high, -part._low)
        # Zeros have no power of two, so that they leave it to other rows.
        part._exponent = np.where(largest > 0, np.frexp(largest)[1], NO_EXPONENT)
        values = np.ldexp(values, -part._exponent)
        part._mean = np.average(values, axis=0, weights=weight)
        values -= part._mean
        part._squares = np.average(np.square(values, out=values), axis=0, weights=weight)
        part._total = total
        self.merge(part)

    def merge(self, other: "Moments") -> None:
        """The rows of another one."""
        if not other._total:
            return
        total = self._total + other._total
        share = other._total / total
        # Both by the larger power of two, so that no square overflows.
        exponent = np.maximum(self._exponent, other._exponent) if self._total else other._exponent
        mean, squares = self._by(exponent)
        other_mean, other_squares = other._by(exponent)
        away = other_mean - mean
        # Of both parts together: the mean of their squares, and the distance of their means.
        between = share * (1 - share) * away**2
        self._squares = (1 - share) * squares + share * other_squares + between
        self._mean = mean + share * away
        self._exponent, self._total = exponent, total
        self._low = np.minimum(self._low, other._low)
        self._high = np.maximum(self._high, other._high)

    def _by(self, exponent: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and squares in units of another power of two."""
        shift = self._exponent - exponent
        return np.ldexp(self._mean, shift), np.ldexp(self._squares, 2 * shift)

    def ends(self) -> np.ndarray:
        """The least and the largest value of each column, (2, columns)."""
        return np.stack([self._low, self._high])

    def spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of each column; a column that does not vary keeps its unit."""
        mean, scale = self._mean, np.sqrt(self._squares)
        varies = scale > 1e-12 * np.abs(mean)
        mean, scale = np.ldexp(mean, self._exponent), np.ldexp(scale, self._exponent)
        return mean, np.where(varies & (scale >= np.finfo(np.float64).tiny), scale, 1.0)
