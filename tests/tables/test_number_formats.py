"""Numbers come back from whatever they were written as."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemix.tables import Table
from scalemix.tables.arrow_cells import cells_of
from scalemix.tables.frames import table_of
from scalemix.tables.learning import learn_columns
from scalemix.tables.number_formats import Known, look_like_numbers, settle
from scalemix.tables.written_numbers import code_among

STYLES = [
    (".", ""), (".", ","), (".", "'"), (".", " "), (",", ""), (",", "."), (",", "\u202f"),
    (",", "'"),
]  # fmt: skip
NUMBERS = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9)


def written(value: float, digits: int, decimal: str, between: str) -> str:
    whole, _, rest = f"{value:,.{digits}f}".partition(".")
    return whole.replace(",", between) + (decimal + rest if rest else "")


def settled_of(cells, **how):
    places = [f"line {row + 2}" for row in range(len(cells))]
    return settle(Path("d.csv"), {"a": cells}, places=places, **how)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(NUMBERS, st.sampled_from(STYLES), st.sampled_from([1, 2, 4]), st.sampled_from(";\t"))
def test_numbers_with_decimals_are_read_back(values, style, digits, separator):
    """One, two or four decimals cannot be thousands."""
    cells = [written(value, digits, *style) for value in values]
    settled = settled_of([*cells, None], separator=separator)
    *read, gap = settled.columns.get("a", [*cells, None])
    assert gap is None
    assert [float(cell) for cell in read] == [float(f"{value:.{digits}f}") for value in values]
    assert settled.decimal == style[0]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(NUMBERS, st.sampled_from(STYLES), st.integers(0, 3))
def test_whatever_is_written_is_read_back_by_who_knows_how(values, style, digits):
    cells = [written(value, digits, *style) for value in values]
    for how in ({"said": style[0]}, {"known": Known(decimal=style[0])}):
        read = settled_of(cells, separator=";", **how).columns.get("a", cells)
        assert [float(cell) for cell in read] == [float(f"{value:.{digits}f}") for value in values]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.text("ab1.,;- '", max_size=6), min_size=1, max_size=9))
def test_what_is_no_number_stays_as_it_is(cells):
    """Whatever the cells are, words among them are not touched."""
    read = settled_of(cells, said=",").columns.get("a", cells)
    for before, after in zip(cells, read, strict=True):
        if before != after:
            float(after)
        if any(sign in before for sign in "ab;"):
            assert after == before


@pytest.mark.parametrize(
    ("cells", "example"),
    [
        (["12", "1.234,5", None, "7"], "1.234,5"),
        (["5%", "12 %", "3%"], "5%"),
        (["1,200", "3", "4"], "1,200"),
        # As Python writes numbers, so that they are read as such; words; too few; no text at all.
        (["12", "1.5", "-3e4"], None),
        (["a", "b", "100%"], None),
        (["1,5", "b", "c", "d"], None),
        ([True, False, None], None),
        ([], None),
    ],
)
def test_text_that_looks_like_numbers_is_found(cells, example):
    assert look_like_numbers(cells) == example


def test_text_of_numbers_that_nothing_is_learned_from_is_said_to_be_numbers():
    frame = pd.DataFrame(
        {"dist": [f"{i},{i}5" for i in range(60)], "a": [i % 7 for i in range(60)], "y": range(60)}
    )
    assert "it looks like numbers" in learn_columns(table_of(frame), "y").left_out["dist"]


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        (["00501", "10001", None], "00501"),
        (["0501", "10001"], None),
        (["0", "1"], None),
        (["10501", "20001"], None),
        (["05.01", "10.01"], None),
        (["0501", "x001"], None),
        ([501, 10001], None),
        ([], None),
    ],
)
def test_digits_with_a_zero_in_front_may_be_codes(cells, code):
    """As many digits in every cell: amounts are not written like that."""
    assert code_among(cells) == code
    assert code_among(cells_of(pa.chunked_array([pa.array(cells)]))) == code


def test_codes_are_spoken_of_where_they_are_used_as_numbers():
    numbers = [f"{row:03d}" for row in range(40)]
    cells = {
        "post code": ["00501", "10001"] * 20, "id": numbers, "same": ["007"] * 40,
        "words": ["001", "002"] * 20, "y": ["01", "12"] * 20,
    }  # fmt: skip
    table = Table(Path("d.csv"), cells, [f"line {row + 2}" for row in range(40)], "")
    columns = learn_columns(table, "y", task="regression", categorical=["words"])
    said = "text with zeros in front is read as numbers: 'post code' (00501 is 501)"
    assert columns.taken_for_numbers(table) == said
    without = learn_columns(table, "y", categorical=["post code", "words"])
    assert without.taken_for_numbers(table) is None
