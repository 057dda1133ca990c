"""One number as people write it: 1,234.5 or 1.234,5 or 1 234,5."""

import re
from collections.abc import Iterable

from scalemix.tables.arrow_cells import ArrowCells, texts_of
from scalemix.tables.table import Cell

SPACES = " \u00a0\u2009\u202f"
# A column with this share of numbers was meant to hold numbers, and other text in it is a mistake.
MOSTLY = 0.8
POINT, COMMA = ".", ","
# What may stand between thousands, by the mark before the decimals.
BETWEEN = {POINT: f",'\u2019{SPACES}", COMMA: f".'\u2019{SPACES}"}


def _pattern(decimal: str) -> re.Pattern[str]:
    mark = re.escape(decimal)
    # Nobody writes 0,123 for 123.
    grouped = rf"[1-9]\d{{0,2}}(?P<between>[{BETWEEN[decimal]}])\d{{3}}(?:(?P=between)\d{{3}})*"
    return re.compile(rf"[+-]?(?:(?:{grouped}|\d+)(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?")


PATTERNS = {decimal: _pattern(decimal) for decimal in BETWEEN}


def ways_of(cell: str) -> tuple[bool, bool]:
    """Whether a cell is a number with a decimal point, and whether it is one with a comma."""
    return (
        PATTERNS[POINT].fullmatch(cell) is not None, PATTERNS[COMMA].fullmatch(cell) is not None
    )  # fmt: skip


def is_open(cell: str) -> bool:
    """Whether a cell is one number with a decimal point and another with a decimal comma."""
    return (POINT in cell or COMMA in cell) and all(ways_of(cell))


def size_of(cell: Cell) -> float:
    """The least size of a number, however its text is read."""
    if not isinstance(cell, str):
        return abs(float(cell))  # pyright: ignore[reportArgumentType]
    ways = zip((POINT, COMMA), ways_of(cell), strict=True)
    return min(abs(float(str(plain(cell, mark)))) for mark, is_way in ways if is_way)


def is_number(cell: Cell) -> bool:
    """Whether a cell is a number, or text that is one."""
    if isinstance(cell, str):
        return any(ways_of(cell))
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def has_numbers(cells: Iterable[Cell]) -> bool:
    """Whether a column is meant to hold numbers, however they are written."""
    texts = texts_of(cells)
    return sum(any(ways_of(cell)) for cell in texts) >= MOSTLY * len(texts)


def code_among(cells: Iterable[Cell]) -> str | None:
    """A cell such as 00501, if the column is text of as many digits in every cell: it may be codes.

    `None` if no cell begins with a zero, or some cell is anything else.
    """
    texts = texts_of(cells.distinct()[0] if isinstance(cells, ArrowCells) else cells)
    code = next((text for text in texts if len(text) > 1 and text.startswith("0")), None)
    if code is None or not all(len(text) == len(code) and text.isdecimal() for text in texts):
        return None
    return code


def is_python(cell: str) -> bool:
    """Whether a cell is a number as Python writes it."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def plain(cell: Cell, decimal: str) -> Cell:
    """The number as Python writes it, or the cell as it is."""
    if not isinstance(cell, str):
        return cell
    match = PATTERNS[decimal].fullmatch(cell)
    if match is None:
        return cell
    if match["between"] is not None:
        cell = cell.replace(match["between"], "")
    return cell.replace(decimal, POINT)
