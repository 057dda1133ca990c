"""Files whose cells have types: Parquet, Excel, and tables of SQLite and DuckDB."""

import contextlib
import importlib
import io
import re
import sqlite3
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scalemix._text import listing
from scalemix.data.arrow_files import categorical_of
from scalemix.tables.table import Cell, InputError
from scalemix.tables.values import as_cell

# What Excel shows where a formula failed.
FAILED = frozenset({"#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"})
# What stands for itself in the format of a cell.
LITERAL = re.compile(r'"[^"]*"|\\.')
THREE_DECIMALS = re.compile(r"\.\d{3}$")
SQLITE, DUCKDB, DUCKDB_AT = b"SQLite format 3\0", b"DUCK", 8


class Read(NamedTuple):
    """The names of the columns, their cells, and the places of the rows."""

    header: list[str]
    cells: list[list[Cell]]
    places: list[str]
    remarks: tuple[str, ...] = ()
    table: str = ""
    """The name of the sheet, of a book."""
    categorical: tuple[str, ...] = ()
    """Columns whose type says that they are categories."""


def read_parquet(path: Path, content: bytes) -> Read:
    """The table in a Parquet file."""
    try:
        from pyarrow import ArrowException, BufferReader, parquet
    except ImportError:
        raise InputError(
            f"{path}: Parquet files need pyarrow, which is not installed: "
            f'pip install "scalemix[parquet]"'
        ) from None
    try:
        table = parquet.read_table(BufferReader(content))
        # The row labels of a data frame are no column of its table.
        header = [
            "" if name.startswith("__index_level_") else name.strip() for name in table.column_names
        ]
        cells = [[as_cell(value) for value in column.to_pylist()] for column in table.columns]
        categorical = tuple(name.strip() for name in categorical_of(table.schema))
    except (ArrowException, OSError, ValueError, LookupError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: it is not a Parquet file ({reason})") from None
    places = [f"row {i + 1}" for i in range(table.num_rows)]
    return Read(header, cells, places, categorical=categorical)


def read_excel(path: Path, content: bytes, name: str | None) -> Read:
    """The sheet of this name in a book, or the first one."""
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            f"{path}: it is a spreadsheet or a zip file. Excel files need openpyxl, which is not "
            f'installed: pip install "scalemix[excel]". Or save the table as CSV.'
        ) from None
    with warnings.catch_warnings():
        # On styles and rules of a book, which no table needs.
        warnings.simplefilter("ignore")
        try:
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        # A file of ill will can make it raise nearly anything.
        except Exception as error:
            raise InputError(
                f"{path}: it is a zip file, and no spreadsheet that can be read "
                f"({type(error).__name__}). Unpack it, or save the table as .xlsx or CSV."
            ) from None
        with contextlib.closing(book):
            sheets = [sheet.title for sheet in book.worksheets]
            if name is not None and name not in sheets:
                raise InputError(
                    f"{path}: there is no sheet {name!r}. There are: {listing(sheets)}."
                )
            chosen = book[sheets[0] if name is None else name]
            numbered = enumerate(chosen.iter_rows(), start=1)
            # A name may be one that means no value further down, such as NA.
            names = ((["" if cell.value is None else str(cell.value).strip() for cell in row])
                     for _, row in numbered)  # fmt: skip
            header = next((row for row in names if any(row)), None)
            rows = [
                (place, [None if cell.value in FAILED else _excel_cell(cell) for cell in row])
                for place, row in numbered
            ]
    if header is None:
        raise InputError(f"{path}: the sheet {chosen.title!r} is empty.")
    rows = [(place, row) for place, row in rows if any(cell is not None for cell in row)]
    filled = [header, *(row for _, row in rows)]
    width = max(i + 1 for row in filled for i, cell in enumerate(row) if cell not in ("", None))
    header = header[:width]
    remarks = ()
    if name is None and len(sheets) > 1:
        remarks = (f"the first of the sheets {listing(sheets)}; {path.name}::{sheets[1]} reads "
                   f"another",)  # fmt: skip
    cells = _columns([row[:width] for _, row in rows], width)
    return Read(header, cells, [f"row {place}" for place, _ in rows], remarks, chosen.title)


def _excel_cell(cell: Any) -> Cell:
    """The cell as the book shows it: 0.12 in a format of percent is 12%, as in a file of text."""
    value, shown = as_cell(cell.value), LITERAL.sub("", cell.number_format or "")
    if "%" not in shown or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    # To 15 digits, as Excel has them: 0.07 * 100 is not quite 7.
    said = np.format_float_positional(float(f"{100 * value:.15g}"), trim="-")
    # Three decimals might be taken for thousands.
    return f"{said}0%" if THREE_DECIMALS.search(said) else f"{said}%"


def read_database(path: Path, name: str | None, *, duckdb: bool) -> Read:
    """The table or view of this name, or the only one there is."""
    with _connected(path, duckdb) as connection:
        listed = connection.execute(
            "SELECT table_name FROM information_schema.tables ORDER BY table_name"
            if duckdb
            else "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        tables = [str(table) for (table,) in listed.fetchall()]
        if not tables:
            raise InputError(f"{path}: the database has no tables.")
        if name is None and len(tables) > 1:
            raise InputError(
                f"{path}: the database has several tables: {listing(tables)}. Name one, as in "
                f"{path}::{tables[0]}"
            )
        if name is not None and name not in tables:
            raise InputError(f"{path}: there is no table {name!r}. There are: {listing(tables)}.")
        quoted = (name or tables[0]).replace('"', '""')
        cursor = connection.execute(f'SELECT * FROM "{quoted}"')
        header = [str(column[0]).strip() for column in cursor.description]
        rows = [[as_cell(value) for value in row] for row in cursor.fetchall()]
    places = [f"row {i + 1}" for i in range(len(rows))]
    return Read(header, _columns(rows, len(header)), places)


@contextlib.contextmanager
def _connected(path: Path, duckdb: bool) -> Iterator[Any]:
    """A connection that cannot change anything."""
    if not duckdb:
        with contextlib.closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        ) as c:
            try:
                yield c
            except sqlite3.Error as error:
                raise InputError(f"{path}: SQLite cannot read it ({error}).") from None
        return
    try:
        # None of the extras brings it, for nothing else here needs it.
        library = importlib.import_module("duckdb")
    except ImportError:
        raise InputError(
            f"{path}: it is a database of DuckDB, which is not installed: pip install duckdb"
        ) from None
    try:
        with contextlib.closing(library.connect(str(path), read_only=True)) as c:
            yield c
    except library.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: DuckDB cannot read it ({reason}).") from None


def _columns(rows: Iterable[list[Cell]], width: int) -> list[list[Cell]]:
    """Columns from rows, of which there may be none."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
