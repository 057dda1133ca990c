"""Numbers with a sign of their unit: 12%, $1,200.50 and 3,50 €.

The sign goes, and the number stays as it is: 12% is 12. A column has one unit. What has another one
than the table that a model was fitted to is refused, for 12% is not 0.12 and $5 not €5.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from scalemix.tables.arrow_cells import texts_of
from scalemix.tables.table import Cell
from scalemix.tables.written_numbers import MOSTLY, SPACES

PARTS_OF_ONE = {"%": 100, "‰": 1000}
SIGNS = f"{''.join(PARTS_OF_ONE)}$€£¥₹₽₩₺₫₪₱฿₴₦"
SIGN = re.compile(f"[{SIGNS}]")
BEFORE = re.compile(rf"(?P<minus>[+-]?)[{SPACES}]*(?P<unit>[{SIGNS}])[{SPACES}]*(?P<number>.+)")
AFTER = re.compile(rf"(?P<minus>)(?P<number>.*?[\d.,])[{SPACES}]*(?P<unit>[{SIGNS}])")


# 12 km, and not a1b2.
WITH_WORD = re.compile(rf"[+-]?\d[\d.,]*[{SPACES}]*(?P<word>[^\W\d_]+[²³]?)")


class WithUnit(NamedTuple):
    """A column without the sign of its unit, and the sign."""

    cells: list[Cell]
    unit: str
    example: tuple[str, str]
    """A cell as it was, and as it is."""


def split(cell: str) -> tuple[str, str] | None:
    """The sign of a unit, and the rest of the cell; `None` if it has none."""
    match = BEFORE.fullmatch(cell) or AFTER.fullmatch(cell)
    return None if match is None else (match["unit"], match["minus"] + match["number"])


def find_unit(cells: Sequence[Cell]) -> WithUnit | None:
    """The column without the signs of its unit; `None` if it has none, or several.

    Where most cells have one unit, it is that of the column, and others are a mistake.
    """
    texts = texts_of(cells)
    # Most columns have no unit, and this test is quick.
    if SIGN.search("\n".join(texts)) is None:
        return None
    pairs = {cell: parts for cell in dict.fromkeys(texts) if (parts := split(cell)) is not None}
    counts = Counter(pairs[cell][0] for cell in texts if cell in pairs)
    unit = max(counts, key=lambda one: counts[one], default="")
    if not counts or (len(counts) > 1 and counts[unit] < MOSTLY * len(texts)):
        return None
    rest = {cell: number for cell, (one, number) in pairs.items() if one == unit}
    stripped = [rest.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]
    return WithUnit(stripped, unit, next(iter(rest.items())))


def first_in_other_unit(cells: Sequence[Cell], unit: str) -> tuple[int, str] | None:
    """The first cell with the sign of another unit, by its row, and the sign."""
    if SIGN.search("\n".join(texts_of(cells))) is None:
        return None
    by_row = ((row, split(cell)) for row, cell in enumerate(cells) if isinstance(cell, str))
    return next(((row, parts[0]) for row, parts in by_row if parts and parts[0] != unit), None)


def word_after_numbers(texts: Sequence[str]) -> str | None:
    """The word that stands after most numbers, such as km, which is no sign that is read."""
    matches = (WITH_WORD.fullmatch(text) for text in texts)
    counts = Counter(match["word"] for match in matches if match is not None)
    word, num = max(counts.items(), key=lambda item: item[1], default=("", 0))
    return word if num and num >= MOSTLY * len(texts) else None


def in_unit(name: str, unit: str) -> str:
    """A column in a message, with its unit if it has one."""
    return f"{name} in {unit}" if unit else name
