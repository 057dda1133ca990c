"""The same text is the same numbers in memory and in parts, or is refused."""

import io

import numpy as np
import pytest

from scalemix.tables import InputError, TextFormat, learn_columns, read_table
from scalemix.tables.arrow_tables import ArrowTables
from scalemix.tables.number_formats import Known
from scalemix.tables.reading import read_chunks
from scalemix.tables.settling import refuse_formatted
from tests.cli.conftest import run

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


def write(path, **columns):
    parquet.write_table(pa.table(columns), path, row_group_size=2)
    return path


def columns_of(tmp_path, **columns):
    table = read_table(write(tmp_path / "train.parquet", **columns))
    return learn_columns(table, "y"), table.text


def both_ways(path, columns, text, **said):
    """What a model reads of a file in memory and in parts, with the remarks."""
    expected = TextFormat(None, None, text.decimal, text.decimals, units=columns.units)
    known = Known(text.decimals, text.decimal, columns.numbers, units=columns.units)
    whole = read_table(path, TextFormat(**said), expected, numbers=columns.numbers)
    files = ArrowTables(path, said.get("missing", ()), said.get("decimal"), known)
    (chunk,) = files.chunks(10)
    np.testing.assert_array_equal(columns.read(chunk), columns.read(whole))
    assert chunk.remarks == whole.remarks
    assert list(chunk.given("a")) == list(whole.given("a"))
    return columns.read(chunk)[:, 0].tolist(), chunk.remarks


TRAIN = {"a": ["1.234", "5.678,5", "9.012"], "y": [1.5, 2.5, 3.5]}
RATES = {"a": ["12%", "7%", "80%"], "y": [1.5, 2.5, 3.5]}


def test_parts_are_read_in_the_decimals_of_the_model(tmp_path):
    columns, text = columns_of(tmp_path, **TRAIN)
    new = write(tmp_path / "new.parquet", a=["1.234", "5.678", "9.012"])
    assert both_ways(new, columns, text)[0] == [1234, 5678, 9012]
    assert both_ways(new, columns, text, decimal=".")[0] == [1.234, 5.678, 9.012]


def test_parts_that_contradict_each_other_are_refused(tmp_path):
    columns, text = columns_of(tmp_path, **TRAIN)
    known = Known(text.decimals, text.decimal, columns.numbers, units={})
    new = write(tmp_path / "new.parquet", a=["1.234", "5.678", "9.5", "1"])
    with pytest.raises(InputError, match=r"row 3, column 'a': '9.5' has a decimal point"):
        list(ArrowTables(new, known=known).tables())


def test_parts_are_read_in_the_units_of_the_model(tmp_path):
    columns, text = columns_of(tmp_path, **RATES)
    new = write(tmp_path / "new.parquet", a=["12%", None, "3 %"])
    values, remarks = both_ways(new, columns, text)
    np.testing.assert_array_equal(values, [12, np.nan, 3])
    assert remarks == ()
    new = write(tmp_path / "new.parquet", a=[0.12, 2.5, None])
    _, remarks = both_ways(new, columns, text)
    assert remarks == ("'a': numbers without a unit, taken to be in %",)
    new = write(tmp_path / "new.parquet", a=[0.12, 0.5, None])
    _, (remark,) = both_ways(new, columns, text)
    assert "though all are at most 1" in remark


@pytest.mark.parametrize("cells", [["12%", "0", "0.5", "1"], ["0", None, "1", "2", "12%", "3%"]])
def test_parts_with_and_without_a_percent_sign_are_refused(tmp_path, cells):
    columns, text = columns_of(tmp_path, **RATES)
    known = Known(text.decimals, text.decimal, columns.numbers, units=columns.units)
    new = write(tmp_path / "new.parquet", a=cells)
    with pytest.raises(
        InputError, match=r"column 'a': from row \d on its numbers are written with"
    ):
        list(ArrowTables(new, known=known).tables())
    content = "a\n" + "".join(f"{cell or 'NA'}\n" for cell in cells)
    expected = TextFormat(units=columns.units)
    with pytest.raises(InputError, match=r"column 'a': from line \d on its numbers are written"):
        list(read_chunks(io.BytesIO(content.encode()), TextFormat(), expected, num_rows=2,
                         numbers=columns.numbers))  # fmt: skip


@pytest.mark.parametrize(
    "cells", [["12%", "7%"], ["1.234", "5.678,5"], ["1,5", "2,5"], ["1,234.5", "2"]]
)
def test_text_that_would_be_other_numbers_in_memory_is_not_learned_in_parts(tmp_path, cells):
    files = ArrowTables(write(tmp_path / "t.parquet", a=cells, y=[1.0, 2.0]))
    (table,) = files.tables()
    with pytest.raises(InputError, match=r"column 'a': the text .* convert it in the file"):
        refuse_formatted(table, (), None)
    refuse_formatted(table, ("a",), None)


def test_plain_text_numbers_and_words_are_learned_in_parts(tmp_path):
    columns = {"a": ["1.5", "2"], "b": ["1.234", "9.012"], "c": ["5 km", "Ulm, 3"]}
    (table,) = ArrowTables(write(tmp_path / "t.parquet", **columns)).tables()
    refuse_formatted(table, (), None)
    with pytest.raises(InputError, match=r"'1.234' means the number 1234"):
        refuse_formatted(table, ("a",), ",")


def test_fits_in_parts_refuse_a_target_that_would_be_numbers_in_memory(tmp_path):
    path = write(tmp_path / "t.parquet", a=[1.0, 2.5] * 10, y=["10%", "30%"] * 10)
    ran = run("fit", path, "-t", "y", "-o", tmp_path / "m.scalemix", "--stream")
    assert ran.code != 0
    assert "column 'y': the text '10%' means the number 10" in ran.err
