"""Intervals, and sets of classes, with a guarantee for finitely many rows: split conformal.

Rows that the fit never saw tell how plausible the model finds what really happens: the probability
of a class, or of a target as far out as this one on its side of the distribution. Of `n` such rows,
let `t` be the `k`-th smallest of these numbers, with `k = floor((n + 1) (1 - coverage))`. A new row
that comes from where they came from is found at least as plausible as `t` with probability
`1 - k / (n + 1)`, which is `coverage` or a little more, whatever the model and whatever the data
(Vovk, Gammerman and Shafer 2005; for the whole distribution, Chernozhukov, Wuethrich and Zhu 2021).
So the interval, or the set, is of all targets that are at least as plausible.

Of real targets, another measure makes narrower intervals: the distance of the target from the mean,
divided by the fourth root of the predicted deviation. Rows that are said to be noisier get somewhat
wider intervals, and not as much wider as the model says, which has to be right about every kind of
row for that to pay.

The guarantee is about new rows on average, not about each kind of row, and it is lost where new
rows differ from those that were kept apart.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from scalemix.data.values import MOST_CALIBRATING, check_levels, is_number
from scalemix.posterior import statistics
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.streaming import any_by_row, refuse_lost

# Errors are divided by this power of the predicted deviation. With 0 all intervals are equally
# wide, with 1 they follow the prediction. Of those that were tried, it alone made intervals wider
# than 0 does on no set, but for .04% on one (benchmarks/README.md).
POWER = 0.25
ROUNDING = 4 * np.finfo(np.float64).eps


class Conformal(NamedTuple):
    """How plausible a model found what happened in rows that were kept apart.

    `calibrate` makes it.

    Attributes
    ----------
    plausibility : numpy.ndarray
        The probability of a target as far out as that of each row, or of its class, in rising
        order. Of several targets each has a column.
    by_error : numpy.ndarray
        Whether it is the distance of the target from the mean instead, below zero; one answer for
        each of several targets.
    power : float
        The power of the predicted standard deviation that such distances were divided by.

    Examples
    --------
    >>> from scalemix.posterior.conformal import calibrate
    >>> pred = post.predict(x)
    >>> conformal = calibrate(pred, y)
    >>> lower, upper = conformal.interval(pred, 0.8)
    >>> bool(np.mean((lower <= y) & (y <= upper)) >= 0.8)
    True
    """

    plausibility: np.ndarray
    by_error: np.ndarray = np.array(False)
    power: float = 0.0

    def is_sure_of(self, coverage: float) -> bool:
        """Whether there are enough rows for so much, of each target.

        Parameters
        ----------
        coverage : float
            The probability of an interval to hold its target, or of a set to hold its class.

        Returns
        -------
        bool
            If not, intervals reach as far as targets can, and sets hold all classes.
        """
        return bool(np.isfinite(self._least(coverage)).all())

    def _least(self, coverage: float) -> np.ndarray:
        """The least plausibility of a target inside, one for each of several targets."""
        num = len(self.plausibility)
        # Ten digits, so that (n + 1) * 0.1 rounds as it does on paper.
        place = math.floor(round((num + 1) * (1 - coverage), 10))
        if not place:
            return np.full(self.plausibility.shape[1:], -np.inf)
        return self.plausibility[place - 1]

    def interval(
        self, predictive: Predictive, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of an interval for each row, guaranteed to cover on average.

        Parameters
        ----------
        predictive : Predictive
            The prediction of the rows, by the model that was calibrated.
        coverage : float, default 0.9
            The probability of an interval to hold its target, in (0, 1).

        Returns
        -------
        tuple of numpy.ndarray
            The lower and the upper ends. They are as far out as targets can be where nothing less
            is sure to cover so much: with fewer rows than `coverage / (1 - coverage)`, or where the
            model took too many of them for impossible.
        """
        _check(predictive, ordered=True)
        (coverage,) = check_levels("An interval's coverage", float(coverage))
        least = self._least(coverage)
        # With too few rows nothing bounds an error, even where the deviation is zero.
        unit = np.where(np.isinf(least), 1.0, _unit(predictive, self.power))
        reach = np.where(self.by_error, -least, 0.0) * unit
        # A row that is just as far as the one that sets the end is inside, whatever is rounded.
        reach = reach + ROUNDING * (np.abs(predictive.mean) + reach)
        lower, upper = predictive.mean - reach, predictive.mean + reach
        if not self.by_error.all():
            ends = _by_tail(predictive, np.where(self.by_error, 0.5, least))
            lower, upper = (
                np.where(self.by_error, each, end)
                for each, end in zip((lower, upper), ends, strict=True)
            )
        bottom, top = predictive.likelihood.support
        bottom = 0.0 if predictive.likelihood.discrete else bottom
        return np.maximum(lower, bottom), np.minimum(upper, top)

    def sets(self, predictive: Predictive, coverage: float = 0.9) -> np.ndarray:
        """The classes that each row may well have, guaranteed to hold its own on average.

        Parameters
        ----------
        predictive : Predictive
            The prediction of the rows, by the model that was calibrated.
        coverage : float, default 0.9
            The probability of a set to hold the row's class, in (0, 1).

        Returns
        -------
        numpy.ndarray
            For each row and class whether the class is in the set. The most probable class always
            is, so that no set is empty.
        """
        _check(predictive, ordered=False)
        (coverage,) = check_levels("A set's coverage", float(coverage))
        shares = predictive.mean
        most = shares == shares.max(axis=1, keepdims=True)
        # Where nothing is known, every class may be the one.
        return (shares >= self._least(coverage)) | most | np.isnan(shares)


def calibrate(predictive: Predictive, y: Any) -> Conformal:
    """How plausible a model finds what happened in rows that it was not fitted to.

    Parameters
    ----------
    predictive : Predictive
        The prediction of these rows.
    y : array_like
        Their targets, or classes counted from 0.

    Returns
    -------
    Conformal
        With `interval`, or for classes `sets`, for predictions of new rows.

    Raises
    ------
    ValueError
        If there are no rows, or times that were not observed to the end.

    Examples
    --------
    >>> from scalemix.posterior.conformal import calibrate
    >>> calibrate(post.predict(x), y).plausibility.shape
    (40,)
    """
    if not len(predictive):
        raise ValueError("Calibration needs rows that the fit has not seen; there are none.")
    targets = predictive._targets(y)
    if predictive.likelihood.ordered:
        if predictive.likelihood.support[0] == 0:
            refuse_unobserved(targets)
        return _by_row(predictive, np.asarray(y, np.float64).reshape(targets.shape), targets)
    plausibility = np.take_along_axis(predictive.mean, targets[:, None].astype(int), axis=1)[:, 0]
    return Conformal(np.sort(_known(plausibility)))


def _by_row(predictive: Predictive, y: np.ndarray, seen: np.ndarray) -> Conformal:
    """The calibration by rows whose targets have an order, given in units and as the model sees."""
    kind = predictive.likelihood
    # Counts, prices and shares have no room on one side: there the distribution's shape counts.
    if kind.discrete or kind.support != (-math.inf, math.inf):
        tails = _known(predictive._stream(statistics.tail, seen)[0])
        return Conformal(np.sort(tails, axis=0), np.zeros(tails.shape[1:], bool))
    mean = _known(predictive.mean)
    # Of a distribution whose deviation says nothing, errors count as they are.
    usable = np.isfinite(predictive.std).all() and (predictive.std > 0).all()
    power = POWER if usable else 0.0
    errors = -np.abs(y - mean) / _unit(predictive, power)
    return Conformal(np.sort(errors, axis=0), np.ones(errors.shape[1:], bool), power)


def _unit(predictive: Predictive, power: float) -> np.ndarray:
    """What errors are measured in, at each row."""
    return np.power(predictive.std, power) if power else np.ones_like(predictive.mean)


def _known(plausibility: np.ndarray) -> np.ndarray:
    """The same, or a `ValueError` if the model has no answer for a row."""
    refuse_lost(any_by_row(np.isnan(plausibility)))
    return plausibility


def _by_tail(predictive: Predictive, least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends beyond which less than this probability lies; infinite where it is none."""
    # A count inside has more than this above it, where a number on a scale may have as much.
    tails = np.nextafter(np.maximum(least, 0).astype(np.float32), np.float32(0)).astype(np.float64)
    lower, upper = (ends[0] for ends in predictive._ends(tails[None], tails[None]))
    return np.where(least > 0, lower, -np.inf), np.where(least > 0, upper, np.inf)


def refuse_unobserved(y: np.ndarray) -> None:
    """Raise `ValueError` for times below zero, those that were not observed to the end."""
    if np.any(y < 0):
        raise ValueError(
            "Conformal intervals are not available for times that were not all observed to the "
            "end: such a time does not say whether an interval would have held it. Leaving these "
            "rows out is no way around it, for short times are observed more often than long ones. "
            "Fit without a share of rows for calibration, and use the model's own intervals."
        )


def rows_apart(
    share: float | None, num_rows: int, weight: np.ndarray | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The rows to fit to, and a share of them to calibrate by, which may be none.

    Rows without a weight are no rows. The others count once each, whatever their weight.
    """
    rows = np.arange(num_rows) if weight is None else np.flatnonzero(weight)
    # On the command line zero is how to say none. `False` is no number.
    if share is None or (is_number(share) and share == 0):
        return np.arange(num_rows), rows[:0]
    if not (is_number(share) and 0 < share < 1):
        raise ValueError(f"calibration must be a share of the rows in [0, 1), got {share!r}.")
    num = min(round(share * len(rows)), MOST_CALIBRATING)
    if not 0 < num < len(rows):
        raise ValueError(
            f"calibration={share} of {len(rows)} rows leaves none to fit to, or none to calibrate."
        )
    apart = np.sort(rng.permutation(rows)[:num])
    return np.setdiff1d(np.arange(num_rows), apart), apart


def _check(predictive: Predictive, *, ordered: bool) -> None:
    if predictive.likelihood.ordered != ordered:
        raise ValueError(
            "Classes have no order, so they have no intervals: ask for sets."
            if ordered
            else "Only classes have sets: ask for an interval."
        )
