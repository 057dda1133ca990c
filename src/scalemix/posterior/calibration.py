"""Intervals calibrated on rows that training did not see.

A target's normal score is the normal quantile of its `cdf`. Over many rows the scores have a spread
of one if intervals are right, a smaller one if they are too wide, and a larger one if they are too
narrow. This one number, measured on held-out rows, says at which level to take an interval so that
it covers as much as it should. Few rows measure a spread poorly, so some rows with the right spread
are added to them. Densities stay as they are.
"""

import math
from statistics import NormalDist

import numpy as np

NORMAL = NormalDist()
# Normal scores beyond this are cut to it: a cdf in single precision has no digits there.
LARGEST_SCORE = 5.0
# This many rows with a spread of one are added to those that were held out.
ROWS_BELIEVED = 50


def score_spread(cdf_values: np.ndarray, weight: np.ndarray) -> float | np.ndarray:
    """The root mean square of the targets' normal scores, from their `cdf`, shrunk towards one.

    Of several targets, (rows, targets), each has its own.
    """
    if cdf_values.ndim > 1:
        return np.array([score_spread(column, weight) for column in cdf_values.T])
    least, most = NORMAL.cdf(-LARGEST_SCORE), NORMAL.cdf(LARGEST_SCORE)
    squares = [NORMAL.inv_cdf(value) ** 2 for value in np.clip(cdf_values, least, most).tolist()]
    total = np.average(squares, weights=weight) * len(squares)
    return float(np.sqrt((total + ROWS_BELIEVED) / (len(squares) + ROWS_BELIEVED)))


def tail_probability(probability: float, spread: float) -> float:
    """The probability beyond either end of the central interval that covers this probability.

    `spread` is that of the normal scores. A tail keeps its digits where the probability that is
    covered rounds to one.
    """
    tail = 0.5 * (1 - probability)
    if spread == 1.0:
        return tail
    return 0.5 * math.erfc(-spread * NORMAL.inv_cdf(tail) / math.sqrt(2))
