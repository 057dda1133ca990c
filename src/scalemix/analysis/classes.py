"""How well classes are told apart: one number for all of them, or one for each."""

from typing import Any, NamedTuple

import numpy as np


def as_classes(labels: Any, probabilities: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels as whole numbers, and probabilities as (rows, classes); or a `ValueError`."""
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


def auc(labels: Any, probabilities: Any) -> float:
    """The area under the ROC curve: how often a row of a class is given more of it than another.

    It is the probability that, of one row of a class and one that is not of it, the first has the
    larger probability of that class; ties count half. Of more than two classes it is the mean over
    those that occur.

    Parameters
    ----------
    labels : array_like
        The classes, counted from 0.
    probabilities : array_like
        As in `accuracy`.

    Returns
    -------
    float
        The area, in [0, 1]; 0.5 is chance. Not a number if all rows are of one class.

    Examples
    --------
    >>> sx.metrics.auc([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.5])
    0.75
    """
    labels, probabilities = as_classes(labels, probabilities)
    areas = []
    for place in range(probabilities.shape[1]):
        inside = labels == place
        num, others = inside.sum(), (~inside).sum()
        if num and others:
            _, group, counts = np.unique(
                probabilities[:, place], return_inverse=True, return_counts=True
            )
            # The mean rank of all rows with one value.
            ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
            areas.append((ranks[inside].sum() - num * (num + 1) / 2) / (num * others))
    return float(np.mean(areas)) if areas else float("nan")


class ByClass(NamedTuple):
    """Precision and recall of each class. `by_class` gives it.

    Attributes
    ----------
    precision : numpy.ndarray
        Of the rows that were said to be of a class, the share that are; not a number if none were.
    recall : numpy.ndarray
        Of the rows of a class, the share that were said to be; not a number if there are none.
    num_rows : numpy.ndarray
        How many rows are of each class.

    Examples
    --------
    >>> sx.metrics.by_class([0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]).num_rows
    array([1, 2])
    """

    precision: np.ndarray
    recall: np.ndarray
    num_rows: np.ndarray


def by_class(labels: Any, probabilities: Any) -> ByClass:
    """Precision and recall of each class, where the most probable one is said.

    Parameters
    ----------
    labels : array_like
        The classes, counted from 0.
    probabilities : array_like
        As in `accuracy`.

    Returns
    -------
    ByClass
        One number for each class.

    Examples
    --------
    >>> scores = sx.metrics.by_class([0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> scores.precision, scores.recall
    (array([0.5, 1. ]), array([1. , 0.5]))
    """
    labels, probabilities = as_classes(labels, probabilities)
    num, said = probabilities.shape[1], np.argmax(probabilities, axis=1)
    right, num_said, num_rows = (
        np.bincount(which, minlength=num) for which in (labels[said == labels], said, labels)
    )
    with np.errstate(invalid="ignore"):
        return ByClass(right / num_said, right / num_rows, num_rows)
