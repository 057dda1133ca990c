"""Rows outside the training data, by column and together."""

import json
import re

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis

from scalemix.data.ranges import (
    FAR_TOGETHER,
    SHRINKAGE,
    Ranges,
    UnknownWords,
    find_ranges,
    strays_in_words,
)

RNG = np.random.default_rng(0)
# Two columns that go together, and one far from zero.
A = RNG.normal(size=300)
X = np.stack([A, A + 0.1 * RNG.normal(size=300), 1e6 + RNG.normal(size=300)], axis=1)
RANGES = find_ranges(X, ["a", "b", "c"])


def test_training_rows_lie_inside():
    outside = RANGES.outside(X)
    assert (outside.by_row == 0).all()
    assert outside.together.max() == pytest.approx(1)
    assert outside.in_words() is None


def test_a_column_is_outside_by_so_many_of_its_ranges():
    far = X[:2].copy()
    far[0, 2] = X[:, 2].max() + 2 * np.ptp(X[:, 2])
    far[1, 0] = X[:, 0].min() - 0.6 * np.ptp(X[:, 0])
    outside = RANGES.outside(far)
    np.testing.assert_allclose(outside.beyond[[0, 1], [2, 0]], [2.0, -0.6])
    said = outside.in_words()
    assert said.startswith("2 of 2 rows lie far outside the training data (outside > 0.5), where")
    assert "'c' by up to 2 times its range (1 row), 'a' by up to 0.6 times" in said
    assert (outside.by_row >= [2.0, 0.6]).all()
    # A hair beyond is not worth a word, and is in the numbers.
    near = X[:1].copy()
    near[0, 2] = X[:, 2].max() + 0.01
    near = RANGES.outside(near)
    assert near.in_words() is None
    assert 0 < near.by_row[0] < 0.1


def test_the_remark_counts_the_rows_whose_number_is_above_the_one_it_names():
    rows = np.repeat(X[:1], 60, axis=0)
    # Further and further out: in one column, in two that go together, and in an unknown word.
    rows[:20, 2] = X[:, 2].max() + np.linspace(0.01, 1.5, 20) * np.ptp(X[:, 2])
    rows[20:40, 0] += np.linspace(0, 8, 20)
    unknown = [UnknownWords("town", ("Oslo",), np.arange(60) >= 55)]
    outside = RANGES.outside(rows, unknown)
    num, named = re.match(
        r"(\d+) of 60 rows lie far outside .*\(outside > ([\d.]+)\)", outside.in_words()
    ).groups()
    assert int(num) == (outside.by_row > float(named)).sum() == outside.is_far.sum()
    # Some lie outside and not far.
    assert 25 < int(num) < (outside.by_row > 0).sum() - 5


def test_columns_that_go_together_are_outside_together():
    # Each number by itself was seen; together they never were.
    odd = np.array([[2.0, -2.0, 1e6]])
    outside = RANGES.outside(odd)
    assert (outside.beyond == 0).all()
    covariance = np.cov(X.T, bias=True)
    drawn = (1 - SHRINKAGE) * covariance
    np.fill_diagonal(drawn, np.diag(covariance))
    inverse = np.linalg.inv(drawn)
    expected = mahalanobis(odd[0], X.mean(axis=0), inverse) / max(
        mahalanobis(row, X.mean(axis=0), inverse) for row in X
    )
    assert outside.together[0] == pytest.approx(expected, rel=1e-6)
    assert expected > FAR_TOGETHER
    assert "columns together, up to" in outside.in_words()


def test_gaps_lie_inside_and_constants_have_a_range():
    x = np.stack([X[:, 0], np.ones(300)], axis=1)
    x[::7, 0] = np.nan
    ranges = find_ranges(x, ["a", "one"])
    np.testing.assert_array_equal(ranges.outside(x).by_row, 0)
    np.testing.assert_allclose(ranges.outside(np.array([[np.nan, 3.0]])).beyond, [[0.0, 2.0]])


def test_many_columns_count_each_by_itself():
    wide = RNG.normal(size=(40, 60))
    ranges = find_ranges(wide, [str(i) for i in range(60)])
    assert ranges.precision.shape == (60,)
    assert (ranges.outside(wide).by_row == 0).all()


def test_words_that_training_had_not_lie_outside():
    at = np.array([True, False, False, True])
    unknown = [UnknownWords("town", ("Oslo", "Rom"), at)]
    outside = RANGES.outside(X[:4], unknown)
    np.testing.assert_array_equal(outside.by_row, [1, 0, 0, 1])
    said = outside.in_words()
    assert said.startswith("2 of 4 rows lie far outside the training data")
    assert said.endswith(": 'town' has the unknown 'Oslo', 'Rom' (2 rows).")
    # Numbers may be farther out.
    assert (RANGES.outside(1e3 * X[:4], unknown).by_row > 1).all()
    many = RANGES.outside(X[:4], [of._replace(name=str(i)) for i in range(5) for of in unknown])
    assert "2 more columns have unknown words" in many.in_words()


def test_a_row_without_any_value_lies_outside():
    outside = RANGES.outside(X[:3], empty=np.array([False, True, False]))
    np.testing.assert_array_equal(outside.by_row, [0, 1, 0])
    said = outside.in_words()
    assert said.startswith("1 of 3 rows lies far outside")
    assert said.endswith(": no column has a value (1 row).")


def test_a_table_may_have_no_number_at_all():
    ranges = find_ranges(np.zeros((5, 0)), [])
    again = Ranges.from_json(json.loads(json.dumps(ranges.to_json())))
    unknown = [UnknownWords("town", ("Oslo",), np.array([False, True]))]
    for each in (ranges, again):
        np.testing.assert_array_equal(each.outside(np.zeros((2, 0))).by_row, 0)
        np.testing.assert_array_equal(each.outside(np.zeros((2, 0)), unknown).by_row, [0, 1])


def test_ranges_come_back_from_a_file():
    again = Ranges.from_json(json.loads(json.dumps(RANGES.to_json())))
    np.testing.assert_array_equal(again.outside(2 * X).by_row, RANGES.outside(2 * X).by_row)
    for damage in ({"farthest": 0}, {"low": [1.0]}, {"names": [1, 2, 3]}, {"high": [np.nan] * 3}):
        with pytest.raises(ValueError, match="ranges are none"):
            Ranges.from_json(RANGES.to_json() | damage)


def test_a_cell_that_is_far_from_all_others_is_spoken_of():
    names = ["a", "b", "c"]
    assert strays_in_words(X, names) is None
    wrong = X.copy()
    wrong[7, 0], wrong[9, 2], wrong[11] = 8e7, np.nan, np.nan
    said = strays_in_words(wrong, names)
    low, high = np.nanpercentile(wrong[:, 0], [25, 75])
    assert said is not None
    assert said.startswith(f"'a' has 8e+07, and half of it lies between {low:g} and {high:g}. If")
    # Nobody can tell from a few rows, or where nearly all cells are the same.
    assert strays_in_words(wrong[:19], names) is None
    mostly_zero = np.where(np.arange(300) % 9 == 0, np.exp(20 * RNG.random(300)), 0.0)
    assert strays_in_words(mostly_zero[:, None], ["gain"]) is None
    heavy = np.exp(2.5 * RNG.normal(size=(300, 1)))
    assert strays_in_words(heavy, ["income"]) is None
    assert strays_in_words(np.full((30, 1), np.nan), ["empty"]) is None
