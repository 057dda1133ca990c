"""How good predictions are: arrays in, one number out.

Lower is better, except for `log_likelihood`, `accuracy`, `auc`, `concordance`, and precision and
recall (`by_class`). `interval_coverage` is best near the probability of the interval. Of several
targets, `(rows, targets)`, each is measured by itself, and the mean is given.
"""

from typing import Any

import numpy as np

from scalemix.analysis.classes import ByClass, as_classes, auc, by_class
from scalemix.analysis.times import concordance

__all__ = [
    "ByClass",
    "accuracy",
    "auc",
    "brier",
    "by_class",
    "calibration_error",
    "concordance",
    "crps",
    "expected_calibration_error",
    "interval_coverage",
    "interval_width",
    "log_likelihood",
    "mae",
    "paper_rmse",
    "rmse",
]


def _pair(y: Any, other: Any) -> tuple[np.ndarray, np.ndarray]:
    y, other = np.asarray(y, float), np.asarray(other, float)
    if y.shape != other.shape:
        raise ValueError(f"Shapes differ: {y.shape} and {other.shape}.")
    if y.size == 0:
        raise ValueError("There is nothing to measure: no rows.")
    return y, other


def rmse(y: Any, mean: Any) -> float:
    """The root-mean-square error of the predictive mean.

    Parameters
    ----------
    y : array_like
        The targets.
    mean : array_like
        `Predictive.mean`, of the same shape.

    Returns
    -------
    float
        The error, in the unit of the targets.

    Examples
    --------
    >>> sx.metrics.rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    y, mean = _pair(y, mean)
    return float(np.mean(np.sqrt(np.mean((y - mean) ** 2, axis=0))))


def mae(y: Any, mean: Any) -> float:
    """The mean absolute error of the predictive mean, or of the median.

    Parameters
    ----------
    y : array_like
        The targets.
    mean : array_like
        `Predictive.mean`, or `Predictive.quantile(0.5)`, of the same shape.

    Returns
    -------
    float
        The error, in the unit of the targets.

    Examples
    --------
    >>> sx.metrics.mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    y, mean = _pair(y, mean)
    return float(np.mean(np.abs(y - mean)))


def paper_rmse(absolute_errors: Any) -> float:
    """The mean absolute error of single draws: `mean_{n,s} |y_n - f_s(x_n)|`.

    The paper's released code prints this as RMSE, and its tables report it. It is not a
    root-mean-square error, and cannot be compared with one.

    Parameters
    ----------
    absolute_errors : array_like
        Each row's `Predictive.absolute_error`.

    Returns
    -------
    float
        The error, in the unit of the targets.

    Examples
    --------
    >>> sx.metrics.paper_rmse([0.5, 1.5])
    1.0
    """
    return float(np.mean(np.asarray(absolute_errors, float)))


def log_likelihood(log_probs: Any) -> float:
    """The mean log predictive density; higher is better.

    Parameters
    ----------
    log_probs : array_like
        Each row's `Predictive.log_prob`.

    Returns
    -------
    float
        The mean, in nats.

    Examples
    --------
    >>> sx.metrics.log_likelihood([-1.0, -2.0])
    -1.5
    """
    return float(np.mean(np.asarray(log_probs, float)))


def crps(y: Any, samples: Any) -> float:
    """The continuous ranked probability score, `E|X - y| - E|X - X'| / 2`.

    The second expectation is over distinct pairs of samples, so that the estimate is unbiased for
    every number of them.

    Parameters
    ----------
    y : array_like
        The targets.
    samples : array_like
        `Predictive.sample`, of the shape `(num, *y.shape)`, with two samples or more.

    Returns
    -------
    float
        The mean score over the rows, in the unit of the targets.

    Examples
    --------
    >>> sx.metrics.crps([0.0], [[-1.0], [1.0]])
    0.0
    """
    y, samples = np.asarray(y, float), np.sort(np.asarray(samples, float), axis=0)
    num = len(samples)
    if num < 2 or samples.shape[1:] != y.shape:
        raise ValueError(
            f"crps takes two samples or more of the targets, (num, "
            f"{', '.join(map(str, y.shape))}); got {samples.shape}."
        )
    # sum_{i<j} (x_j - x_i) of sorted values is sum_i (2 i - num + 1) x_i.
    order = 2 * np.arange(num) - num + 1
    spread = 2 * np.tensordot(order, samples, axes=1) / (num * (num - 1))
    return float(np.mean(np.mean(np.abs(samples - y), axis=0) - 0.5 * spread))


def interval_coverage(y: Any, interval: tuple[Any, Any]) -> float:
    """The share of targets inside their interval; best near the interval's probability.

    Parameters
    ----------
    y : array_like
        The targets.
    interval : tuple of array_like
        The lower and upper ends, as `Predictive.interval` gives them.

    Returns
    -------
    float
        The share, in [0, 1].

    Examples
    --------
    >>> sx.metrics.interval_coverage([0.0, 5.0], ([-1.0, -1.0], [1.0, 1.0]))
    0.5
    """
    lower, upper = (np.asarray(end, float) for end in interval)
    y, lower = _pair(y, lower)
    return float(np.mean((lower <= y) & (y <= upper)))


def interval_width(interval: tuple[Any, Any]) -> float:
    """The mean width of the intervals.

    Parameters
    ----------
    interval : tuple of array_like
        The lower and upper ends, as `Predictive.interval` gives them.

    Returns
    -------
    float
        The width, in the unit of the targets.

    Examples
    --------
    >>> sx.metrics.interval_width(([0.0, 0.0], [1.0, 3.0]))
    2.0
    """
    lower, upper = _pair(*interval)
    return float(np.mean(upper - lower))


def calibration_error(cdf_values: Any, num_levels: int = 19) -> float:
    """The mean gap between the levels of quantiles and the shares of targets below them.

    Parameters
    ----------
    cdf_values : array_like
        `Predictive.cdf` of the targets; uniform where the predictive is calibrated.
    num_levels : int, default 19
        How many levels to compare, evenly spaced in (0, 1).

    Returns
    -------
    float
        The gap, in [0, 1].

    Examples
    --------
    >>> round(sx.metrics.calibration_error(np.linspace(0, 1, 1001)), 2)
    0.0
    """
    values = np.asarray(cdf_values, float)
    levels = np.arange(1, num_levels + 1) / (num_levels + 1)
    shares = np.mean(values[..., None] <= levels, axis=0)
    return float(np.mean(np.abs(shares - levels)))


def accuracy(labels: Any, probabilities: Any) -> float:
    """The share of rows whose most probable class is the right one; higher is better.

    Parameters
    ----------
    labels : array_like
        The classes, counted from 0.
    probabilities : array_like
        `Predictive.mean`: `(rows, classes)`, or `(rows,)` with the probability of the second of
        two classes.

    Returns
    -------
    float
        The share, in [0, 1].

    Examples
    --------
    >>> sx.metrics.accuracy([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    0.5
    """
    labels, probabilities = as_classes(labels, probabilities)
    return float(np.mean(np.argmax(probabilities, axis=1) == labels))


def brier(labels: Any, probabilities: Any) -> float:
    """The mean squared distance of the class probabilities from the truth.

    It is counted as scikit-learn's `brier_score_loss` does: of two classes it is the distance of
    the probability of one of them, of more classes the sum over all of them.

    Parameters
    ----------
    labels : array_like
        The classes, counted from 0.
    probabilities : array_like
        As in `accuracy`.

    Returns
    -------
    float
        The score, in [0, 1] for two classes and in [0, 2] for more.

    Examples
    --------
    >>> sx.metrics.brier([0, 1], [[1.0, 0.0], [0.5, 0.5]])
    0.125
    >>> sx.metrics.brier([0, 1], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    0.25
    """
    labels, probabilities = as_classes(labels, probabilities)
    truth = np.eye(probabilities.shape[1])[labels]
    share = 0.5 if probabilities.shape[1] == 2 else 1.0
    return share * float(np.mean(np.sum((probabilities - truth) ** 2, axis=1)))


def expected_calibration_error(labels: Any, probabilities: Any, num_bins: int = 15) -> float:
    """The mean gap between confidence and accuracy, over bins of equal width in confidence.

    Parameters
    ----------
    labels : array_like
        The classes, counted from 0.
    probabilities : array_like
        As in `accuracy`. The confidence of a row is its largest probability.
    num_bins : int, default 15
        How many bins to sort rows into.

    Returns
    -------
    float
        The gap, in [0, 1].

    Examples
    --------
    >>> round(sx.metrics.expected_calibration_error([0, 1], [[0.8, 0.2], [0.2, 0.8]]), 3)
    0.2
    """
    labels, probabilities = as_classes(labels, probabilities)
    confidence = probabilities.max(axis=1)
    correct = np.argmax(probabilities, axis=1) == labels
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=num_bins)
    return float(np.sum(np.abs(gaps)) / len(labels))
