"""Tables as other programs write them, through all commands."""

import csv
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scalemix.tables import read_table
from tests.cli.conftest import SMALL, run, write_table


def comma(cell):
    """A number of at least 1000 as it is written in much of Europe."""
    try:
        return f"{1000 * float(cell):,.3f}".translate(str.maketrans(",.", ".,"))
    except ValueError:
        return cell


@pytest.fixture(scope="module")
def european(tmp_path_factory):
    """The table of the other tests as a spreadsheet would write it there, and a model of it."""
    folder = tmp_path_factory.mktemp("european")
    header, *rows = csv.reader(write_table(folder / "d").read_text(encoding="utf-8").splitlines())
    lines = [";".join(map(comma, row)) for row in rows]
    data, model = folder / "data.csv", folder / "m.scalemix"
    data.write_text("\n".join([";".join(header), *lines]), encoding="latin-1")
    ran = run("fit", data, "-t", "price", "--ignore", "mood", "-o", model, *SMALL)
    assert ran.code == 0, ran.err
    assert "it is not UTF-8, and read as cp1252; --encoding names another" in ran.err
    assert "numbers with a decimal comma: 'size', 'price'" in ran.err
    assert "numbers: size\n" in ran.err
    return data, model


def test_numbers_of_thousands_mean_the_same(european, tmp_path):
    table = read_table(european[0])
    plain = read_table(write_table(tmp_path / "d.csv"))
    for name in ("size", "price"):
        pairs = zip(table.columns[name], plain.columns[name], strict=True)
        for one, other in pairs:
            assert (one is None) == (other is None)
            assert one is None or float(one) == pytest.approx(1000 * float(other), abs=1e-3)
    assert table.columns["town"] == plain.columns["town"]


def test_all_commands_read_such_a_table(european, tmp_path):
    data, model = european
    assert run("evaluate", model, data, "--json").json["rows"] == 8
    assert run("report", model, data, "-o", tmp_path / "r.html").code == 0
    assert run("prune", model, "--data", data, "-o", tmp_path / "s").code == 0
    ran = run("predict", model, data, "--keep", "size", "--keep", "price")
    assert ran.code == 0
    assert "decimal comma" in ran.err
    # What is kept is what stands in the file.
    header, *rows = csv.reader(data.read_text(encoding="latin-1").splitlines(), delimiter=";")
    written = [[row[header.index(name)] for name in ("size", "price")] for row in rows]
    assert [row[:2] for row in csv.reader(ran.out.splitlines())][1:] == written


def test_what_could_be_either_is_read_as_the_training_table_was(european, regression, tmp_path):
    """1.234 is more than a thousand for one model, and a little more than one for the other."""
    one = tmp_path / "one.csv"
    one.write_text("size;town;sold;new\n1.234;Köln;2024-01-01;True\n", encoding="latin-1")
    same = tmp_path / "same.csv"
    same.write_text("size,town,sold,new\n1234.0,Köln,2024-01-01,True\n", encoding="utf-8")
    got = [run("predict", european[1], data, "--json") for data in (one, same)]
    assert got[0].json == got[1].json
    # The other model's table had points; and options are stronger than any table.
    same.write_text("size,town,sold,new\n1.2340,Köln,2024-01-01,True\n", encoding="utf-8")
    got = [run("predict", regression.model, data, "--json") for data in (one, same)]
    assert got[0].json == got[1].json
    ran = run("predict", european[1], one, "--json", "--decimal", ".", "--encoding", "latin-1")
    same = run("predict", european[1], same, "--json")
    assert ran.json == same.json


def test_options_say_how_text_is_written(tmp_path):
    data = tmp_path / "d.csv"
    data.write_text("a~b\n1,234~1\n2,345~2\n")
    fit = ["fit", data, "-t", "a", "-o", tmp_path / "m", *SMALL]
    assert "--separator takes one character" in run(*fit, "--separator", "ab").err
    ran = run(*fit, "--separator", "~")
    assert (ran.code, "Say --decimal . for the first" in ran.err) == (2, True)
    assert "no encoding of that name" in run(*fit, "--encoding", "klingon").err
    # Click itself says which decimal marks there are.
    assert run(*fit, "--decimal", "x").code == 2


@pytest.fixture
def typed(regression):
    """The rows of the other tests with numbers and gaps as databases and books have them."""
    header, *rows = csv.reader(regression.data.read_text(encoding="utf-8").splitlines())
    return header, [[float(row[0]) if row[0] else None, row[1] or None, *row[2:]] for row in rows]


def check_same_predictions(regression, address):
    known = run("predict", regression.model, regression.data, "--json").json["predictions"]
    ran = run("predict", regression.model, address, "--json")
    assert ran.code == 0, ran.err
    np.testing.assert_allclose(ran.json["predictions"]["std"], known["std"], rtol=1e-5)


def test_a_table_of_a_database_is_a_table(regression, typed, tmp_path):
    header, rows = typed
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute(f"CREATE TABLE houses ({', '.join(header)})")
        shop.executemany("INSERT INTO houses VALUES (?, ?, ?, ?, ?, ?)", rows)
    shop.close()
    address = f"{tmp_path / 'shop.db'}::houses"
    check_same_predictions(regression, address)
    other = run("predict", regression.model, f"{tmp_path / 'shop.db'}::flats")
    assert (other.code, "There are: 'houses'" in other.err) == (2, True)
    # What is read is not overwritten, whatever its address.
    assert run("predict", regression.model, address, "-o", tmp_path / "shop.db").code == 2


def test_a_sheet_of_a_book_is_a_table(regression, typed, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    header, rows = typed
    book = openpyxl.Workbook()
    for row in (header, *rows):
        book.active.append(row)
    book.save(tmp_path / "book.xlsx")
    check_same_predictions(regression, tmp_path / "book.xlsx")


@pytest.mark.parametrize("options", [(), ("--stream",)])
def test_a_column_that_may_be_codes_is_spoken_of(options, tmp_path):
    codes = ["00501", "10001", "90210", "60601"] * 10
    data = tmp_path / "d.parquet"
    columns = {"post code": codes, "size": range(40), "y": np.arange(40) % 7 - 2.5}
    pq.write_table(pa.table(columns), data)
    for more, said in (((), True), (("--categorical", "post code"), False)):
        ran = run("fit", data, "-t", "y", "-o", tmp_path / "m", *SMALL, *options, *more)
        assert ran.code == 0, ran.err
        assert ("'post code' (00501 is 501); --categorical reads such" in ran.err) == said
