"""Parquet and Arrow files as parts that are read one at a time: row groups, or record batches."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from scalemix._text import listing

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
SUFFIXES = (*PARQUET, *ARROW)


class ArrowPart(NamedTuple):
    """Rows of a file that are read together."""

    file: "ArrowFile"
    number: int
    first_row: int
    """The number of its first row in the file."""
    num_rows: int
    num_bytes: int

    def read(self, names: Sequence[str]) -> Any:
        """These columns as a table of PyArrow, or a `ValueError` if the file has changed."""
        return self.file.read(self.number, names)

    def place(self, row: int) -> str:
        """Where a row of the part stands, as a person would count it."""
        return f"{self.file.path}, row {self.first_row + row + 1}"


class ArrowFile:
    """A Parquet or Arrow file of which only the description is in memory."""

    path: Path
    types: dict[str, Any]
    """The type of each column by name, those in the names of folders included."""
    categorical: list[str]
    """Columns whose type says that they are categories."""

    def __init__(self, path: Path, folders: dict[str, str]):
        self.path = path
        self.folders: dict[str, str] = folders
        self._is_parquet = path.suffix.lower() not in ARROW
        self._stamp = _stamp(path)
        pa = import_pyarrow(path)
        with _readable(path):
            reader = self._open()
            schema = reader.schema_arrow if self._is_parquet else reader.schema
            self.categorical = categorical_of(schema)
        if self._is_parquet:
            self._metadata = reader.metadata
            groups = [self._metadata.row_group(i) for i in range(self._metadata.num_row_groups)]
            self._sizes = [(group.num_rows, group.total_byte_size) for group in groups]
        else:
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            self._sizes = [(batch.num_rows, batch.nbytes) for batch in batches]
        # The row labels of a data frame are no column of its table.
        self.types = {
            name: kind
            for name, kind in zip(schema.names, schema.types, strict=True)
            if not name.startswith("__index_level_")
        } | {name: pa.string() for name in folders}
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ValueError(f"{path}: there are two columns with the name {twice[0]!r}.")

    def parts(self) -> Iterator[ArrowPart]:
        """The parts that have rows, in their order."""
        first = 0
        for number, (num_rows, num_bytes) in enumerate(self._sizes):
            if num_rows:
                yield ArrowPart(self, number, first, num_rows, num_bytes)
            first += num_rows

    @property
    def footer(self) -> str:
        """What the file says about itself, by which it is known from others."""
        about = [self.path.name, self._stamp[0], sorted(self.folders.items()), self._sizes]
        return repr([*about, sorted((name, str(kind)) for name, kind in self.types.items())])

    def read(self, number: int, names: Sequence[str]) -> Any:
        """Columns of one part, as a table of PyArrow."""
        pa = import_pyarrow(self.path)
        if _stamp(self.path) != self._stamp:
            raise ValueError(
                f"{self.path}: it was written to after it was opened. Wait until it is complete, "
                f"and start again."
            )
        inside = [name for name in names if name not in self.folders]
        with _readable(self.path):
            if self._is_parquet:
                # A thread reads a part; more of them for its columns would only get in the way.
                part = self._open().read_row_group(number, columns=inside, use_threads=False)
            else:
                part = pa.Table.from_batches([self._open().get_batch(number)])
        columns = [
            pa.repeat(pa.scalar(self.folders[name]), part.num_rows)
            if name in self.folders
            else part.column(name)
            for name in names
        ]
        return pa.table(columns, names=list(names))

    def _open(self) -> Any:
        if self._is_parquet:
            from pyarrow import parquet

            return parquet.ParquetFile(self.path, metadata=getattr(self, "_metadata", None))
        from pyarrow import ipc, memory_map

        return ipc.open_file(memory_map(str(self.path)))


def open_files(path: Path) -> list[ArrowFile]:
    """The Parquet or Arrow files that a path stands for, all with the same columns.

    A folder stands for all such files in it and below, in the order of their names. Names of
    folders such as `year=2024` are columns, as other programs write them.
    """
    import_pyarrow(path)
    if not path.exists():
        raise ValueError(f"{path}: there is no such file or folder.")
    paths = [path] if path.is_file() else _files_below(path)
    if not paths:
        raise ValueError(f"{path}: the folder has no files that end in {listing(SUFFIXES)}.")
    files = [ArrowFile(each, {} if each == path else _folders(each, path)) for each in paths]
    for other in files[1:]:
        _check_same(files[0], other)
    if not any(True for file in files for _ in file.parts()):
        raise ValueError(f"{path}: it has no rows.")
    return files


def categorical_of(schema: Any) -> list[str]:
    """The columns whose type says that they are categories."""
    from pyarrow import types

    # Numbers come back from a file as what they are, with a word of pandas on what they were.
    said = (schema.pandas_metadata or {}).get("columns", ())
    named = {each["field_name"] for each in said if each["pandas_type"] == "categorical"}
    return [
        name
        for name, kind in zip(schema.names, schema.types, strict=True)
        if name in named or types.is_dictionary(kind)
    ]


def kind_of(kind: Any) -> str:
    """What a column of such a type holds, in a word."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    for what, is_one in (
        ("nothing", types.is_null),
        ("truth values", types.is_boolean),
        ("numbers", lambda k: types.is_integer(k) or types.is_floating(k) or types.is_decimal(k)),
        ("text", lambda k: types.is_string(k) or types.is_large_string(k)),
        ("dates", lambda k: types.is_date(k) or types.is_timestamp(k)),
    ):
        if is_one(kind):
            return what
    return str(kind)


def import_pyarrow(path: Path) -> Any:
    """PyArrow, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ValueError(
            f"{path}: Parquet and Arrow files need pyarrow, which is not installed: "
            f'pip install "scalemix[parquet]"'
        ) from None
    return pyarrow


def _files_below(folder: Path) -> list[Path]:
    """The data files of a folder and of those in it, in order.

    Under names that begin with `_` or `.`, other programs keep lists and unfinished parts.
    """
    return sorted(
        each
        for each in folder.rglob("*")
        if each.suffix.lower() in SUFFIXES
        and not any(part.startswith(("_", ".")) for part in each.relative_to(folder).parts)
        and each.is_file()
    )


def _folders(path: Path, root: Path) -> dict[str, str]:
    named = (part.partition("=") for part in path.relative_to(root).parts[:-1])
    return {unquote(name): unquote(value) for name, sign, value in named if sign}


def _check_same(first: ArrowFile, other: ArrowFile) -> None:
    """Raise `ValueError` unless another file has the columns of the first one."""
    for has, lacks in ((first, other), (other, first)):
        missing = [name for name in has.types if name not in lacks.types]
        if missing:
            raise ValueError(
                f"{lacks.path}: there is no column {listing(missing)}, which {has.path.name} has. "
                f"All files need the same columns."
            )
    for name, kind in first.types.items():
        kinds = kind_of(kind), kind_of(other.types[name])
        if kinds[0] != kinds[1] and "nothing" not in kinds:
            raise ValueError(
                f"{other.path}, column {name!r}: it holds {kinds[1]} ({other.types[name]}), and in "
                f"{first.path.name} {kinds[0]} ({kind}). All files need the same types: write one "
                f"of the two again."
            )


def _stamp(path: Path) -> tuple[int, int]:
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turns what PyArrow says of a file that it cannot read into a line for people."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, LookupError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(
            f"{path}: it cannot be read ({reason}). It may still be written to, or break off: wait "
            f"until it is complete, or take it away."
        ) from None
