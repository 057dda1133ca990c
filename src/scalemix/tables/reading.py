"""CSV and Parquet files as columns of text, with the place of each row in its file.

CSV is read with the standard library, which knows the line that a row stands on; a person who is
told of a bad value has to find it.
"""

import csv
import dataclasses
import datetime
import difflib
import hashlib
import io
from collections import Counter
from pathlib import Path
from typing import Any

SEPARATORS = (",", ";", "\t", "|")
# What people and programs write where there is no value. Spelling counts, case does not.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "?", "#n/a", "<na>"})
# Cells can be long texts, though the standard library expects none above 131,072 characters.
LONGEST_CELL = 2**24


class InputError(ValueError):
    """Something is wrong with what a user gave: one line that says what, and where."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Named columns of text, `None` where a value is missing."""

    path: Path
    columns: dict[str, list[str | None]]
    places: list[str]
    """Where each row stands, as a person would count it: `line 2`."""
    digest: str
    """Of the file's bytes: whether two tables are the same."""
    remarks: tuple[str, ...] = ()
    """What was left out in reading."""

    @property
    def num_rows(self) -> int:
        return len(self.places)

    def column(self, name: str) -> list[str | None]:
        """The values of one column, or an `InputError` that names those that there are."""
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
    """The table in a CSV or Parquet file, or an `InputError`."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({error.strerror}).") from None
    if not content.strip():
        raise InputError(f"{path}: the file is empty.")
    if content.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        header, rows, places = _read_parquet(path, content)
    else:
        header, rows, places = _read_csv(path, content)
    repeated = [name for name, count in Counter(header).items() if count > 1 and name]
    if repeated:
        raise InputError(f"{path}: there are two columns with the name {repeated[0]!r}.")
    if not rows:
        raise InputError(f"{path}: it has a header and no rows.")
    cells = zip(*rows, strict=True)
    columns = {name: list(column) for name, column in zip(header, cells, strict=True) if name}
    remarks = [
        f"column {i + 1} has no name, and is left out" for i, name in enumerate(header) if not name
    ]
    if not columns:
        raise InputError(f"{path}: none of its columns has a name.")
    digest = hashlib.sha256(content).hexdigest()
    return Table(path, columns, places, digest, tuple(remarks))


Rows = tuple[list[str], list[list[str | None]], list[str]]


def _read_csv(path: Path, content: bytes) -> Rows:
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
    rows: list[list[str | None]] = []
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
    return header, rows, places


def _clean(cell: str) -> str | None:
    cell = cell.strip()
    return None if cell.lower() in MISSING else cell


def _read_parquet(path: Path, content: bytes) -> Rows:
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
        cells = [column.to_pylist() for column in table.columns]
    except (ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: it is not a Parquet file ({reason})") from None
    rows = [[_as_text(value) for value in row] for row in zip(*cells, strict=True)]
    return header, rows, [f"row {i + 1}" for i in range(len(rows))]


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, datetime.date):
        return value.isoformat()
    return _clean(repr(value) if isinstance(value, float) else str(value))


def listing(names: Any, most: int = 12) -> str:
    """Names for a sentence, not too many of them."""
    names = list(names)
    text = ", ".join(repr(name) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"
