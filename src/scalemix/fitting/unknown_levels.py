"""What networks learn of categories that training has not seen."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import generator_of
from scalemix.data.input_layout import InputLayout

# More rows would teach little more of the unknown level, and each teaches nothing of its own.
MOST_SHARE = 0.05
# How much of its rows a level gives at the most: little, and more only where that is not enough.
SPARE = 0.2, 0.5


def with_unknown_levels(
    x: Any, layout: InputLayout, weight: np.ndarray | None, key: PRNGKeyArray
) -> np.ndarray:
    """The table, in which a few rows are read as if their level had never been seen.

    New rows bring levels that no row of training has. By Good and Turing's estimate, their share is
    that of the training rows whose level is in no other row. In as many training rows, up to a
    limit, the level becomes the unknown one. From these rows networks learn what to say of it: the
    mean over levels, and how far from the mean a level may be. Without them the weights of the
    unknown level would keep the spread of the prior, which each unit has by itself. Over many units
    such spreads cancel, and predictions would be too sure. The same would happen to a level that
    lost all its rows, so that each level keeps half of them or more. All levels with rows to spare
    are equally likely to give one away, however many they have. Where every level repeats, nothing
    changes. A row counts as often as its weight says: two rows of weight one half are as good as
    one row, whose level is in no other.
    """
    x = np.array(x)
    rng = generator_of(key)
    weight = np.ones(len(x)) if weight is None else weight
    counted = np.flatnonzero(weight)
    for place in np.flatnonzero(layout.levels):
        # The last position is that of what was not seen.
        unknown = layout.levels[place] - 1
        known = rng.permutation(counted[x[counted, place] != unknown])
        _, which, times = np.unique(x[known, place], return_inverse=True, return_counts=True)
        # A row of weight two is two rows, which have their level in common.
        alone = np.bincount(which, weight[known], len(times)) <= 1
        num = min(np.count_nonzero(alone), int(MOST_SHARE * len(known)))
        places = _places_in_levels(which, times)
        little, much = (np.floor(share * times) for share in SPARE)
        to_spare = little if little.sum() >= num else much
        spare = np.flatnonzero(places < to_spare[which])
        num = min(num, len(spare))
        if num:
            chances = 1 / to_spare[which[spare]]
            drawn = rng.choice(spare, num, replace=False, p=chances / chances.sum())
            x[known[drawn], place] = unknown
    return x


def _places_in_levels(which: np.ndarray, times: np.ndarray) -> np.ndarray:
    """For each row, how many rows before it have the same level."""
    order = np.argsort(which, kind="stable")
    places = np.empty(len(which), int)
    places[order] = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    return places
