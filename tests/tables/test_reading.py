"""Files as columns of cells."""

import datetime
import decimal
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from scalemix.tables import InputError, read_table
from scalemix.tables.cells import number, text, word
from scalemix.tables.dates import days


def write(folder: Path, content: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_cells_are_trimmed_and_missing_ones_are_none(tmp_path):
    table = read_table(write(tmp_path, "a, b ,c\n1, x ,NA\n,?,3\n"))
    assert table.columns == {"a": ["1", None], "b": ["x", None], "c": [None, "3"]}
    assert table.places == ["line 2", "line 3"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path, separator):
    table = read_table(write(tmp_path, f"a{separator}b\n1{separator}2\n"))
    assert table.columns == {"a": ["1"], "b": ["2"]}


def test_places_count_blank_lines_and_lines_inside_quotes(tmp_path):
    table = read_table(write(tmp_path, '\ufeffa,b\n1,"two\nlines"\n\n3,4\n'))
    assert table.columns["b"] == ["two\nlines", "4"]
    assert table.places == ["line 2", "line 5"]


def test_a_column_without_a_name_is_left_out_and_said(tmp_path):
    table = read_table(write(tmp_path, ",a\n0,1\n1,2\n"))
    assert list(table.columns) == ["a"]
    assert table.remarks == ("column 1 has no name, and is left out",)


def test_cells_of_parquet_keep_their_types(tmp_path):
    moment = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.UTC)
    columns = {
        "number": [1.5, None, float("nan")],
        "count": [2**53 + 1, 0, -1],
        "word": [" x ", None, "N/A"],
        "flag": [True, False, None],
        "day": [datetime.date(2024, 1, 31), None, datetime.date(1969, 7, 20)],
        "moment": [moment, None, moment],
        "price": [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")],
    }
    path = tmp_path / "data.parquet"
    index = {"__index_level_0__": [7, 8, 9]}
    parquet.write_table(pyarrow.table(columns | index), path)
    table = read_table(path)
    assert table.columns == columns | {
        "number": [1.5, None, None],
        "word": ["x", None, None],
        "price": [1.5, None, 2.25],
    }
    assert [type(column[0]) for column in table.columns.values()] == [
        float, int, str, bool, datetime.date, datetime.datetime, float,
    ]  # fmt: skip
    assert table.places == ["row 1", "row 2", "row 3"]


@pytest.mark.parametrize(
    "cells",
    [
        [1.5, 2.0, None],
        [3, 4, None],
        [True, False, None],
        [datetime.date(2024, 1, 31), datetime.date(1969, 7, 20), None],
        [datetime.datetime(2024, 1, 31, 12, 30), datetime.datetime(2000, 1, 1), None],
        ["x", "2024-01-31", None],
    ],
)
def test_a_typed_cell_says_what_its_text_says(cells):
    for cell in cells[:-1]:
        same = text(cell)
        assert number(cell) == number(same)
        assert days(cell) == days(same)
        assert word(cell) == word(same)
    assert text(None) == ""
    assert number(1) == 1.0
    assert number(True) is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "two columns with the name 'a'"),
        ("a,b\n1,2\n1,2,3\n", "line 3: it has 3 values, and the header 2 columns"),
        ("a\n1\nb,c,d\n", "line 3: it has 3 values"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "not a CSV file"),
        (b"a,b\n1,2\n\x00,\x00\n", "line 3: it is not a CSV file"),
        (b"a,b\n1,2\n1,\xff\x01\n", "line 3: it is not a CSV file"),
        (b"PK\x03\x04rest", "spreadsheet"),
        (b"PAR1 and nothing else", "not a Parquet file"),
        ('a,b\n1,"2\n', "not a CSV file"),
        (",\n1,2\n", "none of its columns has a name"),
    ],
)
def test_what_is_no_table_is_refused_with_its_place(tmp_path, content, says):
    path = write(tmp_path, content)
    with pytest.raises(InputError) as error:
        read_table(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path)


def test_a_table_without_a_header_is_told_from_one_with(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("1.5,2\n2.5,3\n3.5,5\n")
    table = read_table(path)
    assert "columns '1.5', '2'. All of these names are numbers" in table.remarks[0]
    with pytest.raises(InputError, match="the table seems to have no header"):
        table.column("price")
    path.write_text("a,2\n2.5,3\n")
    assert read_table(path).remarks == ()
