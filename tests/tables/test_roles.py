"""What columns are: identifiers, classes, targets, times; and how many of them are named."""

import dataclasses
import datetime
from pathlib import Path

import numpy as np
import pytest

from scalemix._text import few_lines, shortened
from scalemix.sklearn.inputs import FrameEncoder, learn_encoder
from scalemix.tables import Columns, InputError, Table, learn_columns, learn_inputs
from scalemix.tables.targets import hint_of_observed

RNG = np.random.default_rng(0)
NUM = 60
Y = [f"{value:.3f}" for value in RNG.normal(size=NUM)]


def table(**columns) -> Table:
    num = len(next(iter(columns.values())))
    return Table(Path("data.csv"), columns, [f"line {i + 2}" for i in range(num)], "digest")


def shuffled(values):
    return [str(value) for value in RNG.permutation(values)]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("row", shuffled(np.arange(1, NUM + 1))),
        # A part of a larger table, in any order: no measurement repeats so little.
        ("n", shuffled(RNG.choice(80, NUM, replace=False))),
        ("customer_id", shuffled(RNG.choice(10**8, NUM, replace=False))),
        ("PassengerId", shuffled(RNG.choice(10**8, NUM, replace=False))),
        ("ID", shuffled(RNG.choice(10**8, NUM, replace=False))),
    ],
)
def test_numbers_of_rows_are_left_out_in_any_order_unless_asked_for(name, cells):
    given = table(**{name: cells, "a": Y, "y": Y})
    reason = learn_columns(given, "y").left_out[name]
    assert f"--use {name} takes it in" in reason
    assert learn_columns(given, "y", use=[name]).left_out == {}


@pytest.mark.parametrize("num", [25, NUM])
def test_names_of_rows_are_left_out_in_any_order_unless_asked_for(num):
    codes = [f"A-{i:04d}" for i in RNG.permutation(num)]
    given = table(code=codes, y=Y[:num], a=Y[:num])
    assert "code" in learn_columns(given, "y").left_out
    assert learn_columns(given, "y", categorical=["code"]).left_out == {}


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        # Measurements, each different: on a continuous scale, on a wide one, with an odd name.
        ("size", [f"{value:.6f}" for value in RNG.normal(size=NUM)]),
        ("population", [str(value) for value in RNG.choice(10**6, NUM, replace=False)]),
        ("paid", [str(value) for value in RNG.choice(10**6, NUM, replace=False)]),
        ("grid", [str(value) for value in RNG.choice(10**6, NUM, replace=False)]),
        ("temperature_id", [f"{value:.6f}" for value in RNG.normal(size=NUM)]),
        # An identifier of groups repeats.
        ("shop_id", [str(value) for value in RNG.choice(40, NUM)]),
    ],
)
def test_measurements_stay_though_they_are_all_different(name, cells):
    assert learn_columns(table(**{name: cells, "y": Y}), "y").left_out == {}


def test_labels_that_are_mostly_numbers_are_classes_and_said_to_be():
    cells = [*"123456" * 9, *"XXXXXX"]
    learned = learn_columns(table(a=Y, y=cells), "y").target
    assert (learned.task, learned.classes) == ("classification", (*"123456", "X"))
    assert "labels, for 'X' is no number" in learned.describe()
    # So they are if one says that they are, and so are numbers that do not count.
    assert learn_columns(table(a=Y, y=cells), "y", task="classification").target.classes == (
        *"123456", "X",
    )  # fmt: skip
    asked = learn_columns(table(a=Y, y=["1.5", "x"] * 30), "y", task="classification")
    assert asked.target.classes == ("1.5", "x")


def test_what_may_be_counts_is_said_where_it_is_taken_for_classes():
    learned = learn_columns(table(a=Y, y=[*"012345" * 10]), "y").target
    assert learned.task == "classification"
    assert "--task regression for numbers, or --target-kind count for counts" in learned.describe()


@pytest.mark.parametrize("cells", [["0.5", "1.5"], ["0.5", "1"] * 30, [1.5, 2.25, 1.5, 2.25]])
def test_numbers_with_decimals_are_no_classes_unless_asked_for(cells):
    given = table(a=Y[: len(cells)], y=cells)
    assert learn_columns(given, "y").target.task == "regression"
    asked = learn_columns(given, "y", task="classification")
    assert len(asked.target.classes) == 2


def test_a_word_among_measurements_is_a_mistake():
    for cells in ([*Y[:-1], "cheap"], [*(str(i) for i in range(NUM - 1)), "cheap"]):
        with pytest.raises(InputError, match="line 61, column 'y': 'cheap' is not a number"):
            learn_columns(table(a=Y, y=cells), "y")


def test_words_for_a_regression_are_said_to_be_a_classification():
    with pytest.raises(InputError, match="A target of words is a classification") as told:
        learn_columns(table(a=Y, y=["hot", "cold"] * 30), "y", task="regression")
    assert "leave out --task" in told.value.with_options()


def test_several_targets_are_columns_of_one_array_and_survive_json():
    given = table(a=Y, b=Y[::-1], c=Y)
    columns = learn_columns(given, ["b", "c"])
    assert columns.features == ["a"]
    assert columns.describe()[0] == "target: b, c, regression (2 targets)"
    y = columns.target.encode(given)
    np.testing.assert_array_equal(y, np.array([Y[::-1], Y], float).T)
    assert Columns.from_json(columns.to_json()) == columns
    words = table(a=Y, b=Y, c=["hot", "cold"] * 30)
    with pytest.raises(InputError, match="column 'c': only numbers can be several targets"):
        learn_columns(words, ["b", "c"])
    holes = table(a=Y, b=[None, *Y[1:]], c=[*Y[:-1], None])
    with pytest.raises(InputError, match="line 61, column 'c': the target is missing"):
        learn_columns(holes, ["c", "b"])


def test_times_have_a_minus_where_another_column_says_that_they_go_on():
    given = table(a=["1", "2", "4"], t=["3", "5.5", "2"], ended=["1", "False", "yes"])
    columns = learn_columns(given, "t", observed=["ended"], task="regression")
    assert columns.features == ["a"]
    np.testing.assert_array_equal(columns.target.encode(given), [3, -5.5, 2])
    assert Columns.from_json(columns.to_json()) == columns
    bad = table(t=["3", "-5", "2"], ended=["1", "maybe", "yes"])
    with pytest.raises(InputError, match="line 3, column 't': '-5' is not a number above zero"):
        columns.target.encode(bad)
    odd = table(t=["3", "5", "2"], ended=["1", "maybe", None])
    with pytest.raises(InputError, match="line 3, column 'ended': 'maybe' does not say whether"):
        columns.target.encode(odd)


def test_times_that_all_ended_are_asked_about():
    flags = ["yes", "no"] * 30
    given = table(a=Y, ended=flags, one=["1"] * 60, t=[str(1 + i) for i in range(60)])
    columns = learn_columns(given, "t", task="regression")
    target = dataclasses.replace(columns.target, kind="time")
    y, inputs = target.encode(given), columns.groups
    said = hint_of_observed(target, y, given, inputs)
    assert "--observed COLUMN" in said
    assert said.endswith("It may be 'ended'.")
    assert hint_of_observed(target, y, given, ["a", "one"]).endswith("for the others.")
    # A minus, a column or another kind leaves nothing to ask.
    assert hint_of_observed(target, -y, given, inputs) is None
    assert hint_of_observed(columns.target, y, given, inputs) is None
    told = dataclasses.replace(target, observed=("ended",))
    assert hint_of_observed(told, y, given, inputs) is None


def test_of_many_columns_a_few_are_named():
    cells = {f"c{i}": Y if i % 2 else [None, *Y[1:]] for i in range(300)}
    given = table(**cells, y=Y)
    columns = learn_columns(given, "y")
    (numbers,) = columns.describe()[1:]
    assert numbers.endswith("c11 and 288 more")
    remarks = columns.encode(given).remarks
    assert len(remarks) == 13
    assert remarks[-1] == "and 138 more of these"
    with pytest.raises(InputError) as error:
        columns.encode(table(c0=Y))
    assert len(str(error.value)) < 400
    assert "'c1'" in str(error.value)
    assert shortened(["a"] * 12) == ", ".join(["a"] * 12)
    assert few_lines(["a"] * 12) == ["a"] * 12


def test_too_many_classes_come_with_advice():
    with pytest.raises(
        InputError, match=r"are too many for classes\. They are numbers: task='regr"
    ):
        learn_columns(table(a=Y, y=Y), "y", task="classification")
    first = datetime.date(2024, 1, 1)
    dates = [str(first + datetime.timedelta(days=i)) for i in range(len(Y))]
    with pytest.raises(InputError, match="They are dates: a target is a number, such as the days"):
        learn_columns(table(a=Y, y=dates), "y")
    prices = [f"{value} EUR" for value in Y]
    with pytest.raises(InputError, match="If they are numbers, write them without units"):
        learn_columns(table(a=Y, y=prices), "y")


def test_long_whole_numbers_are_told_apart_by_their_last_digits():
    """In double precision, 2**60 and 2**60 + 1 are one number."""
    rows = range(40)
    numbered = table(a=Y[:40], order=[str(2**60 + i) for i in rows], y=Y[:40])
    assert "it numbers the rows" in learn_columns(numbered, "y").left_out["order"]
    labels = [str(12345678901234567 + 2 * (i % 3)) for i in rows]
    for cells in (labels, [int(label) for label in labels], [f"{label}.0" for label in labels]):
        asked = learn_columns(table(a=Y[:40], y=cells), "y", task="classification")
        assert asked.target.classes == tuple(sorted(set(labels)))
        assert set(asked.target.encode(table(y=cells)).tolist()) == {0, 1, 2}
    close = table(a=Y[:40], b=[str(2**60 + i % 2) for i in rows], y=Y[:40])
    assert "differ in too late a digit" in learn_columns(close, "y").left_out["b"]


def test_columns_that_are_left_out_take_no_bins_from_the_others():
    rng = np.random.default_rng(0)
    cells = {name: rng.normal(size=400).tolist() for name in "ay"}
    alone = learn_columns(table(**cells), "y", bins="auto").inputs[0]
    same = {f"same{i}": ["1"] * 400 for i in range(60)}
    assert learn_columns(table(**cells, **same), "y", bins="auto").inputs == (alone,)


def test_a_weight_is_as_good_as_repeated_rows():
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, 60)
    cells = {
        "a": [None if i % 9 == 0 else float(v) for i, v in enumerate(rng.normal(size=60))],
        "k": [f"k{i % 5}" for i in range(60)],
    }
    given = table(**cells)
    repeated = given.take(np.repeat(np.arange(60), weight))
    weighted = learn_inputs(given, bins=6, weight=weight.astype(float))
    assert weighted == learn_inputs(repeated, bins=6)
    assert weighted.inputs[0].fill != learn_inputs(given, bins=6).inputs[0].fill
    encoder = learn_encoder(given, 6, weight.astype(float))
    assert isinstance(encoder, FrameEncoder)
    assert encoder.columns == weighted
