"""Files as programs and people write them: encodings, decimal commas, books, databases."""

import bz2
import datetime
import gzip
import io
import sqlite3
import sys
import zipfile

import pytest

from scalemix.tables import InputError, TextFormat, read_table
from scalemix.tables.reading import read_chunks
from scalemix.tables.table import UNSAID

TEXT = "größe,ort\n1.5,Köln\n2.5,Ulm\n"
COLUMNS = {"größe": ["1.5", "2.5"], "ort": ["Köln", "Ulm"]}


def write(folder, content, name="data.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"],
)
def test_the_encoding_is_found(tmp_path, encoding):
    # With a byte-order mark and without one.
    table = read_table(write(tmp_path, TEXT.encode(encoding)))
    assert table.columns == COLUMNS
    western = encoding in ("latin-1", "cp1252")
    assert ("--encoding names another" in " ".join(table.remarks)) == western
    assert table.text.encoding == ("cp1252" if western else encoding)


def test_an_encoding_may_be_said_and_an_expected_one_holds_where_utf_8_does_not(tmp_path):
    path = write(tmp_path, "a,b\n1,Łódź\n".encode("cp1250"))
    assert read_table(path, TextFormat(encoding="cp1250")).columns["b"] == ["Łódź"]
    assert read_table(path, expected=TextFormat(encoding="cp1250")).columns["b"] == ["Łódź"]
    unicode = write(tmp_path, "a,b\n1,Łódź\n", "other.csv")
    assert read_table(unicode, expected=TextFormat(encoding="cp1250")).columns["b"] == ["Łódź"]
    for name in ("nonsense", "hex", "a\0b"):
        with pytest.raises(InputError, match=f"--encoding {name}: there is no encoding"):
            read_table(path, TextFormat(encoding=name))
        # A file of a model may name anything.
        assert read_table(path, expected=TextFormat(encoding=name)).text.encoding == "cp1252"
    # Nor is a table in one byte a letter that in two of the model's.
    for name in ("utf-16", "utf-16-le", "utf-32"):
        assert read_table(path, expected=TextFormat(encoding=name)).text.encoding == "cp1252"
    with pytest.raises(InputError, match=r"line 2: it is not text in utf-8, as --encoding says"):
        read_table(path, TextFormat(encoding="utf-8"))
    even = write(tmp_path, b"a,b\n1,\xa3\n", "even.csv")
    assert read_table(even, expected=TextFormat(encoding="utf-16")).columns["b"] == ["£"]
    with pytest.raises(InputError, match=r"line 1: it is not text in utf-16, as --encoding says"):
        read_table(even, TextFormat(encoding="utf-16"))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
@pytest.mark.parametrize("name", ["data.csv.gz", "data.tsv.gz", "data.txt"])
def test_packed_text_is_unpacked_and_counts_as_the_same_table(tmp_path, pack, name):
    text = TEXT.replace(",", "\t") if ".tsv" in name else TEXT
    packed = read_table(write(tmp_path, pack(text.encode()), name))
    assert packed.columns == COLUMNS
    assert packed.digest == read_table(write(tmp_path, text)).digest


def test_what_breaks_off_is_said_to(tmp_path):
    content = gzip.compress(TEXT.encode() * 99)
    with pytest.raises(InputError, match="cannot be unpacked"):
        read_table(write(tmp_path, content[:60], "data.csv.gz"))


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        # As many commas as tabs, and more in the header than semicolons.
        ("d.tsv", "name, first\tage\nLi, An\t3\n", {"name, first": ["Li, An"], "age": ["3"]}),
        ("d.txt", "a;b, c, d\n1;2\n3;4\n", {"a": ["1", "3"], "b, c, d": ["2", "4"]}),
        ("d.csv", 'a;b\n"1;2";3\n', {"a": ["1;2"], "b": ["3"]}),
        ("d.csv", "sep=^\na,b^c\n1,5^2\n", {"a,b": ["1.5"], "c": ["2"]}),
    ],
)
def test_the_separator_is_the_one_that_fits_the_rows(tmp_path, name, text, columns):
    assert read_table(write(tmp_path, text, name)).columns == columns


def test_a_separator_may_be_said(tmp_path):
    path = write(tmp_path, "a~b\n1~2\n")
    assert list(read_table(path, TextFormat(separator="~")).columns) == ["a", "b"]
    with pytest.raises(InputError, match="--separator names another"):
        read_table(write(tmp_path, "a b\n1,2 3\n"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf8", "utf-16-le", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path, encoding):
    content = '\ufeff"a",b\n1,2\n'.encode(encoding)
    said = TextFormat(encoding=encoding)
    (chunk,) = read_chunks(io.BytesIO(content), said, UNSAID, num_rows=5)
    for table in (chunk, read_table(write(tmp_path, content), said)):
        assert table.columns == {"a": ["1"], "b": ["2"]}


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["3,5", "12,25", "7"], ["3.5", "12.25", "7"]),
        (["1.234,5", "3,5", "1.234.567"], ["1234.5", "3.5", "1234567"]),
        (["1,234.5", "3.5", "-1,234,567"], ["1234.5", "3.5", "-1234567"]),
        (["1 234,5", "1\u00a0234", "1\u202f234"], ["1234.5", "1234", "1234"]),
        (["1'234.5", "3.5", "4e3"], ["1234.5", "3.5", "4e3"]),
        (["0,123", "1,234", ",5"], ["0.123", "1.234", ".5"]),
        (["0.123", "1.234", "1234.5"], ["0.123", "1.234", "1234.5"]),
        # Neither words nor dates are numbers.
        (["a,b", "c.d", "1,5"], ["a,b", "c.d", "1,5"]),
        (["31.12.2024", "1.1.2025"], ["31.12.2024", "1.1.2025"]),
    ],
)
@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_numbers_are_read_as_they_were_meant(tmp_path, cells, numbers, separator):
    rows = [f'"{cell}"{separator}x' for cell in cells]
    table = read_table(write(tmp_path, "\n".join([f"a{separator}b", *rows])))
    assert table.columns["a"] == numbers
    assert bool(table.remarks) == (cells != numbers)


def test_other_columns_tell_what_a_comma_is(tmp_path):
    comma = read_table(write(tmp_path, "a;b\n1,234;3,5\n1.234;2,5\n"))
    assert (comma.columns["a"], comma.text.decimal) == (["1.234", "1234"], ",")
    point = read_table(write(tmp_path, "a;b\n1,234;3.5\n"))
    assert (point.columns["a"], point.text.decimal) == (["1234"], ".")
    assert "'1,234 is 1234'" not in point.remarks
    assert "where 1,234 is 1234; --decimal , reads them the other way" in point.remarks[0]


@pytest.mark.parametrize("cell", ["1,234", "1.234"])
def test_what_could_be_either_is_asked_for_and_what_is_expected_decides(tmp_path, cell):
    path = write(tmp_path, f"a;b\n{cell};x\n")
    with pytest.raises(InputError, match=r"column 'a': '1[.,]234' may be .* Say --decimal \."):
        read_table(path)
    other = "1234" if cell == "1.234" else "1.234"
    for how in ({"said": TextFormat(decimal=",")}, {"expected": TextFormat(decimal=",")}):
        assert read_table(path, **how).columns["a"] == [other]
    # Cells separated by commas have no decimal commas.
    assert read_table(write(tmp_path, 'a,b\n"1,234",x\n')).columns["a"] == ["1234"]


def test_what_a_table_tells_is_stronger_than_what_is_expected(tmp_path):
    path = write(tmp_path, "a;b\n1.234;3.5\n")
    assert read_table(path, expected=TextFormat(decimal=",")).columns["a"] == ["1.234"]


@pytest.fixture
def shop(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (size REAL, town TEXT, num INTEGER)")
        shop.execute("INSERT INTO orders VALUES (1.5, 'Ulm', 3), (NULL, ' ', 4)")
        shop.execute('CREATE TABLE "odd "" name" (a)')
        shop.execute('INSERT INTO "odd "" name" VALUES (1)')
    shop.close()
    return tmp_path / "shop.db"


def test_tables_of_sqlite_are_read_by_address(shop, monkeypatch):
    orders = {"size": [1.5, None], "town": ["Ulm", None], "num": [3, 4]}
    assert read_table(f"{shop}::orders").columns == orders
    assert read_table(f"sqlite:///{shop}?table=orders").columns == orders
    monkeypatch.chdir(shop.parent)
    assert read_table("sqlite:///shop.db?table=orders").columns == orders
    assert read_table('shop.db::odd " name').columns == {"a": [1]}
    with pytest.raises(
        InputError, match=r"several tables: .*'orders'. Name one, as in .*shop.db::"
    ):
        read_table(shop)
    with pytest.raises(InputError, match=r"no table 'order'. There are: .*'orders'"):
        read_table("shop.db::order")
    with pytest.raises(InputError, match=r"nowhere.db: there is no such file"):
        read_table("sqlite:///nowhere.db?table=orders")
    with pytest.raises(InputError, match="neither a database nor an Excel file"):
        read_table(f"{write(shop.parent, TEXT)}::orders")


def test_a_database_is_the_same_table_as_long_as_its_rows_are(shop):
    before = read_table(f"{shop}::orders").digest
    with sqlite3.connect(shop) as more:
        more.execute("CREATE TABLE later (a)")
    assert read_table(f"{shop}::orders").digest == before
    with more:
        more.execute("INSERT INTO orders VALUES (2.5, 'Bonn', 5)")
    more.close()
    assert read_table(f"{shop}::orders").digest != before


def test_a_damaged_database_is_refused(tmp_path):
    path = write(tmp_path, b"SQLite format 3\0" + bytes(100), "bad.db")
    with pytest.raises(InputError, match=r"bad.db: SQLite cannot read it"):
        read_table(path)


def test_tables_of_duckdb_are_read_by_address(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as shop:
        shop.execute("CREATE TABLE orders AS SELECT 1.5::DOUBLE AS size, 'Ulm' AS town")
    for address in (path, f"{path}::orders", f"duckdb:///{path}?table=orders"):
        assert read_table(address).columns == {"size": [1.5], "town": ["Ulm"]}
    with pytest.raises(InputError, match=r"no table 'x'. There are: 'orders'"):
        read_table(f"{path}::x")


def test_sheets_of_excel_are_read(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "first"
    day = datetime.datetime(2024, 1, 31)
    for row in ([None] * 3, ["size", "sold", "note"], [1.5, day, "#DIV/0!"], [None] * 3,
                ["2,5", None, "n/a"]):  # fmt: skip
        book.active.append(row)
    book.create_sheet("second").append(["a"])
    book["second"].append([7])
    path = tmp_path / "book.xlsx"
    book.save(path)
    table = read_table(path)
    assert table.columns == {
        "size": [1.5, "2.5"], "sold": [day, None], "note": [None, None],
    }  # fmt: skip
    assert table.places == ["row 3", "row 5"]
    assert "the first of the sheets 'first', 'second'; book.xlsx::second" in table.remarks[0]
    second = read_table(f"{path}::second")
    assert (second.columns, second.remarks) == ({"a": [7]}, ())
    assert second.digest != table.digest
    with pytest.raises(InputError, match=r"no sheet 'third'. There are: 'first', 'second'"):
        read_table(f"{path}::third")


def test_other_files_of_offices_are_named(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as packed:
        packed.writestr("data.csv", TEXT)
    with pytest.raises(InputError, match="spreadsheet"):
        read_table(tmp_path / "data.zip")
    with pytest.raises(InputError, match="old Excel file"):
        read_table(write(tmp_path, b"\xd0\xcf\x11\xe0rest", "old.xls"))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r'pip install "scalemix\[excel\]"'):
        read_table(tmp_path / "data.zip")


def chunks(content, num_rows=2, said=UNSAID, expected=UNSAID):
    return list(read_chunks(io.BytesIO(content), said, expected, num_rows=num_rows))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("pack", [lambda content: content, gzip.compress])
def test_a_stream_is_read_in_chunks_as_a_file_is_at_once(tmp_path, encoding, pack):
    rows = [f'{i},5;"Köln {i}\nam Rhein"\n' for i in range(5)]
    content = pack("".join(["größe;ort\n", *rows]).encode(encoding))
    whole = read_table(write(tmp_path, content))
    parts = chunks(content)
    assert [part.num_rows for part in parts] == [2, 2, 1]
    for name, cells in whole.columns.items():
        assert [cell for part in parts for cell in part.columns[name]] == cells
    assert [place for part in parts for place in part.places] == whole.places
    assert whole.columns["größe"][0] == "0.5"


def test_later_rows_of_a_stream_are_read_as_the_first():
    parts = chunks(b"a;b\n1,5;2\n2,5;3\n1,234;4\n")
    assert [part.columns["a"] for part in parts] == [["1.5", "2.5"], ["1.234"]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"a,b\n", "no rows"),
        (b"PAR1rest", "name the file"),
        (b"a,b\n1,2\n3\n", "line 3: it has 1 values"),
        (gzip.compress(b"a,b\n" + bytes(range(48, 58)) * 9999, mtime=0)[:60], "breaks off"),
        (b"a,b\n" + b"1,2\n" * 20_000 + b"1,\xff\n", "after line 1.... it is not text in utf-8"),
    ],
)
def test_bad_streams_are_refused_with_their_place(content, says):
    with pytest.raises(InputError, match=says):
        chunks(content, num_rows=50_000)
