"""Tables from files, databases and streams, whatever they are written in."""

import bz2
import dataclasses
import gzip
import hashlib
import io
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, cast

from scalemix._text import listing
from scalemix.tables.addresses import parse_address
from scalemix.tables.number_formats import Known
from scalemix.tables.settling import known_after, settle_columns
from scalemix.tables.table import UNSAID, Cell, InputError, Table, TextFormat, headerless
from scalemix.tables.text_files import decode, find_separator, rows_of
from scalemix.tables.typed_files import (
    DUCKDB,
    DUCKDB_AT,
    SQLITE,
    Read,
    read_database,
    read_excel,
    read_parquet,
)
from scalemix.tables.values import clean

STANDARD_INPUT = Path("standard input")
GZIP, ZIP, OLD_EXCEL, PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"PAR1"
PACKED: dict[bytes, Callable[[bytes], bytes]] = {
    GZIP: gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ": lzma.decompress,
}
# What of a stream is looked at before its first row is read.
HEAD = 2**16


def read_table(
    source: str | Path,
    said: TextFormat | None = None,
    expected: TextFormat | None = None,
    *,
    numbers: Collection[str] | None = None,
    words: Collection[str] = (),
) -> Table:
    """The table in a file, in a database, or on standard input.

    Parameters
    ----------
    source : str or Path
        Text with a header, whose cells are separated by commas, semicolons, tabs or bars, packed by
        gzip or not; a Parquet file; an Excel file, as `book.xlsx` or `book.xlsx::sheet`; a table of
        SQLite or DuckDB, as `shop.db::orders` or `sqlite:///shop.db?table=orders`; or `-`, standard
        input.
    said : TextFormat, optional
        How its text is to be read. By default that is found.
    expected : TextFormat, optional
        How its text is to be read where it does not tell by itself.
    numbers : collection of str, optional
        The columns that hold numbers; all others are left as they are. By default the cells say
        which they are.
    words : collection of str, default=()
        Columns that are left as they are, though their cells may look like numbers.

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
    >>> _ = path.write_text("size;town\\n1,5;Ulm\\n;Bonn\\n")
    >>> read_table(path).columns
    {'size': ['1.5', None], 'town': ['Ulm', 'Bonn']}
    """
    address = parse_address(source)
    expected = expected or UNSAID
    said = _with_marks(said or UNSAID, expected)
    # Without columns of numbers there is no model that knows of units.
    units = None if numbers is None else expected.units
    known = Known(expected.decimals, expected.decimal, numbers, words, units=units)
    path = STANDARD_INPUT if address.is_stdin else address.path
    try:
        if address.is_stdin:
            content = sys.stdin.buffer.read()
        else:
            kind = _database(path)
            if kind is not None:
                read = read_database(path, address.table, duckdb=kind == DUCKDB)
                return _table(path, read, _digest_of(read), UNSAID, said, known)
            content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({error.strerror}).") from None
    content = _unpacked(path, content)
    if not content.strip():
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: it is no file. `predict` reads a pipe by the name -.")
        raise InputError(f"{path}: the file is empty.")
    text, digest, earlier = UNSAID, hashlib.sha256(content).hexdigest(), ()
    if content.startswith(ZIP):
        read = read_excel(path, content, address.table)
        # A book is more than its sheet, and the sheet may be named or not.
        digest, earlier = _digest_of(read), _earlier_digests(content, read.table)
    elif address.table is not None:
        raise InputError(
            f"{path}: it is neither a database nor an Excel file, and holds no table "
            f"{address.table!r}. Leave out ::{address.table}"
        )
    elif content.startswith(PARQUET) or path.suffix.lower() in (".parquet", ".pq"):
        read = read_parquet(path, content)
    elif content.startswith(OLD_EXCEL):
        raise InputError(f"{path}: it is an old Excel file. Save the table as .xlsx or CSV.")
    else:
        read, text = _read_text(path, content, said, expected)
    table = _table(path, read, digest, text, said, known)
    return dataclasses.replace(table, earlier_digests=earlier)


def _digest_of(read: Read) -> str:
    return hashlib.sha256(repr((read.header, read.cells)).encode()).hexdigest()


def _earlier_digests(content: bytes, sheet: str) -> tuple[str, ...]:
    """What versions before took for the digest of a sheet: by whether it was named."""
    return tuple(hashlib.sha256(content + name.encode()).hexdigest() for name in ("", sheet))


def read_chunks(
    stream: IO[bytes],
    said: TextFormat,
    expected: TextFormat,
    *,
    num_rows: int,
    numbers: Collection[str] | None = None,
) -> Iterator[Table]:
    """The table of text that comes by a stream, so many rows at a time.

    What the beginning tells of how it is written holds for the rest: a column has one decimal mark,
    that of the first rows which tell it.
    """
    path, said = STANDARD_INPUT, _with_marks(said, expected)
    head = stream.read(HEAD)
    stream = io.BufferedReader(_Rejoined(head, stream))
    if head.startswith(GZIP):
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
        try:
            head = stream.read(HEAD)
        except (EOFError, zlib.error) as error:
            raise InputError(f"{path}: it breaks off ({error}).") from None
        stream = io.BufferedReader(_Rejoined(head, stream))
    if head.startswith((PARQUET, ZIP, SQLITE)):
        raise InputError(
            f"{path}: it is no text. Only CSV comes row by row; name the file instead."
        )
    if not head.strip():
        raise InputError(f"{path}: it is empty.")
    decoded = decode(
        path, head, said=said.encoding, expected=expected.encoding, whole=len(head) < HEAD
    )
    separator = said.separator or find_separator(path, decoded.text)
    lines = io.TextIOWrapper(stream, encoding=decoded.encoding, newline="")
    header, rows = rows_of(path, lines, separator)
    text, remarks, some = TextFormat(decoded.encoding, separator), decoded.remarks, False
    known = Known(expected.decimals, expected.decimal, numbers, units=expected.units)
    while chunk := list(islice(rows, num_rows)):
        table = _table(path, _cleaned(header, chunk, remarks), "", text, said, known)
        known = known_after(known, table)
        remarks, some = (), True
        yield table
    if not some:
        raise InputError(f"{path}: it has a header and no rows.")


def _with_marks(said: TextFormat, expected: TextFormat) -> TextFormat:
    """What was said, with the marks of gaps that the table of a model had."""
    return said._replace(missing=tuple(dict.fromkeys((*expected.missing, *said.missing))))


class _Rejoined(io.RawIOBase):
    """A stream, together with what was already read of it."""

    def __init__(self, head: bytes, rest: IO[bytes]):
        self._parts: list[IO[bytes]] = [io.BytesIO(head), rest]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        while self._parts:
            # What there is now, so that no more is waited for than the rows need.
            part = self._parts[0]
            read = getattr(part, "read1", part.read)(len(buffer))
            if read:
                buffer[: len(read)] = read
                return len(read)
            self._parts.pop(0)
        return 0


def _database(path: Path) -> bytes | None:
    """Which kind of database a file is, if any."""
    with path.open("rb") as file:
        start = file.read(len(SQLITE))
    if start == SQLITE:
        return SQLITE
    return DUCKDB if start[DUCKDB_AT:].startswith(DUCKDB) else None


def _unpacked(path: Path, content: bytes) -> bytes:
    for mark, unpack in PACKED.items():
        if content.startswith(mark):
            try:
                return unpack(content)
            except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
                raise InputError(f"{path}: it cannot be unpacked ({error}).") from None
    return content


def _read_text(
    path: Path, content: bytes, said: TextFormat, expected: TextFormat
) -> tuple[Read, TextFormat]:
    decoded = decode(path, content, said=said.encoding, expected=expected.encoding)
    if not decoded.text.strip():
        # Nothing but a byte-order mark, or blanks of other alphabets.
        raise InputError(f"{path}: the file is empty.")
    separator = said.separator or find_separator(path, decoded.text)
    header, rows = rows_of(path, io.StringIO(decoded.text, newline=""), separator)
    read = _cleaned(header, list(rows), decoded.remarks)
    return read, TextFormat(decoded.encoding, separator)


def _cleaned(
    header: list[str], rows: list[tuple[str, list[str]]], remarks: tuple[str, ...]
) -> Read:
    cells: list[list[Cell]] = [[clean(row[i]) for _, row in rows] for i in range(len(header))]
    return Read(header, cells, [place for place, _ in rows], remarks)


def _table(
    path: Path, read: Read, digest: str, text: TextFormat, said: TextFormat, known: Known
) -> Table:
    """The table of what was read, with its numbers as Python writes them."""
    repeated = [name for name, count in Counter(read.header).items() if count > 1 and name]
    if repeated:
        raise InputError(f"{path}: there are two columns with the name {repeated[0]!r}.")
    if not read.places:
        raise InputError(f"{path}: it has a header and no rows.")
    columns = {name: column for name, column in zip(read.header, read.cells, strict=True) if name}
    if not columns:
        raise InputError(f"{path}: none of its columns has a name.")
    unnamed = [
        f"column {i + 1} has no name, and is left out"
        for i, name in enumerate(read.header)
        if not name
    ]
    settled = settle_columns(
        path, columns, places=read.places, said=said, known=known, text=text
    )  # fmt: skip
    odd = headerless(columns)
    named = (f"columns {listing(columns)}.{odd}",) if odd else ()
    remarks = (*read.remarks, *unnamed, *named, *settled.remarks)
    return Table(
        path, settled.columns, read.places, digest, remarks, categorical=read.categorical,
        text=settled.text, as_written=settled.as_written, unmarked=settled.unmarked,
    )  # fmt: skip
