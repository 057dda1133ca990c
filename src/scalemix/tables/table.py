"""Columns of cells, with the place of each row in its file."""

import dataclasses
import datetime
import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scalemix._text import listing

Cell = str | int | float | bool | datetime.date | None
"""Text, or a value with a type of its own; `None` where a value is missing."""


class Remedy(NamedTuple):
    """What a user can do about an error, in the words of each door."""

    option: str
    """On the command line."""
    python: str


class InputError(ValueError):
    """Something is wrong with what a user gave: one line that says what, and where.

    Where both doors may raise it, it speaks the words of Python; `with_options` has those of the
    command line.

    Parameters
    ----------
    *parts : str or Remedy
        What the line is made of.

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

    def __init__(self, *parts: str | Remedy):
        self.parts = parts
        super().__init__("".join(p if isinstance(p, str) else p.python for p in parts))

    def with_options(self) -> str:
        """The same line for a user of the command line."""
        return "".join(part if isinstance(part, str) else part.option for part in self.parts)


class TextFormat(NamedTuple):
    """How the text of a file is to be read, as far as it is said.

    Attributes
    ----------
    encoding : str, optional
        The encoding, by a name that Python knows.
    separator : str, optional
        What stands between two cells.
    decimal : {".", ","}, optional
        What stands before the decimals of a number.
    decimals : dict of str, default={}
        The same for single columns, by name.
    missing : tuple of str, default=()
        What stands where a value is missing, besides the usual marks such as NA. Typed files may
        have such marks too, such as the number -999.
    units : dict of str, default={}
        The signs of units that the numbers of columns had, such as %, by the name of the column.

    Examples
    --------
    >>> from scalemix.tables import TextFormat
    >>> TextFormat(decimal=",")
    TextFormat(encoding=None, separator=None, decimal=',', decimals={}, missing=(), units={})
    """

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    decimals: Mapping[str, str] = {}
    missing: tuple[str, ...] = ()
    units: Mapping[str, str] = {}


UNSAID = TextFormat()


def headerless(names: Iterable[str]) -> str:
    """What to say of a table whose first row seems to be no header, if it is one."""
    for name in names:
        try:
            float(name)
        except ValueError:
            return ""
    return (
        " All of these names are numbers: the table seems to have no header, and its first row was "
        "taken for one. Put a row with the names of the columns above it."
    )


@dataclasses.dataclass(frozen=True)
class Table:
    """Named columns, and where each row stands in its file.

    Parameters
    ----------
    path : Path
        The file.
    columns : dict of sequence
        The cells of each column by name: text from a CSV file, typed values from a Parquet file,
        and `None` where a value is missing.
    places : list of str
        Where each row stands, as a person would count it: "line 2".
    digest : str
        The digest of what it was read from, by which two tables are known to be the same.
    remarks : tuple of str, default=()
        What was left out in reading.
    categorical : tuple of str, default=()
        Columns whose type says that they are categories, whatever their values are.
    text : TextFormat, optional
        How the text of the file was read.
    as_written : dict of sequence, default={}
        The cells of columns as the file has them, where its numbers are written in another way
        than in `columns`.
    unmarked : dict of sequence, default={}
        The cells of columns as the file has them, where marks of gaps were taken out of `columns`.
    earlier_digests : tuple of str, default=()
        The digests that earlier versions gave to the same file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scalemix.tables import Table
    >>> table = Table(Path("a.csv"), {"a": ["1", None]}, ["line 2", "line 3"], "")
    >>> table.num_rows, table.take([1]).places
    (2, ['line 3'])
    """

    path: Path
    columns: Mapping[str, Sequence[Cell]]
    places: Sequence[str]
    digest: str
    remarks: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    text: TextFormat = UNSAID
    as_written: Mapping[str, Sequence[Cell]] = dataclasses.field(default_factory=dict)
    unmarked: Mapping[str, Sequence[Cell]] = dataclasses.field(default_factory=dict)
    earlier_digests: tuple[str, ...] = ()

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.places)

    def column(self, name: str) -> Sequence[Cell]:
        """The cells of one column, or an `InputError` that names the columns there are."""
        if name not in self.columns:
            near = difflib.get_close_matches(name, self.columns, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"{self.path}: there is no column {name!r}. {hint}"
                f"There are: {listing(self.columns)}.{headerless(self.columns)}"
            )
        return self.columns[name]

    def written(self, name: str) -> Sequence[Cell]:
        """The cells of one column as the file has them: 1,5 where `column` has 1.5."""
        return self.as_written.get(name) or self.column(name)

    def given(self, name: str) -> Sequence[Cell]:
        """The same with the marks of gaps, such as -999, which `written` has not."""
        return self.unmarked.get(name) or self.written(name)

    def is_known_by(self, digest: str) -> bool:
        """Whether the table is the one that has this digest."""
        return digest in (self.digest, *self.earlier_digests)

    def error(self, row: int, column: str, *problem: str | Remedy) -> InputError:
        """An error about one cell."""
        return InputError(f"{self.path}, {self.places[row]}, column {column!r}: ", *problem)

    def take(self, rows: Any) -> "Table":
        """These rows alone."""
        rows = [int(row) for row in rows]
        places = [self.places[i] for i in rows]
        columns, as_written, unmarked = (
            {name: _cells_at(cells, rows) for name, cells in of.items()}
            for of in (self.columns, self.as_written, self.unmarked)
        )
        return dataclasses.replace(
            self, columns=columns, places=places, as_written=as_written, unmarked=unmarked
        )


def _cells_at(cells: Sequence[Cell], rows: list[int]) -> Sequence[Cell]:
    """The cells of these rows. Some columns know a quicker way."""
    return cells.take(rows) if hasattr(cells, "take") else [cells[i] for i in rows]  # pyright: ignore[reportAttributeAccessIssue]
