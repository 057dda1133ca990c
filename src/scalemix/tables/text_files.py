"""CSV and its relatives: which encoding, which separator, and where each row stands.

They are read with the standard library, which knows the line that a row stands on: whoever is told
of a bad value has to find it.
"""

import codecs
import csv
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scalemix.tables.table import InputError

SEPARATORS = (",", ";", "\t", "|")
# Western European text that is not Unicode. Windows has signs where Latin-1 has none.
WESTERN = ("cp1252", "latin-1")
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# No text has these, and nearly all other files have.
CONTROLS = bytes({*range(32)} - set(b"\t\n\r\f\v"))
# Cells can be long texts, though the standard library expects none above 131,072 characters.
LONGEST_CELL = 2**24
# A first line by which Excel says what separates cells.
DECLARED = re.compile(r"sep=(.)\s*$")
# The lines, and the characters, that the separator is found from.
LOOKED_AT, LONGEST_LOOK = 20, 2**18


class Decoded(NamedTuple):
    """Text, its encoding, and what is worth saying of it."""

    text: str
    encoding: str
    remarks: tuple[str, ...] = ()


def decode(
    path: Path,
    content: bytes,
    *,
    said: str | None = None,
    expected: str | None = None,
    whole: bool = True,
) -> Decoded:
    """The text of a file, or an `InputError`.

    The encoding is the one that was `said`; else that of a byte-order mark; else UTF-8, if it fits;
    else the `expected` one, or that of western Europe. Of a beginning that is not the `whole`, the
    last character may be cut.
    """

    def read(encoding: str) -> str:
        return codecs.getincrementaldecoder(encoding)().decode(content, whole)

    if said is not None:
        if not _is_encoding(said):
            raise InputError(f"--encoding {said}: there is no encoding of that name.")
        try:
            text = read(said)
        except UnicodeError as error:
            # Of text without the mark that it should begin with, no place is named.
            line = content[: getattr(error, "start", 0)].count(b"\n") + 1
            raise InputError(
                f"{path}, line {line}: it is not text in {said}, as --encoding says."
            ) from None
        return Decoded(text.removeprefix("\ufeff"), said)
    guess = _find_unicode(content)
    try:
        text = read(guess)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        if guess != "utf-8" or any(control in content for control in CONTROLS):
            raise InputError(
                f"{path}, line {line}: it is not a CSV file in UTF-8 or UTF-16. If it is text, "
                f"--encoding names its encoding."
            ) from None
    else:
        if "\0" in text:
            line = text[: text.index("\0")].count("\n") + 1
            raise InputError(
                f"{path}, line {line}: it is not a CSV file, for it holds a zero byte."
            )
        return Decoded(text, guess)
    # What may be UTF-16 was found to be none above.
    known = (expected,) if expected is not None and _has_ascii(expected) else ()
    for encoding in (*known, *WESTERN):
        try:
            text = read(encoding)
        except UnicodeDecodeError:
            continue
        return Decoded(
            text, encoding, (f"it is not UTF-8, and read as {encoding}; --encoding names another",)
        )
    raise AssertionError("every byte is a character of Latin-1")


def _is_encoding(name: str) -> bool:
    """Whether it is the name of an encoding of text, which rot13 and hex are not."""
    try:
        b"a".decode(name)
    except UnicodeDecodeError:
        return True
    except (LookupError, ValueError):
        return False
    return True


def _has_ascii(encoding: str) -> bool:
    """Whether it is an encoding in which plain letters are one byte each, as in ASCII."""
    return _is_encoding(encoding) and b"a".decode(encoding, errors="ignore") == "a"


def _find_unicode(content: bytes) -> str:
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return encoding
    # Every other byte of UTF-16 is zero, as long as most characters are those of English.
    start = content[:4096]
    first, second = (part.count(0) / max(len(part), 1) for part in (start[::2], start[1::2]))
    if second > 0.4 and first < 0.05:
        return "utf-16-le"
    return "utf-16-be" if first > 0.4 and second < 0.05 else "utf-8"


def find_separator(path: Path, text: str) -> str:
    """The separator under which the first lines have as many cells as the header, and the most."""
    lines = [line for line in text[:LONGEST_LOOK].splitlines(keepends=True) if line.strip()]
    if said := DECLARED.match(lines[0]):
        return said[1]
    lines = lines[:LOOKED_AT]
    by_name = "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else None

    def fits(separator: str) -> tuple[bool, bool, int]:
        csv.field_size_limit(LONGEST_CELL)
        widths = [len(row) for row in csv.reader(lines, delimiter=separator)]
        # The last line may be half a row.
        same = len({*widths[:1], *widths[1 : max(len(widths) - 1, 2)]}) == 1
        several = widths[0] > 1
        return several and separator == by_name, several and same, widths[0]

    # Of a header without any of them all are as good.
    return max(SEPARATORS, key=fits)


def rows_of(
    path: Path, lines: Iterable[str], separator: str
) -> tuple[list[str], Iterator[tuple[str, list[str]]]]:
    """The header of a CSV file, and its rows, each with its place; `InputError` for a bad one."""
    csv.field_size_limit(LONGEST_CELL)
    rows = _placed(path, csv.reader(_unmarked(lines), delimiter=separator, strict=True))
    first = next(rows, None)
    if first is not None and DECLARED.match(separator.join(first[1])):
        first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: the file is empty.")
    header = [name.strip() for name in first[1]]

    def checked() -> Iterator[tuple[str, list[str]]]:
        for line, row in rows:
            if len(row) != len(header):
                raise InputError(
                    f"{path}, line {line}: it has {len(row)} values, and the header "
                    f"{len(header)} columns, separated by {separator!r} (--separator names "
                    f"another)."
                )
            yield f"line {line}", row

    return header, checked()


def _unmarked(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the byte-order mark, which some encodings take for a character."""
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix("\ufeff")


def _placed(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold anything, each with the number of its first line."""
    line = 0
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{path}, line {line + 1}: it is not a CSV file ({error}).") from None
        except (EOFError, zlib.error) as error:
            raise InputError(f"{path}, line {line + 1}: it breaks off ({error}).") from None
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: some way after line {line} it is not text in {error.encoding}, as its "
                f"beginning is; --encoding names another."
            ) from None
        if row is None:
            return
        # A quoted cell may go over several lines: a row stands where it begins.
        if row:
            yield line + 1, row
        line = reader.line_num
