"""Numbers in bins."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemix.data.bins import NumBins, check_bins, count_bins, find_edges, ramps
from scalemix.tables import Columns, learn_columns
from tests.tables.test_columns import table


def up_to(num):
    return NumBins(num, num)


COLUMNS = st.lists(st.integers(-20, 20), min_size=1, max_size=40).map(lambda v: np.array(v, float))


@settings(derandomize=True, max_examples=100)
@given(COLUMNS, st.integers(2, 9), COLUMNS)
def test_ramps_weighted_by_their_widths_are_the_number_within_its_range(train, num, values):
    edges = find_edges(train, up_to(num))
    encoded = ramps(values, edges)
    assert encoded.shape == (len(values), max(len(edges) - 1, 0))
    if edges:
        np.testing.assert_allclose(
            encoded @ np.diff(edges), np.clip(values, edges[0], edges[-1]) - edges[0], atol=1e-9
        )


def test_any_broken_line_is_a_sum_of_ramps():
    edges = (0.0, 1.0, 3.0, 4.0)
    heights = np.array([2.0, -1.0, 5.0, 5.0])
    x = np.linspace(-1, 5, 50)
    np.testing.assert_allclose(
        heights[0] + ramps(x, edges) @ np.diff(heights), np.interp(x, edges, heights), atol=1e-12
    )


def test_bins_hold_about_as_many_rows_each():
    values = np.random.default_rng(0).lognormal(size=800)
    counts, _ = np.histogram(values, find_edges(values, up_to(8)))
    assert counts.sum() == 800
    assert np.abs(counts - 100).max() <= 1


@settings(derandomize=True, max_examples=100)
@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 3)), min_size=1), st.integers(2, 9))
def test_a_weight_counts_a_row_as_often(rows, num):
    values, counts = np.array(rows).T
    repeated = find_edges(np.repeat(values, counts), up_to(num))
    assert find_edges(values, up_to(num), counts.astype(float)) == repeated


def test_a_column_of_two_values_has_no_bins():
    assert find_edges(np.array([0.0, 1.0, 1.0, 0.0]), up_to(8)) == ()
    assert find_edges(np.full(5, 3.0), up_to(8)) == ()


def test_values_that_repeat_leave_bins_for_the_others():
    values = np.array([0.0] * 90 + [1, 2, 5, 9, 30, 31, 32, 40, 41, 99])
    edges = find_edges(values, up_to(6))
    # All quantiles but the last are zero: the other ends lie evenly among the other values.
    assert edges == (0, 2, 5, 30, 31, 40, 99)
    # Where none repeats, all bins hold as many rows.
    assert find_edges(np.arange(51.0), up_to(5)) == (0, 10, 20, 30, 40, 50)


def test_values_that_bins_cannot_tell_apart_have_fewer():
    few, many = np.arange(100.0), np.arange(1000.0)
    num_bins = count_bins("auto", 10**5, 4)
    # A bin between any two of the values that follow one another.
    assert find_edges(np.repeat(few, 2), num_bins) == tuple(few)
    assert len(find_edges(many, num_bins)) == 33
    assert len(find_edges(many, up_to(100))) == 101


def test_the_number_of_bins_follows_rows_and_columns():
    def most(rows, columns):
        return count_bins("auto", rows, columns).most

    assert [most(rows, 6) for rows in (50, 640, 10**6)] == [8, 20, 128]
    # Many columns have fewer each: some 256 together, and more where there are many rows.
    assert [most(rows, 32) for rows in (640, 8_192, 10**6)] == [8, 16, 32]
    assert most(10**6, 5000) == 2
    assert count_bins(5, 10, 3) == NumBins(5, 5)
    assert count_bins(None, 10, 3) is None
    optional = learn_columns(table(a=["0", "1", "2"], y=["1", "2", "5"]), "y", bins="auto")
    assert optional.layout.optional.tolist() == [False, True, True]
    said = json.loads(json.dumps(optional.to_json()))
    assert Columns.from_json(said) == optional


@pytest.mark.parametrize("bins", [0, 1, 2.0, "8", True])
def test_impossible_numbers_of_bins_are_refused(bins):
    with pytest.raises(ValueError, match="bins must be a whole number of at least 2"):
        check_bins(bins)


def test_columns_of_a_table_in_bins():
    data = table(a=["0", "1", "2", None, "4"], k=list("xyxyx"), y=["1", "2", "5", "6", "7"])
    columns = learn_columns(data, "y", bins=2)
    bins = ["a, 0 to 1", "a, 1 to 4"]
    assert columns.features == ["a", *bins, "a is missing", "k = x", "k = y", "k = another"]
    assert columns.groups == {"a": [0, 1, 2, 3], "k": [4, 5, 6]}
    assert "numbers: a (2 bins)" in columns.describe()
    # The missing one sits at the median, 1.5.
    third = [0, 0, 1 / 3, 0.5 / 3, 1]
    np.testing.assert_allclose(columns.encode(data).x[:, 1:3].T, [[0, 1, 1, 1, 1], third])
    said = json.loads(json.dumps(columns.to_json()))
    assert Columns.from_json(said) == columns
    said["inputs"][0]["edges"] = [0, 4, 1]
    with pytest.raises(ValueError, match="damaged"):
        Columns.from_json(said)
    del said["inputs"][0]["edges"]
    assert Columns.from_json(said) == learn_columns(data, "y")
