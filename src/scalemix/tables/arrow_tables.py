"""Tables of Parquet and Arrow files, of which one part is in memory at a time."""

import copy
import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from scalemix._text import listing
from scalemix.data.arrow_files import ARROW, SUFFIXES, ArrowPart, kind_of, open_files
from scalemix.tables.arrow_cells import cells_of
from scalemix.tables.number_formats import Known
from scalemix.tables.settling import known_after, settle_columns
from scalemix.tables.table import UNSAID, InputError, Table, TextFormat

# A Parquet file of more cells than this is read a part at a time. As Python's objects and as inputs
# of a network they would take some gigabytes.
MOST_CELLS = 4_000_000
NUMBER = re.compile(r"\d[\d.,]*")


class SomeRows(NamedTuple):
    """A part of a file, without some of its rows."""

    part: ArrowPart
    dropped: np.ndarray
    """Which rows of the part are left out, in rising order. They are few, or there is no use."""

    @property
    def num_rows(self) -> int:
        """How many rows are left."""
        return self.part.num_rows - len(self.dropped)

    @property
    def num_bytes(self) -> int:
        """What all of its rows take."""
        return self.part.num_bytes

    @property
    def kept(self) -> np.ndarray:
        """Which rows of the part are left."""
        return np.delete(np.arange(self.part.num_rows), self.dropped)

    def place(self, row: int) -> str:
        """Where one of the rows that are left stands, as a person would count it."""
        return self.part.place(int(self.kept[row]))


NONE_DROPPED = np.zeros(0, np.int64)


class ArrowTables:
    """The parts of a Parquet or Arrow file, or of a folder of them, each as a `Table`."""

    path: Path
    names: list[str]
    categorical: tuple[str, ...]
    """Columns whose type says that they are categories."""
    text: TextFormat
    """What stands where a value is missing; in everything else such files are no text."""
    remarks: tuple[str, ...]
    num_rows: int
    num_bytes: int
    parts: list[tuple[SomeRows, int]]
    """Each with the number of its first row in the whole."""

    def __init__(
        self, path: Path, missing: tuple[str, ...] = (), decimal: str | None = None,
        known: Known | None = None,
    ):  # fmt: skip
        """`decimal` and `known` say how text is read; without `known` it is left as it is."""
        try:
            files = open_files(path)
        except ValueError as error:
            raise InputError(str(error)) from None
        self.path = path
        self._original = {name.strip(): name for name in files[0].types if name.strip()}
        self.names = list(self._original)
        said = {name for file in files for name in file.categorical}
        self.categorical = tuple(name for name in self.names if self._original[name] in said)
        self.text, self.remarks = UNSAID._replace(missing=missing, decimal=decimal), ()
        self._known = known
        self._several = len(files) > 1
        self._use([SomeRows(part, NONE_DROPPED) for file in files for part in file.parts()])
        # Of what the files say about themselves: to read them all takes too long.
        self.digest: str = hashlib.sha256("\n".join(f.footer for f in files).encode()).hexdigest()

    def _use(self, parts: Sequence[SomeRows]) -> None:
        starts = np.cumsum([0, *(part.num_rows for part in parts)]).tolist()
        self.parts = list(zip(parts, starts[:-1], strict=True))
        self.num_rows, self.num_bytes = starts[-1], sum(part.num_bytes for part in parts)

    def without_missing(self, names: Sequence[str]) -> tuple["ArrowTables", int]:
        """All rows but those that lack a target, after a pass over the targets alone; and how many
        these are. An `InputError` if none is left."""
        for name in names:
            if name not in self.names:
                # It raises, with the names there are.
                self.table(self.parts[0][0]).column(name)
        parts = []
        for part, _ in self.parts:
            table = self.table(part, names)
            lost = {
                place
                for name in names
                if table.column(name).count(None)
                for place, cell in enumerate(table.column(name))
                if cell is None
            }
            parts.append(SomeRows(part.part, np.array(sorted(lost), np.int64)))
        some = copy.copy(self)
        some._use([part for part in parts if part.num_rows])
        if not some.parts:
            raise InputError(f"{self.path}, column {listing(names)}: no row has a target.")
        return some, self.num_rows - some.num_rows

    @property
    def types(self) -> dict[str, Any]:
        """The type of PyArrow's that cells of each column have, where they keep theirs."""
        kept = ("numbers", "truth values", "text", "dates")
        of = self.parts[0][0].part.file.types
        return {
            name: of[original]
            for name, original in self._original.items()
            if kind_of(of[original]) in kept and not str(of[original]).startswith("decimal")
        }

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.names

    def table(self, some: SomeRows, names: Sequence[str] | None = None) -> Table:
        """Columns of one part; by default all."""
        names, part = self.names if names is None else names, some.part
        read = part.read([self._original[name] for name in names])
        rows: Sequence[int] = range(part.num_rows)
        if len(some.dropped):
            rows = some.kept.tolist()
            read = read.take(rows)
        columns = {name: cells_of(column) for name, column in zip(names, read.columns, strict=True)}
        file = f"{part.file.path.name}, " if self._several else ""
        places = _Places(file, part.first_row, rows)
        categorical = tuple(name for name in self.categorical if name in columns)
        settled = settle_columns(
            self.path, columns, places=places, said=self.text, known=self._known, text=UNSAID
        )
        table = Table(
            self.path, settled.columns, places, self.digest, settled.remarks, categorical,
            settled.text, settled.as_written, settled.unmarked,
        )  # fmt: skip
        if self._known is not None:
            # What the first parts tell of how a column is written holds for all.
            self._known = known_after(self._known, table)
        return table

    def tables(self, names: Sequence[str] | None = None) -> Iterator[Table]:
        """All parts in their order."""
        for part, _ in self.parts:
            yield self.table(part, names)

    def chunks(self, num_rows: int) -> Iterator[Table]:
        """All rows in their order, so many at a time, in memory."""
        kept = KeptRows(np.arange(min(num_rows, self.num_rows)))
        for part, first in self.parts:
            table = self.table(part)
            kept.add(table, first)
            # All but the last chunk of a part are complete.
            while (stop := int(kept.rows[-1]) + 1) <= first + part.num_rows:
                yield kept.table
                if stop == self.num_rows:
                    return
                kept = KeptRows(np.arange(stop, min(stop + num_rows, self.num_rows)))
                kept.add(table, first)

    def take(self, rows: np.ndarray) -> Table:
        """Rows by their numbers, which rise, in memory."""
        kept = KeptRows(rows)
        for part, first in self.parts:
            if kept.has_some(first, part.num_rows):
                kept.add(self.table(part), first)
        return kept.table


class KeptRows:
    """Rows of a table that are kept in memory while its parts come by."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows
        self._tables: list[Table] = []

    def has_some(self, first: int, num: int) -> bool:
        """Whether any of them are in this part."""
        return bool(len(self._inside(first, num)))

    def add(self, table: Table, first: int) -> None:
        """One more part, whose first row has this number."""
        inside = self._inside(first, table.num_rows)
        if len(inside):
            self._tables.append(table.take(inside - first))

    def _inside(self, first: int, num: int) -> np.ndarray:
        start, stop = np.searchsorted(self.rows, [first, first + num])
        return self.rows[start:stop]

    @property
    def table(self) -> Table:
        """All that were kept so far."""
        tables, one = self._tables, self._tables[0]
        columns = {name: [c for t in tables for c in t.columns[name]] for name in one.columns}
        written = {name for table in tables for name in table.as_written}
        unmarked = {name for table in tables for name in table.unmarked}
        return dataclasses.replace(
            one,
            columns=columns,
            places=[place for table in tables for place in table.places],
            remarks=_once(said for table in tables for said in table.remarks),
            as_written={name: [c for t in tables for c in t.written(name)] for name in written},
            unmarked={name: [c for t in tables for c in t.given(name)] for name in unmarked},
        )


def _once(remarks: Iterable[str]) -> tuple[str, ...]:
    """Of remarks that differ in their numbers alone, the first."""
    first: dict[str, str] = {}
    for said in remarks:
        first.setdefault(NUMBER.sub("", said), said)
    return tuple(first.values())


class _Places(Sequence[str]):
    """Where the rows of a part stand; a list of them would take more memory than the rows."""

    def __init__(self, file: str, first: int, rows: Sequence[int]):
        self._file, self._first, self._rows = file, first, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [f"{self._file}row {self._first + row + 1}" for row in self._rows[place]]
        return f"{self._file}row {self._first + self._rows[place] + 1}"


def find_large(
    path: Path,
    *,
    always: bool,
    missing: tuple[str, ...] = (),
    decimal: str | None = None,
    known: Known | None = None,
) -> ArrowTables | None:
    """The table of Parquet or Arrow files, if it is to be read a part at a time.

    That is so of folders, of Arrow files, of large Parquet files, and of others `always`. `missing`
    are marks of gaps besides the usual ones. With what is `known` of the columns of a model, text
    is read as its numbers; `decimal` is the mark that was said.
    """
    if not path.is_dir() and path.suffix.lower() not in SUFFIXES:
        if always:
            raise InputError(
                f"{path}: --stream is for Parquet and Arrow files, and folders of them. Write the "
                f"table as Parquet first."
            )
        return None
    if not path.is_dir() and not always and not path.exists():
        return None
    tables = ArrowTables(path, missing, decimal, known)
    small = path.suffix.lower() not in ARROW and not path.is_dir()
    fits = tables.num_rows * len(tables.names) <= MOST_CELLS
    return None if small and fits and not always else tables
