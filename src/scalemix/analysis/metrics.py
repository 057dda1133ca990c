"""How good predictions are. Arrays in, numbers out; lower is better unless said otherwise."""

from typing import Any

import numpy as np

__all__ = [
    "accuracy",
    "brier",
    "calibration_error",
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
    """The root-mean-square error of the predictive mean."""
    y, mean = _pair(y, mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mae(y: Any, mean: Any) -> float:
    """The mean absolute error of the predictive mean (or median)."""
    y, mean = _pair(y, mean)
    return float(np.mean(np.abs(y - mean)))


def paper_rmse(absolute_errors: Any) -> float:
    """`mean_{n,s} |y_n - f_s(x_n)|`, from each row's `Predictive.absolute_error`.

    What the paper's released code prints as RMSE, and its tables report: the mean absolute error of
    single draws. It is no root-mean-square error, and not comparable with one.
    """
    return float(np.mean(np.asarray(absolute_errors, float)))


def log_likelihood(log_probs: Any) -> float:
    """The mean log predictive density, from each row's `Predictive.log_prob`. Higher is better."""
    return float(np.mean(np.asarray(log_probs, float)))


def crps(y: Any, samples: Any) -> float:
    """The continuous ranked probability score, from samples `(num, rows)` of the predictive.

    `E|X - y| - E|X - X'| / 2`, the second expectation over distinct pairs, so that the estimate is
    unbiased for every number of samples.
    """
    y, samples = np.asarray(y, float), np.sort(np.asarray(samples, float), axis=0)
    num = len(samples)
    if num < 2 or samples.shape[1:] != y.shape:
        raise ValueError(
            f"crps takes two samples or more for each row, (num, {len(y)}); got {samples.shape}."
        )
    # sum_{i<j} (x_j - x_i) of sorted values is sum_i (2 i - num + 1) x_i.
    order = 2 * np.arange(num)[:, None] - num + 1
    spread = 2 * np.sum(order * samples, axis=0) / (num * (num - 1))
    return float(np.mean(np.mean(np.abs(samples - y), axis=0) - 0.5 * spread))


def interval_coverage(y: Any, interval: tuple[Any, Any]) -> float:
    """The share of targets inside their interval; good if it is the interval's probability."""
    lower, upper = (np.asarray(end, float) for end in interval)
    y, lower = _pair(y, lower)
    return float(np.mean((lower <= y) & (y <= upper)))


def interval_width(interval: tuple[Any, Any]) -> float:
    """The mean width of the intervals."""
    lower, upper = _pair(*interval)
    return float(np.mean(upper - lower))


def calibration_error(cdf_values: Any, num_levels: int = 19) -> float:
    """The mean gap between the levels and the shares of targets below their quantiles.

    From each row's `Predictive.cdf` of its target, which is uniform if all is well.
    """
    values = np.asarray(cdf_values, float)
    levels = np.arange(1, num_levels + 1) / (num_levels + 1)
    shares = np.mean(values[:, None] <= levels, axis=0)
    return float(np.mean(np.abs(shares - levels)))


def accuracy(labels: Any, probabilities: Any) -> float:
    """The share of rows whose most probable class is theirs. Higher is better."""
    labels, probabilities = _classes(labels, probabilities)
    return float(np.mean(np.argmax(probabilities, axis=1) == labels))


def brier(labels: Any, probabilities: Any) -> float:
    """The mean squared distance of the probabilities from the truth, summed over classes."""
    labels, probabilities = _classes(labels, probabilities)
    truth = np.eye(probabilities.shape[1])[labels]
    return float(np.mean(np.sum((probabilities - truth) ** 2, axis=1)))


def expected_calibration_error(labels: Any, probabilities: Any, num_bins: int = 15) -> float:
    """The gap between confidence and accuracy, over bins of equal width in confidence."""
    labels, probabilities = _classes(labels, probabilities)
    confidence = probabilities.max(axis=1)
    correct = np.argmax(probabilities, axis=1) == labels
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=num_bins)
    return float(np.sum(np.abs(gaps)) / len(labels))


def _classes(labels: Any, probabilities: Any) -> tuple[np.ndarray, np.ndarray]:
    given, probabilities = np.asarray(labels), np.asarray(probabilities, float)
    labels = given.astype(int)
    if not np.array_equal(labels, given):
        raise ValueError("Labels must be whole numbers, the classes counted from 0.")
    if probabilities.ndim == 1:
        # Two classes, by the probability of the second.
        probabilities = np.stack([1 - probabilities, probabilities], axis=1)
    if labels.shape != probabilities.shape[:1] or labels.size == 0:
        raise ValueError(
            f"One label a row of probabilities: got {labels.shape} and {probabilities.shape}."
        )
    return labels, probabilities
