"""Numbers with a sign of their unit: 12%, $1,200.50 and 3,50 €.

The sign goes, and the number stays as it is: 12% is 12. A column has one unit. What has another one
than the table that a model was fitted to is refused, for 12% is not 0.12 and $5 not €5.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from scalemix.tables.arrow_cells import texts_of
from scalemix.tables.table import Cell

PARTS_OF_ONE = {"%": 100, "‰": 1000}
SIGNS = f"{''.join(PARTS_OF_ONE)}$€£¥₹₽₩₺₫₪₱฿₴₦"
SPACES = " \u00a0\u2009\u202f"
SIGN = re.compile(f"[{SIGNS}]")
BEFORE = re.compile(rf"(?P<minus>[+-]?)[{SPACES}]*(?P<unit>[{SIGNS}])[{SPACES}]*(?P<number>.+)")
AFTER = re.compile(rf"(?P<minus>)(?P<number>.*?[\d.,])[{SPACES}]*(?P<unit>[{SIGNS}])")


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
    """The column without the signs of its unit; `None` if it has none, or several."""
    texts = texts_of(cells)
    # Most columns have no unit, and this test is quick.
    if SIGN.search("\n".join(texts)) is None:
        return None
    pairs = {cell: parts for cell in dict.fromkeys(texts) if (parts := split(cell)) is not None}
    units = {unit for unit, _ in pairs.values()}
    if len(units) != 1:
        return None
    old = next(iter(pairs))
    rest = {cell: number for cell, (_, number) in pairs.items()}
    stripped = [rest.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]
    return WithUnit(stripped, units.pop(), (old, rest[old]))


def in_unit(name: str, unit: str) -> str:
    """A column in a message, with its unit if it has one."""
    return f"{name} in {unit}" if unit else name
