"""A maximum of a function of one number, for the best constant of a likelihood."""

import math
from collections.abc import Callable

import numpy as np

GOLDEN = (math.sqrt(5) - 1) / 2
# Each step leaves 0.618 of the interval: a hundred-thousandth of it.
NUM_STEPS = 24
# Where noise scales are looked for, on a logarithmic scale.
WIDEST = 50.0

log_gamma = np.vectorize(math.lgamma, otypes=[float])


def maximum(function: Callable[[float], float], low: float, high: float) -> float:
    """The largest value between two ends of a function with one maximum, by golden sections."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(NUM_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = function(left)
    return max(at_left, at_right)


def best_scale(function: Callable[[float], float], floor: float) -> float:
    """The largest value over all noise scales above a floor."""
    least = max(floor, 1e-4)
    return maximum(
        lambda log_scale: function(math.exp(log_scale)), math.log(least), math.log(WIDEST)
    )
