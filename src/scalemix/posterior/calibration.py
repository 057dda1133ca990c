"""Intervals that hold what they promise, by rows that training did not see.

A target's normal score is the normal quantile of its `cdf`. Over many rows the scores have a spread
of one if intervals are right, less if they are too wide and more if too narrow. One number, the
spread on held-out rows, says at which level to take an interval so that it covers what it should.
Few rows tell a spread badly, so that some more are added as if they had been right. Densities stay
what they are.
"""

import math
from statistics import NormalDist

import numpy as np

NORMAL = NormalDist()
# Normal scores beyond this are counted as this: a cdf in single precision tells no more.
LARGEST_SCORE = 5.0
# So many rows with a spread of one are added to those that were held out.
ROWS_BELIEVED = 50


def score_spread(cdf_values: np.ndarray, weight: np.ndarray) -> float:
    """The root mean square of the normal scores of targets, from their `cdf`, drawn towards one."""
    least, most = NORMAL.cdf(-LARGEST_SCORE), NORMAL.cdf(LARGEST_SCORE)
    squares = [NORMAL.inv_cdf(value) ** 2 for value in np.clip(cdf_values, least, most).tolist()]
    total = np.average(squares, weights=weight) * len(squares)
    return float(np.sqrt((total + ROWS_BELIEVED) / (len(squares) + ROWS_BELIEVED)))


def tail_probability(probability: float, spread: float) -> float:
    """The probability that the central interval which covers so much leaves out at either end.

    Given the spread. As a tail it keeps its digits where what is covered rounds to one.
    """
    tail = 0.5 * (1 - probability)
    if spread == 1.0:
        return tail
    return 0.5 * math.erfc(-spread * NORMAL.inv_cdf(tail) / math.sqrt(2))
