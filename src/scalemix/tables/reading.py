"""CSV and Parquet files as columns of cells, with the place of each row in its file.

CSV is read with the standard library, which knows the line that a row stands on: whoever is told of
a bad value has to find it.
"""

import csv
import dataclasses
import datetime
import difflib
import hashlib
import io
import math
from collections import Counter
from pathlib import Path
from typing import Any

SEPARATORS = (",", ";", "\t", "|")
# What people and programs write where there is no value. Spelling counts, case does not.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "?", "#n/a", "<na>"})
# Cells can be long texts, though the standard library expects none above 131,072 characters.
LONGEST_CELL = 2**24


Cell = str | int | float | bool | datetime.date | None
"""Text, or a value with a type of its own; `None` where a value is missing."""


class InputError(ValueError):
    """Something is wrong with what a user gave: one line that says what, and where.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scalemix.tables import InputError, read_table
    >>> try:
    ...     read_table(Path("nowhere.csv"))
    ... except InputError as error:
    ...     print(error)
    nowhere.csv: there is no such file.
    """


@dataclasses.dataclass(frozen=True)
class Table:
    """Named columns, and where each row stands in its file.

    Parameters
    ----------
    path : Path
        The file.
    columns : dict of list
        The cells of each column by name: text from a CSV file, typed values from a Parquet file,
        and `None` where a value is missing.
    places : list of str
        Where each row stands, as a person would count it: "line 2".
    digest : str
        The digest of the file's bytes, by which two tables are known to be the same.
    remarks : tuple of str, default=()
        What was left out in reading.
    categorical : tuple of str, default=()
        Columns whose type says that they are categories, whatever their values are.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scalemix.tables import Table
    >>> table = Table(Path("a.csv"), {"a": ["1", None]}, ["line 2", "line 3"], "")
    >>> table.num_rows, table.take([1]).places
    (2, ['line 3'])
    """

    path: Path
    columns: dict[str, list[Cell]]
    places: list[str]
    digest: str
    remarks: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.places)

    def column(self, name: str) -> list[Cell]:
        """The cells of one column, or an `InputError` that names the columns there are."""
        if name not in self.columns:
            near = difflib.get_close_matches(name, self.columns, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"{self.path}: there is no column {name!r}. {hint}"
                f"There are: {listing(self.columns)}."
            )
        return self.columns[name]

    def error(self, row: int, column: str, problem: str) -> InputError:
        """An error about one cell."""
        return InputError(f"{self.path}, {self.places[row]}, column {column!r}: {problem}")

    def take(self, rows: Any) -> "Table":
        """These rows alone."""
        rows = [int(row) for row in rows]
        columns = {name: [cells[i] for i in rows] for name, cells in self.columns.items()}
        return dataclasses.replace(self, columns=columns, places=[self.places[i] for i in rows])


def read_table(path: Path) -> Table:
    """The table in a CSV or Parquet file.

    Parameters
    ----------
    path : Path
        A Parquet file, or a CSV file in UTF-8 with a header, whose separator is a comma, a
        semicolon, a tab or a bar.

    Returns
    -------
    Table
        Its columns, with the place of each row.

    Raises
    ------
    InputError
        If the file cannot be read, or holds no table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scalemix.tables import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = path.write_text("size;town\\n1.5;Ulm\\n;Bonn\\n")
    >>> read_table(path).columns
    {'size': ['1.5', None], 'town': ['Ulm', 'Bonn']}
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({error.strerror}).") from None
    if not content.strip():
        raise InputError(f"{path}: the file is empty.")
    if content.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        header, cells, places = _read_parquet(path, content)
    else:
        header, cells, places = _read_csv(path, content)
    repeated = [name for name, count in Counter(header).items() if count > 1 and name]
    if repeated:
        raise InputError(f"{path}: there are two columns with the name {repeated[0]!r}.")
    if not places:
        raise InputError(f"{path}: it has a header and no rows.")
    columns = {name: column for name, column in zip(header, cells, strict=True) if name}
    remarks = [
        f"column {i + 1} has no name, and is left out" for i, name in enumerate(header) if not name
    ]
    if not columns:
        raise InputError(f"{path}: none of its columns has a name.")
    digest = hashlib.sha256(content).hexdigest()
    return Table(path, columns, places, digest, tuple(remarks))


Read = tuple[list[str], list[list[Cell]], list[str]]
"""The names of the columns, their cells, and the places of the rows."""


def _read_csv(path: Path, content: bytes) -> Read:
    if content.startswith(b"PK\x03\x04"):
        raise InputError(f"{path}: it is a spreadsheet or a zip file. Save the table as CSV.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: it is not a CSV file in UTF-8.") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InputError(f"{path}, line {line}: it is not a CSV file, for it holds a zero byte.")
    if not text.strip():
        # Nothing but a byte-order mark, or blanks of other alphabets.
        raise InputError(f"{path}: the file is empty.")
    first = next(line for line in text.splitlines() if line.strip())
    # Of a header without any of them all are as good.
    separator = max(SEPARATORS, key=first.count)
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] | None = None
    rows: list[list[Cell]] = []
    places = []
    line = 0
    try:
        for row in reader:
            # A quoted cell may go over several lines: a row stands where it begins.
            line, end = line + 1, reader.line_num
            if row and header is None:
                header = [name.strip() for name in row]
            elif row and header is not None:
                if len(row) != len(header):
                    raise InputError(
                        f"{path}, line {line}: it has {len(row)} values, and the header "
                        f"{len(header)} columns, separated by {separator!r}."
                    )
                rows.append([_clean(cell) for cell in row])
                places.append(f"line {line}")
            line = end
    except csv.Error as error:
        raise InputError(f"{path}, line {line + 1}: it is not a CSV file ({error}).") from None
    assert header is not None
    return header, [list(column) for column in zip(*rows, strict=True)], places


def _clean(cell: str) -> str | None:
    cell = cell.strip()
    return None if cell.lower() in MISSING else cell


def _read_parquet(path: Path, content: bytes) -> Read:
    try:
        from pyarrow import ArrowException, BufferReader, parquet
    except ImportError:
        raise InputError(
            f"{path}: Parquet files need pyarrow, which is not installed: pip install pyarrow"
        ) from None
    try:
        table = parquet.read_table(BufferReader(content))
        # The row labels of a data frame are no column of its table.
        header = [
            "" if name.startswith("__index_level_") else name.strip() for name in table.column_names
        ]
        cells = [[_typed(value) for value in column.to_pylist()] for column in table.columns]
    except (ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: it is not a Parquet file ({reason})") from None
    return header, cells, [f"row {i + 1}" for i in range(table.num_rows)]


def _typed(value: Any) -> Cell:
    """A value of a Parquet file as a cell: plain types stay, and others become text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float | datetime.date):
        return value
    return _clean(str(value))


def listing(names: Any, most: int = 12) -> str:
    """Names for a sentence, not too many of them."""
    names = list(names)
    text = ", ".join(repr(name) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"
