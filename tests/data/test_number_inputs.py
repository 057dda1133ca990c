"""Numbers that repeat, each with an input of its own."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemix.data import number_inputs
from scalemix.data.input_layout import of_numbers
from scalemix.data.number_inputs import (
    LEAST_ROWS,
    MOST_OF_A_COLUMN,
    NumberInputs,
    find_repeated,
    learn_number_inputs,
)
from scalemix.sklearn.inputs import learn_encoder
from scalemix.tables import Columns, learn_columns
from scalemix.tables.frames import table_of
from tests.tables.test_columns import table


def repeated(*columns, most=1000):
    return find_repeated([np.array(c, float) for c in columns], most)


def test_numbers_of_enough_rows_have_inputs():
    rows = [7.0] * LEAST_ROWS + [3.5] * (LEAST_ROWS + 5) + [1.0] * (LEAST_ROWS - 1) + [0.25]
    assert repeated(rows) == [(3.5, 7.0)]
    # The number itself says everything of two.
    assert repeated([0.0] * 90 + [1.0] * 90) == [()]
    assert repeated(np.arange(500.0)) == [()]


def test_the_most_frequent_ones_of_all_columns_come_first():
    first, second = [1.0] * 50 + [2.0] * 90 + [3.0] * 60, [5.0] * 70 + [6.0] * 80 + [7.0] * 50
    assert repeated(first, second, most=3) == [(2.0,), (5.0, 6.0)]
    assert repeated(first, second, most=0) == [(), ()]
    # None crowds out the others.
    many = np.repeat(np.arange(MOST_OF_A_COLUMN + 20.0), 2 * LEAST_ROWS)
    few = np.repeat(np.arange(3.0), LEAST_ROWS)
    lengths = [len(numbers) for numbers in repeated(many, few)]
    assert lengths == [MOST_OF_A_COLUMN, 3]


def test_rows_count_whatever_their_weight_and_not_without_any():
    codes = np.repeat([1.0, 2.0, 5.0, 9.0], LEAST_ROWS)
    measured = np.arange(len(codes)) / 7
    for weight in (0.01, 1000.0):
        weights = np.full(len(codes), weight)
        # Rows of weight zero are as good as none.
        weights[codes == 5.0] = 0.0
        of_codes, of_measured = learn_number_inputs([codes, measured], "auto", 10**4, weights)
        assert of_codes.repeated == (1.0, 2.0, 9.0)
        assert of_measured.repeated == ()


def test_the_first_columns_have_those_that_are_equally_frequent():
    column = np.repeat([1.0, 2.0, 3.0], LEAST_ROWS)
    assert repeated(column, column, most=4) == [(1.0, 2.0, 3.0), (1.0,)]


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.sampled_from([0.1, 0.3, 2.0, 1e9, 1e9 + 1, -7.7]), min_size=1, max_size=40))
def test_at_most_one_input_is_one_and_single_precision_makes_no_difference(numbers):
    numbers, of = np.array(numbers), NumberInputs((), (-7.7, 0.1, 1e9, 1e9 + 1))
    inputs = of.expand(numbers)
    assert set(np.unique(inputs)) <= {0.0, 1.0}
    # Codes differ in their last digit alone, which single precision does not hold.
    np.testing.assert_array_equal(inputs, numbers[:, None] == np.array(of.repeated))
    small = numbers[np.abs(numbers) < 1e9]
    rounded = small.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(of.expand(rounded), of.expand(small))
    # The other way round, too.
    single = NumberInputs((), tuple(np.array([-7.7, 0.1], np.float32).astype(float).tolist()))
    np.testing.assert_array_equal(single.expand(small), of.expand(small)[:, :2])


def test_numbers_that_single_precision_merges_stay_apart():
    of = NumberInputs((), (0.0, 2e7, 2e7 + 0.37))
    numbers = np.array([0.0, -0.0, 1e-50, 2e7, 2e7 + 0.37, 2e7 + 0.99, 2e7 - 0.5, np.inf])
    places = np.argmax(of.expand(numbers), axis=1)[of.expand(numbers).any(axis=1)]
    assert of.expand(numbers).sum(axis=1).tolist() == [1, 1, 0, 1, 1, 0, 0, 0]
    assert places.tolist() == [0, 0, 1, 2]
    # Moments with fractions of a second are all different.
    assert repeated(1.6e9 + np.arange(2000) / 64) == [()]


def test_numbers_are_kept_and_named_as_they_were_written():
    codes = np.repeat([0.1, -0.0, 12345678901.0, 12345678902.0], LEAST_ROWS)
    (learned,) = repeated(codes)
    assert learned == (0.0, 0.1, 12345678901.0, 12345678902.0)
    names = NumberInputs((), learned).names("c")
    assert names == ["c = 0", "c = 0.1", "c = 12345678901", "c = 12345678902"]


def test_a_gap_is_no_number():
    numbers = np.array([4.0, 4.0, 9.0])
    of = NumberInputs((), (4.0, 9.0))
    present = np.array([True, False, True])
    np.testing.assert_array_equal(of.expand(numbers, present), [[1, 0], [0, 0], [0, 1]])


def test_only_auto_gives_them_and_follows_the_rows():
    codes = np.tile([1.0, 2.0, 5.0], 200)
    for bins, expected in ((None, ()), (4, ()), ("auto", (1.0, 2.0, 5.0))):
        (learned,) = learn_number_inputs([codes], bins, len(codes))
        assert learned.repeated == expected
    # One input per 64 rows, of all columns together.
    both = learn_number_inputs([codes, codes[::-1]], "auto", 256)
    assert sum(len(one.repeated) for one in both) == 256 // number_inputs.ROWS_AN_INPUT


def test_the_numbers_of_a_column_that_repeat_are_one_part():
    layout = of_numbers(2, 3, optional=True, gaps=True)
    assert layout.parts.tolist() == [0, 1, 2, 3, 3, 3, 4]
    assert layout.optional.tolist() == [False, *[True] * 5, False]
    assert layout.scaled.tolist() == [True, *[False] * 6]
    assert of_numbers(2).parts.tolist() == [0, 1, 2]


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(0)
    return rng.choice([0.5, 3.0, 11.0, 40.0], 400), rng.normal(size=400)


def test_columns_of_a_table(codes):
    code, measured = codes
    cells = [f"{number:g}" for number in code[:-1]]
    data = table(
        a=[*cells, None], b=[f"{m:.6f}" for m in measured], y=[str(i % 7) for i in range(400)]
    )
    columns = learn_columns(data, "y", task="regression", bins="auto")
    a, b = columns.inputs
    assert a.repeated == (0.5, 3.0, 11.0, 40.0)
    assert b.repeated == ()
    names = [name for name in columns.features if " = " in name]
    assert names == ["a = 0.5", "a = 3", "a = 11", "a = 40"]
    assert "a (3 bins, 4 repeated numbers, if they help)" in columns.describe()[1]
    x = columns.encode(data).x[:, [columns.features.index(name) for name in names]]
    np.testing.assert_array_equal(x[:-1], code[:-1, None] == np.array(a.repeated))
    assert not x[-1].any()
    # Where training had no gap, one counts as the median, and is not told from it.
    whole = learn_columns(
        table(a=[f"{number:g}" for number in code], y=[str(i % 7) for i in range(400)]),
        "y", task="regression", bins="auto",
    )  # fmt: skip
    gap, median = whole.encode(table(a=[None, "11"], y=["1", "2"])).x
    assert whole.inputs[0].fill == 11.0
    np.testing.assert_array_equal(gap, median)
    assert gap[whole.features.index("a = 11")] == 1
    said = json.loads(json.dumps(columns.to_json()))
    assert Columns.from_json(said) == columns
    said["inputs"][0]["repeated"] = ["3"]
    with pytest.raises(ValueError, match="damaged"):
        Columns.from_json(said)
    said["inputs"][0]["repeated"] = [3, 3]
    with pytest.raises(ValueError, match="damaged"):
        Columns.from_json(said)
    # Files from before have none, and read like columns without.
    assert "repeated" not in columns.without_bins().to_json()["inputs"][0]


def test_arrays_and_frames_have_the_same_inputs(codes):
    rows = np.stack(codes, axis=1)
    by_array = learn_encoder(rows, "auto", None)
    # Text makes a table of it.
    frame = pd.DataFrame({"code": codes[0], "measured": codes[1], "k": ["u", "v"] * 200})
    by_frame = learn_encoder(table_of(frame), "auto", None)
    of_array, of_frame = by_array.encode(rows), by_frame.encode(table_of(frame))
    for column in (0, 1):
        np.testing.assert_array_equal(
            of_array[:, by_array.places[column]], of_frame[:, by_frame.places[column]]
        )
    layout = by_array.layout
    assert [len(part) for part in layout] == [of_array.shape[1]] * 5
    np.testing.assert_array_equal(layout.scaled, np.arange(of_array.shape[1]) < 2)
    np.testing.assert_array_equal(layout.optional, ~layout.scaled)
    # Each part of a column lies in that column alone, and all numbers that repeat are one.
    assert sorted(set(layout.parts)) == list(range(layout.parts.max() + 1))
    one = [set(layout.columns[layout.parts == part]) for part in set(layout.parts)]
    assert all(len(owners) == 1 for owners in one)
    sizes = np.bincount(layout.parts)
    assert sorted(sizes[sizes > 1]) == [4]
