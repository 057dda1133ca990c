"""Marks of gaps that a user names."""

import datetime
import decimal
import io

import pytest

from scalemix.tables import TextFormat, read_table
from scalemix.tables.arrow_tables import find_large
from scalemix.tables.reading import read_chunks
from tests.cli.conftest import SMALL, run, write_table

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

SAID = TextFormat(missing=("-999", "Unknown"))
CONTENT = "a,b,c\n-999,unknown,1\n1.5,-999,UNKNOWN\n-999.0,x,?\n"
# What is left of them.
A, B, C = [None, 1.5, None], [None, None, "x"], [1.0, None, None]


def plain(table):
    cells = {name: list(table.columns[name]) for name in "abc"}
    as_number = {
        name: [None if cell is None else float(cell) for cell in cells[name]] for name in "ac"
    }
    return [as_number["a"], cells["b"], as_number["c"]]


def test_marks_are_gaps_in_text_as_a_file_and_as_a_stream(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(CONTENT)
    assert plain(read_table(path, SAID)) == [A, B, C]
    assert read_table(path).columns["b"] == ["unknown", "-999", "x"]
    # A model's marks hold for later tables, and are known to be its own.
    later = read_table(path, expected=SAID)
    assert plain(later) == [A, B, C]
    assert later.text.missing == SAID.missing
    stream = io.BufferedReader(io.BytesIO(CONTENT.encode()))
    (chunk,) = read_chunks(stream, TextFormat(), SAID, num_rows=9)
    assert plain(chunk) == [A, B, C]


def test_marks_are_gaps_in_typed_files_whole_and_in_parts(tmp_path):
    path = tmp_path / "d.parquet"
    words = pa.array(["unknown", "-999", "x"]).dictionary_encode()
    columns = {"a": [-999.0, 1.5, -999.0], "b": words}
    columns["c"] = pa.array([1, None, -999], pa.int16())
    parquet.write_table(pa.table(columns), path)
    assert plain(read_table(path, SAID)) == [A, B, C]
    (part,) = find_large(path, always=True, missing=SAID.missing).tables()
    assert plain(part) == [A, B, C]
    assert part.column("a").count(None) == 2


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("a;y\n12,5;1\n-999,0;2\n3,5;3\n", ["12.5", None, "3.5"]),
        ("a;y\n12%;1\n-999%;2\n3%;3\n", ["12", None, "3"]),
        ("a;y\n1.000;1\n-999;2\n1.234,5;3\n", ["1000", None, "1234.5"]),
        ("a;y\n1,50;1\n-999.0;2\n3,5;3\n", ["1.50", None, "3.5"]),
    ],
)
def test_a_mark_is_one_however_its_column_is_written(tmp_path, content, left):
    path = tmp_path / "d.csv"
    path.write_text(content)
    table = read_table(path, TextFormat(missing=("-999", "1")))
    assert table.columns["a"] == left
    # What is kept of it is what the file has.
    raw = [line.split(";")[0] for line in content.splitlines()[1:]]
    assert table.given("a") == raw
    assert table.take([1]).given("a") == raw[1:2]
    assert table.written("a") == [
        None if now is None else was for was, now in zip(raw, left, strict=True)
    ]


DAYS = [datetime.date(1900, 1, 1), datetime.date(2000, 1, 1)]


@pytest.mark.parametrize(
    ("values", "mark"),
    [
        (pa.array([decimal.Decimal("-999.00"), decimal.Decimal("3.50")]), "-999"),
        (pa.array(["-999.0", "3"]), "-999"),
        (pa.array(["-999", "x"]).dictionary_encode(), "-999.0"),
        (pa.array([-999, 3]).dictionary_encode(), "-999"),
        (pa.array(DAYS), "1900-01-01"),
        (pa.array(DAYS).cast(pa.timestamp("us")), "1900-01-01"),
        (pa.array([True, False]), "true"),
    ],
)
def test_every_type_has_marks_in_memory_and_in_parts(tmp_path, values, mark):
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"a": values}), path)
    whole = read_table(path, TextFormat(missing=(mark,)))
    (part,) = find_large(path, always=True, missing=(mark,)).tables()
    assert list(part.column("a")) == list(whole.column("a"))
    assert [cell is None for cell in part.column("a")] == [True, False]
    assert list(part.given("a")) == list(whole.given("a"))
    assert None not in list(part.given("a"))


def test_a_model_remembers_the_marks(tmp_path):
    data, model = write_table(tmp_path / "d.csv"), tmp_path / "m.scalemix"
    text = data.read_text(encoding="utf-8")
    data.write_text(text.replace("\n,", "\n-999,"), encoding="utf-8")
    ran = run("fit", data, "-t", "price", "-o", model, "--missing", "-999", *SMALL)
    assert ran.code == 0, ran.err
    assert "'size': 4 missing" in ran.err
    ran = run("predict", model, data)
    assert "'size': 4 missing" in ran.err
    assert run("predict", model, data, "--missing", "Ulm").err.count("'town': ") == 1
