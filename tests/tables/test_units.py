"""Numbers with a sign of their unit."""

import dataclasses
import io

import numpy as np
import pytest

from scalemix.tables import Columns, InputError, TextFormat, learn_columns, read_table
from scalemix.tables.reading import read_chunks


def write(path, *columns, names="rate;price;y"):
    rows = [";".join(cells) for cells in zip(*columns, strict=True)]
    path.write_text("\n".join([names, *rows]) + "\n", encoding="utf-8")
    return path


RATES = ["12%", "7.5 %", "-3%", "", "0%", "100%"]
PRICES = ["$1,200.50", "-$3.00", "$ 7", "$1.5", "$2,000,000.25", "$8"]
TARGETS = ["3,50 €", "€ 4,25", "1.000,5€", "2 €", "-7,1 €", "0,5"]


@pytest.fixture
def table(tmp_path):
    return read_table(write(tmp_path / "d.csv", RATES, PRICES, TARGETS))


def test_the_sign_goes_and_the_number_stays(table):
    got = [[None if c is None else float(c) for c in table.columns[n]] for n in table.columns]
    assert got[0] == [12, 7.5, -3, None, 0, 100]
    assert got[1] == [1200.5, -3, 7, 1.5, 2000000.25, 8]
    assert got[2] == [3.5, 4.25, 1000.5, 2, -7.1, 0.5]
    assert table.written("rate")[0] == "12%"
    assert "numbers with a unit: 'rate' in %, 'price' in $, 'y' in €, where 12% is 12" in (
        table.remarks
    )
    columns = learn_columns(table, "y")
    assert columns.describe()[:2] == [
        "target: y in €, regression (numbers)", "numbers: rate in %, price in $",
    ]  # fmt: skip
    again = Columns.from_json(columns.to_json())
    assert again == columns
    assert again.units == {"rate": "%", "price": "$", "y": "€"}


def test_shares_in_percent_are_read_as_parts_of_one(tmp_path):
    shares = ["78,4 %", "50 %", "0,5 %", "99 %", "12 %", "7 %"]
    table = read_table(write(tmp_path / "s.csv", RATES, PRICES, shares))
    learned = learn_columns(table, "y")
    assert learned.target.encode(table).tolist() == [78.4, 50, 0.5, 99, 12, 7]
    target = dataclasses.replace(learned.target, kind="share")
    columns = Columns.from_json(dataclasses.replace(learned, target=target).to_json())
    assert columns.target.encode(table).tolist() == [0.784, 0.5, 0.005, 0.99, 0.12, 0.07]
    says = "'y': 50% is read as 0.5, and predictions are shares of one, too"
    assert says in columns.describe()
    assert says not in learned.describe()
    full = read_table(write(tmp_path / "f.csv", RATES, PRICES, ["100 %", *shares[1:]]))
    with pytest.raises(InputError, match="line 2, column 'y': '100 %' is not a number strictly"):
        columns.target.encode(full)


def later(tmp_path, table, rates):
    """A table for a model of the first one, as a file and as a stream."""
    columns = learn_columns(table, "y")
    expected = TextFormat(None, None, None, table.text.decimals, units=columns.units)
    path = write(tmp_path / "new.csv", rates, ["$1.5"] * len(rates), names="rate;price")
    stream = io.BufferedReader(io.BytesIO(path.read_bytes()))
    (chunk,) = read_chunks(stream, TextFormat(), expected, num_rows=9, numbers=columns.numbers)
    whole = read_table(path, expected=expected, numbers=columns.numbers)
    np.testing.assert_array_equal(columns.read(whole), columns.read(chunk))
    assert whole.remarks == chunk.remarks
    return columns.read(whole)[:, 0].tolist(), whole.remarks


def test_a_model_reads_later_tables_in_its_units(tmp_path, table):
    assert later(tmp_path, table, ["5%", "0"]) == ([5, 0], ())
    with pytest.raises(InputError, match=r"line 3, column 'rate': '0.6' has no %, and other rows"):
        later(tmp_path, table, ["5%", "0.6"])
    values, remarks = later(tmp_path, table, ["5%", "6"])
    assert values == [5, 6]
    assert remarks == ("'rate': some numbers without a unit, such as 6, taken to be in %",)
    values, remarks = later(tmp_path, table, ["5", "6"])
    assert values == [5, 6]
    assert remarks == ("'rate': numbers without a unit, taken to be in %",)
    # Zeros tell nothing.
    values, remarks = later(tmp_path, table, ["0.05", "0"])
    assert values == [0.05, 0]
    assert "though all are at most 1: shares of one would be other numbers" in remarks[0]
    # The row that is at fault is named, not the first.
    with pytest.raises(InputError, match=r"line 3, column 'rate': '\$5' is in \$, and the table"):
        later(tmp_path, table, ["6%", "$5"])


def test_a_unit_that_training_had_not_is_refused(tmp_path):
    table = read_table(write(tmp_path / "d.csv", ["0.12", "0.07", "0.5"], ["$1", "$2", "$3"],
                             ["1.5", "2.5", "3"]))  # fmt: skip
    with pytest.raises(InputError, match=r"'12%' is in %, and the table .* without a unit there"):
        later(tmp_path, table, ["12%"])


def test_numbers_without_a_percent_sign_among_others_are_refused_if_they_may_be_shares(tmp_path):
    path = write(tmp_path / "d.csv", ["12%", "13", "0.12", "50%", "0"], ["$1"] * 5, ["1"] * 5)
    says = (
        r"line 4, column 'rate': '0.12' has no %.* may be 0.12%, or a share.* --missing 0.12 makes"
    )
    with pytest.raises(InputError, match=says):
        read_table(path)
    # The ways out are ways out.
    table = read_table(path, TextFormat(missing=("0.12",)))
    assert table.columns["rate"] == ["12", "13", None, "50", "0"]
    assert "'rate': some numbers without a unit, such as 13, taken to be in %" in table.remarks
    path = write(tmp_path / "d.csv", ["12%", "1,5", "0,7%"], ["$1"] * 3, ["1"] * 3)
    assert read_table(path).columns["rate"] == ["12", "1.5", "0.7"]
    # Of money there is a remark: nobody means another number by it.
    path = write(tmp_path / "d.csv", ["12%", "7%"], ["$1", "2.5"], ["1", "2"])
    assert "'price': some numbers without a unit, such as 2.5, taken to be in $" in (
        read_table(path).remarks
    )


def test_percent_cells_of_a_book_are_those_of_text(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [["rate", "other", "y"], [0.07, 1.5, "1,5"], [0.12345, 2.5, "2,5"], [None, 3.5, "3,5"]]
    for row in rows:
        book.active.append(row)
    for row in (2, 3, 4):
        book.active.cell(row, 1).number_format = "0.00%"
        book.active.cell(row, 2).number_format = '0.0" %"'
    path = tmp_path / "d.xlsx"
    book.save(path)
    table = read_table(path)
    assert [None if c is None else float(c) for c in table.columns["rate"]] == [7, 12.345, None]
    assert table.columns["other"] == [1.5, 2.5, 3.5]
    assert table.text.units == {"rate": "%"}
    book.active.cell(3, 1).number_format = "General"
    book.save(path)
    with pytest.raises(InputError, match=r"column 'rate': 0.12345 has no %"):
        read_table(path)


def test_one_cell_in_another_unit_is_refused_by_its_row(tmp_path):
    prices = ["$1"] * 9 + ["€2"]
    path = write(tmp_path / "d.csv", ["5%"] * 10, prices, ["1"] * 10)
    says = r"line 11, column 'price': '€2' is in €, and other rows such as '\$1' are not"
    with pytest.raises(InputError, match=says):
        read_table(path)
    # The way out is one.
    table = read_table(path, TextFormat(missing=("€2",)))
    assert table.columns["price"] == ["1"] * 9 + [None]
    assert read_table(path, words=["price"]).columns["price"] == prices


def test_a_word_after_numbers_is_pointed_out(tmp_path):
    ways, other = [f"{i}.5 km" for i in range(40)], [f"{i}" for i in range(40)]
    path = write(tmp_path / "d.csv", ways, ["a", "b"] * 20, other)
    left_out = learn_columns(read_table(path), "y").left_out
    assert left_out["rate"].endswith("without a word after them: take away 'km'")


def test_several_units_and_words_are_no_numbers(tmp_path):
    odd, words = ["$5", "€6", "£7"], ["50% off", "$", "a$b"]
    table = read_table(write(tmp_path / "d.csv", odd, words, ["1", "2", "3"]))
    assert table.columns["rate"] == odd
    assert table.columns["price"] == words
    assert table.remarks == ()


def test_who_says_categories_gets_them(tmp_path):
    path = write(tmp_path / "d.csv", RATES, PRICES, TARGETS)
    table = read_table(path, words=["rate"])
    assert table.columns["rate"][:2] == ["12%", "7.5 %"]
    assert set(table.text.units) == {"price", "y"}


@pytest.mark.parametrize("rates", [["5%", "6%", "7", "8"], ["7", "8", "5%", "6%"]])
def test_later_parts_of_a_stream_may_be_without_the_sign_if_they_are_no_shares(rates):
    def read(rates):
        text = "\n".join(["rate", *rates]) + "\n"
        stream = io.BufferedReader(io.BytesIO(text.encode()))
        expected = TextFormat(units={"rate": "%"})
        parts = read_chunks(stream, TextFormat(), expected, num_rows=2, numbers={"rate"})
        return [float(cell) for part in parts for cell in part.columns["rate"]]

    assert read(rates) == [float(rate.strip("%")) for rate in rates]
    with pytest.raises(InputError, match=r"from line 4 on .* unlike those before"):
        read([rate.replace("8", "0.8") for rate in rates])
