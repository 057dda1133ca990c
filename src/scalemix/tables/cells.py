"""What a cell says: a number, a date, one of a few words.

A CSV file has text alone; the cells of a Parquet file have types, and keep them.
"""

import datetime
import math
import re
from collections.abc import Sequence

from scalemix.tables.reading import Cell, Table

# A column with this share of numbers was meant to hold numbers, and other text in it is a mistake.
MOSTLY = 0.8
# Beyond this, the squares in the figures of a report would not fit into single precision.
LARGEST = 1e30

# A whole number that is written as another.
WHOLE = re.compile(r"(-?\d+)\.0+")

Cells = Sequence[Cell]


def number(cell: Cell) -> float | None:
    """The number that the cell holds or spells, if any; truth values are words."""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell)
    # Python reads 1_000 as a number; in a table it is a label.
    if not isinstance(cell, str) or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def days(cell: Cell) -> float | None:
    """The days from 1970 to a date, or to a time such as 2024-01-31 12:00, if the cell is one."""
    if isinstance(cell, datetime.datetime):
        moment = cell
    elif isinstance(cell, datetime.date):
        moment = datetime.datetime.combine(cell, datetime.time())
    elif isinstance(cell, str) and "-" in cell:
        try:
            moment = datetime.datetime.fromisoformat(cell)
        except ValueError:
            return None
    else:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / 86_400


def text(cell: Cell) -> str:
    """The cell as a CSV file would have it."""
    if cell is None:
        return ""
    return cell.isoformat() if isinstance(cell, datetime.date) else str(cell)


def word(cell: Cell) -> str:
    """The cell as a category.

    Programs do not agree on how to write true and false, and whole numbers turn into others as soon
    as their column has a gap.
    """
    said = text(cell)
    if said.lower() in ("true", "false"):
        return said.lower()
    whole = WHOLE.fullmatch(said)
    return said if whole is None else whole[1]


def says_numbers(cells: Cells) -> bool:
    """Whether a column is meant to hold numbers."""
    present = [cell for cell in cells if cell is not None]
    count = sum(number(cell) is not None for cell in present)
    return count > 0 and count >= MOSTLY * len(present)


def says_dates(cells: Cells) -> bool:
    """Whether a column holds dates and nothing else."""
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(days(cell) is not None for cell in present)


def numbers(table: Table, name: str, *, dates: bool = False, advice: str = "") -> list[float]:
    """The numbers of a column, NaN where there is none, or an `InputError` that names the row."""
    read, kind = (days, "a date such as 2024-01-31") if dates else (number, "a number")
    values = []
    for row, cell in enumerate(table.column(name)):
        value = math.nan if cell is None else read(cell)
        if value is None:
            raise table.error(row, name, f"{short(cell)} is not {kind}.{advice}")
        if abs(value) > LARGEST:
            raise table.error(row, name, f"{short(cell)} is infinite, or too large a number.")
        values.append(value)
    return values


def short(cell: Cell) -> str:
    """The cell as it may stand in a message."""
    shown = repr(cell if isinstance(cell, str) else text(cell))
    return shown if len(shown) <= 40 else shown[:36] + "...'"
