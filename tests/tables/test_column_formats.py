"""Every column has a decimal mark of its own, and text is left alone."""

import decimal
import io

import numpy as np
import pytest

from scalemix.tables import InputError, TextFormat, learn_columns, read_table
from scalemix.tables.reading import read_chunks
from scalemix.tables.table import UNSAID


def write(folder, text, name="data.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_column_is_read_as_the_same_column_was_whatever_its_neighbours_are(tmp_path):
    """Only one column has a decimal comma, and a table of one row does not tell that."""
    fitted = read_table(write(tmp_path, "a;b\n3,5;2.5\n1,234;1.5\n"))
    assert fitted.columns == {"a": ["3.5", "1.234"], "b": ["2.5", "1.5"]}
    assert fitted.text.decimals == {"a": ",", "b": "."}
    for rows in ("1,234;2.5\n", "1,234;2.5\n3,5;2.5\n", "1,234;7\n"):
        path = write(tmp_path, f"a;b\n{rows}", "new.csv")
        read = read_table(path, expected=fitted.text, numbers={"a", "b"})
        assert read.columns["a"][0] == "1.234"
    # Where the other column is written in another way, nothing tells of this one.
    path = write(tmp_path, "a;b\n1,234;2,5\n", "new.csv")
    with pytest.raises(InputError, match=r"column 'a': '1,234' may be 1234 or 1\.234\. Say --dec"):
        read_table(path, expected=fitted.text, numbers={"a", "b"})


def test_a_table_that_is_written_in_one_other_way_is_read_in_that(tmp_path):
    fitted = read_table(write(tmp_path, "a;b\n3,5;2,5\n1,234;1,5\n"))
    path = write(tmp_path, "a;b\n1.234;2.5\n", "new.csv")
    read = read_table(path, expected=fitted.text, numbers={"a", "b"})
    assert read.columns == {"a": ["1.234"], "b": ["2.5"]}


def test_commas_between_cells_are_stronger_than_what_a_model_expects(tmp_path):
    path = write(tmp_path, "a,b\n1.500,1.250\n")
    expected = TextFormat(decimal=",", decimals={"a": ",", "b": ","})
    for numbers in (None, {"a", "b"}):
        read = read_table(path, expected=expected, numbers=numbers)
        assert read.columns == {"a": ["1.500"], "b": ["1.250"]}


@pytest.mark.parametrize("text", ["192.168.100.101", '"3,5"'])
def test_columns_of_text_do_not_say_how_numbers_are_written(tmp_path, text):
    table = read_table(write(tmp_path, f"t,w\n{text},1.234\n{text},2.345\n"))
    assert table.columns["w"] == ["1.234", "2.345"]
    path = write(tmp_path, f"t;w\n{text};1.234\n")
    known = read_table(path, expected=TextFormat(decimal="."), numbers={"w"})
    assert known.columns == {"t": [text.strip('"')], "w": ["1.234"]}
    # In a table to learn from, the user says so.
    with pytest.raises(InputError, match=r"column 'w': '1\.234' may be"):
        read_table(path, words={"t"})


def test_what_is_not_used_stops_nothing(tmp_path):
    path = write(tmp_path, "a;note\n3.5;1,234\n2,5;1,234\n1;1,234\n")
    assert read_table(path, words={"a", "note"}).columns["note"] == ["1,234"] * 3
    assert read_table(path, numbers=()).columns["a"] == ["3.5", "2,5", "1"]


def test_categories_stay_as_they_are_written_whatever_the_other_rows_are(tmp_path):
    rows = "".join(f"{size};{i % 7}.5\n" for i, size in enumerate(["1,5", "2,5", "3,5"] * 8))
    table = read_table(write(tmp_path, f"size;y\n{rows}"), words={"size"})
    columns = learn_columns(table, "y", categorical=["size"])
    assert columns.inputs[0].categories == ("1,5", "2,5", "3,5")
    assert columns.numbers == {"y"}
    x = columns.encode(read_table(write(tmp_path, "size;b\n2,5;1\n"), numbers=columns.numbers)).x
    np.testing.assert_array_equal(x, [[0, 1, 0, 0]])
    # Also where the table was read before anyone said what they are.
    unsaid = read_table(write(tmp_path, f"size;y\n{rows}"))
    assert unsaid.columns["size"][0] == "1.5"
    assert learn_columns(unsaid, "y", categorical=["size"]) == columns
    classes = learn_columns(unsaid, "size", task="classification").target.classes
    assert classes == ("1,5", "2,5", "3,5")


def test_a_column_can_be_copied_as_it_was_written(tmp_path):
    table = read_table(write(tmp_path, 'id,a\n"1,234",2.5\n"1,235",3.5\n'))
    assert table.columns["id"] == ["1234", "1235"]
    assert table.written("id") == ["1,234", "1,235"]
    assert table.take([1]).written("id") == ["1,235"]
    assert table.written("a") == ["2.5", "3.5"]


def test_numbers_with_types_are_never_read_as_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    weights = [decimal.Decimal("1.234"), decimal.Decimal("2.500")]
    codes = [decimal.Decimal(2**63), decimal.Decimal(7)]
    path = tmp_path / "d.parquet"
    parquet.write_table(pyarrow.table({"w": weights, "code": codes, "t": ["3,5", "4,5"]}), path)
    table = read_table(path, expected=TextFormat(decimal=","))
    assert table.columns == {"w": [1.234, 2.5], "code": [2**63, 7], "t": ["3.5", "4.5"]}


def test_the_types_of_parquet_mean_what_those_of_a_frame_do(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from scalemix.tables import table_of

    frame = pandas.DataFrame({
        "code": pandas.Categorical([11, 22, 11]),
        "span": pandas.to_timedelta([1, 2, 3], unit="h"),
    })  # fmt: skip
    frame.to_parquet(tmp_path / "d.parquet")
    table, same = read_table(tmp_path / "d.parquet"), table_of(frame)
    assert (table.columns, table.categorical) == (same.columns, same.categorical)
    assert table.columns["span"] == [3600.0, 7200.0, 10800.0]
    assert table.categorical == ("code",)


@pytest.mark.parametrize("num_rows", [1, 2, 4])
def test_a_column_of_a_stream_has_one_mark(num_rows):
    """What the first rows told holds; what cannot be read so is an error, and no other number."""

    def read(text, **how):
        stream = io.BytesIO(text.encode())
        chunks = read_chunks(stream, UNSAID, how.pop("expected", UNSAID), num_rows=num_rows, **how)
        return [cell for table in chunks for cell in table.columns["a"]]

    assert read("a;b\n3,5;2.5\n3,5;2.5\n1,234;2.5\n") == ["3.5", "3.5", "1.234"]
    model = {"expected": TextFormat(decimals={"a": ","}), "numbers": {"a"}}
    assert read("a;b\n1,234;2.5\n1.234;2.5\n", **model) == ["1.234", "1234"]
    with pytest.raises(InputError, match=r"line 4, column 'a': '2\.5' has a decimal point, and"):
        read("a;b\n1,234;1\n3,5;1\n2.5;1\n", **model)


def test_the_sheet_that_is_read_is_the_same_table_named_or_not(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "data"
    for row in (["NA", "None", "-", "y"], [1, 2, 3, 4], [2, "NA", 3, 5]):
        book.active.append(row)
    path = tmp_path / "book.xlsx"
    book.save(path)
    table, named = read_table(path), read_table(f"{path}::data")
    assert table.digest == named.digest
    assert table.is_known_by(named.digest)
    # Names that mean no value in a cell are names all the same.
    assert table.columns == {"NA": [1, 2], "None": [2, None], "-": [3, 3], "y": [4, 5]}
    # Something else in the book does not matter.
    book.create_sheet("more")
    book.save(path)
    assert read_table(path).digest == table.digest
