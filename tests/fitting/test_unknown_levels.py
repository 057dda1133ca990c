"""Rows whose level is read as one that was never seen."""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemix.data.input_layout import join, of_levels, of_numbers
from scalemix.fitting.unknown_levels import MOST_SHARE, with_unknown_levels

KEY = jax.random.key(0)
LAYOUT = join([of_numbers(), of_levels(50)])


def table(levels):
    return np.stack([np.arange(len(levels), dtype=float), np.array(levels, float)], axis=1)


@settings(derandomize=True, max_examples=100)
@given(st.lists(st.integers(0, 49), min_size=1, max_size=200), st.integers(0, 5))
def test_as_many_rows_as_have_a_level_of_their_own_up_to_a_limit(levels, num_weightless):
    x, weight = table(levels), np.ones(len(levels))
    weight[:num_weightless] = 0
    changed = with_unknown_levels(x, LAYOUT, weight, KEY)
    np.testing.assert_array_equal(x, table(levels))
    np.testing.assert_array_equal(changed[:, 0], x[:, 0])
    rows = np.flatnonzero(changed[:, 1] != x[:, 1])
    assert (changed[rows, 1] == 49).all()
    assert (weight[rows] > 0).all()
    known = [level for level in levels[num_weightless:] if level != 49]
    alone = sum(known.count(level) == 1 for level in set(known))
    spare = sum(known.count(level) // 2 for level in set(known))
    assert len(rows) == min(alone, int(MOST_SHARE * len(known)), spare)
    # No level that has a row loses its last one.
    assert set(known) == set(changed[num_weightless:, 1][changed[num_weightless:, 1] != 49])


def test_levels_with_rows_to_spare_are_as_likely_to_give_one():
    """200 levels of one row, 300 of three and 300 of five, and one of 3,000."""
    layout = join([of_numbers(), of_levels(1000)])
    levels = [*range(200), *np.repeat(np.arange(200, 500), 3), *np.repeat(np.arange(500, 800), 5)]
    levels = [*levels, *[800] * 3000]
    changed = with_unknown_levels(table(levels), layout, None, KEY)[:, 1]
    left = np.bincount(changed.astype(int), minlength=1000)
    assert left[999] == 200
    # Those that have few keep them all.
    assert (left[:500] == np.bincount(levels, minlength=500)[:500]).all()
    # The large level has 600 rows to spare, and is as likely to give one as each of 300 others.
    assert 190 <= 1500 - left[500:800].sum() <= 200


def test_how_many_rows_a_level_has_makes_no_difference():
    """100 levels of five rows and 100 of nine have one each to spare; 40 have a single row."""
    sizes = [1] * 40 + [5] * 100 + [9] * 100
    levels, layout = np.repeat(np.arange(240), sizes), join([of_numbers(), of_levels(300)])
    few = []
    for key in jax.random.split(KEY, 50):
        changed = with_unknown_levels(table(levels), layout, None, key)[:, 1]
        left = np.bincount(changed.astype(int), minlength=300)
        few.append(500 - left[40:140].sum())
        assert left[299] == 40
    # As many of 200 are drawn: a hypergeometric number, whose mean and deviation are known.
    deviation = np.sqrt(40 * 0.5 * 0.5 * (200 - 40) / 199 / len(few))
    assert abs(np.mean(few) - 20) < 4 * deviation


def test_weights_count_rows():
    """Rows of weight two are two rows, so that none has a level of its own."""
    x = table([*range(40), *[41] * 400])
    np.testing.assert_array_equal(with_unknown_levels(x, LAYOUT, 2 * np.ones(440), KEY), x)


@settings(derandomize=True, max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from([0.25, 0.5, 1.0, 3.0, 1000.0])),
        min_size=1,
        max_size=200,
    ),
    st.integers(0, 5),
)
def test_weight_counts_and_not_rows(rows, seed):
    levels, weight = (np.array(part) for part in zip(*rows, strict=True))
    changed = with_unknown_levels(table(levels), LAYOUT, weight, jax.random.key(seed))[:, 1]
    gone = changed == 49
    totals, lost = np.bincount(levels, weight), np.bincount(levels, weight * gone)
    assert (lost <= totals / 2).all()
    assert lost.sum() <= min(totals[totals <= 1].sum(), MOST_SHARE * weight.sum())


def test_heavy_rows_leave_room_for_no_others():
    """40 rows are alone, and 400 rows of weight 4 share a level: ten of these are as much."""
    x, weight = table([*range(40), *[41] * 400]), np.array([1.0] * 40 + [4.0] * 400)
    changed = with_unknown_levels(x, LAYOUT, weight, KEY)
    assert (changed[:, 1] == 49).sum() == 10


def test_rows_of_weight_one_are_drawn_as_ever():
    """A fit with the same key stays the same from version to version."""
    x = table([*range(20), *np.repeat(np.arange(20, 40), 6)])
    for weight in (None, np.ones(140)):
        changed = with_unknown_levels(x, LAYOUT, weight, KEY)[:, 1]
        np.testing.assert_array_equal(
            np.flatnonzero(changed == 49), [37, 44, 57, 74, 114, 118, 123]
        )


def test_levels_that_repeat_stay():
    x = table([0, 1, 2] * 40)
    np.testing.assert_array_equal(with_unknown_levels(x, LAYOUT, None, KEY), x)


def test_the_key_decides():
    x = table([*range(40), *[41] * 400])
    first, again = (with_unknown_levels(x, LAYOUT, None, KEY) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = with_unknown_levels(x, LAYOUT, None, jax.random.key(1))
    assert (other != first).any()
