"""How good predictions of times are, of which some were not observed to the end.

Such a time is written below zero: -7 is one that had lasted 7 and went on. How far off its
prediction is nobody knows, but it outlasted all times that ended before 7.
"""

from typing import Any, NamedTuple

import numpy as np

# Pairs of rows are compared in blocks of so many.
BLOCK = 1_000_000
# No times are as regular, or as irregular, as a Weibull with such a shape.
SHAPES = 1e-2, 1e3


def concordance(y: Any, predicted: Any) -> float:
    """How often the longer of two times has the larger prediction (Harrell's C).

    Pairs count of which it is known which time is the longer. Predictions that are equal count
    half.

    Parameters
    ----------
    y : array_like
        The times; those that were not observed to the end are below zero.
    predicted : array_like
        `Predictive.mean`, of the same shape; or anything that orders rows as it does.

    Returns
    -------
    float
        The share, in [0, 1]; 0.5 is chance, 1 is perfect. Not a number if no pair can be compared.

    Examples
    --------
    >>> sx.metrics.concordance([1.0, 2.0, -3.0], [0.5, 4.0, 2.0])
    0.6666666666666666
    """
    y, predicted = np.asarray(y, float), np.asarray(predicted, float)
    if y.shape != predicted.shape:
        raise ValueError(f"Shapes differ: {y.shape} and {predicted.shape}.")
    columns = y.reshape(len(y), -1).T, predicted.reshape(len(y), -1).T
    shares = [_of_one(*pair) for pair in zip(*columns, strict=True)]
    known = [share for share in shares if not np.isnan(share)]
    return float(np.mean(known)) if known else float("nan")


def _of_one(y: np.ndarray, predicted: np.ndarray) -> float:
    times, ended = np.abs(y), np.flatnonzero(y > 0)
    agree = num = 0.0
    for rows in np.array_split(ended, max(1, len(ended) * len(y) // BLOCK)):
        own = times[rows, None]
        # One that goes on when another has ended lasts longer.
        longer = (times > own) | ((times == own) & (y < 0))
        gaps = predicted - predicted[rows, None]
        agree += np.sum(longer * ((gaps > 0) + 0.5 * (gaps == 0)))
        num += longer.sum()
    return agree / num if num else float("nan")


class ConstantTimes(NamedTuple):
    """One Weibull distribution for the times of all rows: what no model would say.

    Attributes
    ----------
    shape, scale : numpy.ndarray
        Those of each target.

    Examples
    --------
    >>> from scalemix.analysis.times import fit_constant
    >>> fit_constant(np.array([1.0, 2.0, -3.0])).log_prob(np.array([2.0])).shape
    (1,)
    """

    shape: np.ndarray
    scale: np.ndarray

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        """The log density of each row, all its targets together; or how likely it goes on."""
        times = np.abs(y.reshape(len(y), -1))
        ratio = np.log(times / self.scale)
        density = np.log(self.shape / times) + self.shape * ratio
        ended = y.reshape(len(y), -1) > 0
        return np.sum(np.where(ended, density, 0.0) - np.exp(self.shape * ratio), axis=1)


def fit_constant(y: np.ndarray) -> ConstantTimes | None:
    """The most likely Weibull distribution of times; `None` where none was observed to the end.

    Of times `t`, of which `d` ended, the shape `k` and the scale `s` solve

        sum t^k log t / sum t^k - 1 / k = mean of log t over those that ended,   s^k = sum t^k / d
    """
    from scipy.optimize import brentq

    parameters = []
    for one in y.reshape(len(y), -1).T:
        logs, ended = np.log(np.abs(one)), one > 0
        if not ended.any():
            return None
        highest, wanted = logs.max(), logs[ended].mean()

        def slope(shape: float, logs=logs, highest=highest, wanted=wanted) -> float:
            weights = np.exp(shape * (logs - highest))
            return np.average(logs, weights=weights) - 1 / shape - wanted

        low, high = SHAPES
        # Times that are all alike are as regular as can be.
        shape = high if slope(high) <= 0 else brentq(slope, low, high)
        total = np.sum(np.exp(shape * (logs - highest))) / ended.sum()
        parameters.append((shape, np.exp(highest + np.log(total) / shape)))
    return ConstantTimes(*np.array(parameters).T)
