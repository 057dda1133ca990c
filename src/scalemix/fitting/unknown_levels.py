"""What networks learn of categories that training has not seen."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import generator_of
from scalemix.data.input_layout import InputLayout

# More rows would teach little more of the unknown level, and each teaches nothing of its own.
MOST_SHARE = 0.05
# What share of its rows a level gives at the most: little, and more only where that is not enough.
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
    changes. Rows are counted by their weights throughout: two rows of weight one half are as good
    as one row, whose level is in no other, and no level loses more than half of its weight.
    """
    x = np.array(x)
    rng = generator_of(key)
    weight = np.ones(len(x)) if weight is None else weight
    counted = np.flatnonzero(weight)
    for place in np.flatnonzero(layout.levels):
        # The last position is that of what was not seen.
        unknown = layout.levels[place] - 1
        known = rng.permutation(counted[x[counted, place] != unknown])
        _, which = np.unique(x[known, place], return_inverse=True)
        own = weight[known]
        totals = np.bincount(which, own)
        # A row of weight two is two rows, which have their level in common.
        wanted = min(totals[totals <= 1].sum(), MOST_SHARE * own.sum())
        lightest = own.min(initial=np.inf)
        so_far = _totals_so_far(which, own)
        little, much = (
            np.flatnonzero((so_far <= share * totals[which]) & (own <= wanted)) for share in SPARE
        )
        # Little is enough where no further row would have room.
        spare = little if own[little].sum() > wanted - lightest else much
        most = min(int(wanted / lightest), len(spare))
        if most:
            chances = 1 / np.bincount(which[spare])[which[spare]]
            drawn = rng.choice(spare, most, replace=False, p=chances / chances.sum())
            fitting = np.cumsum(own[drawn]) <= wanted
            x[known[drawn[fitting]], place] = unknown
    return x


def _totals_so_far(which: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """For each row, the weight of it and of all rows before it that have the same level."""
    order = np.argsort(which, kind="stable")
    sums = np.cumsum(weight[order])
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    before = np.concatenate([[0.0], sums])[starts]
    so_far = np.empty(len(which))
    so_far[order] = sums - np.repeat(before, np.diff(np.append(starts, len(which))))
    return so_far
