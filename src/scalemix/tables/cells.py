"""What a cell says: a number, a date, one of a few words.

A CSV file has text alone; the cells of a Parquet file have types, and keep them.
"""

import datetime
import functools
import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from scalemix.tables.arrow_cells import ArrowCells
from scalemix.tables.dates import EXAMPLES, DateOrder, days
from scalemix.tables.table import Cell, Remedy, Table
from scalemix.tables.written_numbers import MOSTLY

# Beyond this, the squares in the figures of a report would not fit into single precision.
LARGEST = 1e30

# A whole number that is written as another.
WHOLE = re.compile(r"(-?\d+)\.0+")
# One with all of its digits.
SPELLED = re.compile(r"([+-]?\d+)(?:\.0*)?")

Cells = Sequence[Cell]


def whole(cell: Cell) -> int | None:
    """The whole number that the cell holds or spells, to the last digit; `None` if it is none."""
    value = number(cell)
    if value is None or not math.isfinite(value) or value != int(value):
        return None
    if isinstance(cell, str):
        spelled = SPELLED.fullmatch(cell)
        return int(value) if spelled is None else int(spelled[1])
    return int(value) if isinstance(cell, float) else int(str(cell))


def exact(cell: Cell) -> float | None:
    """The number of a cell: a whole one to the last digit, so that different numbers differ."""
    as_whole = whole(cell)
    return number(cell) if as_whole is None else as_whole


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


def distinct_of(cells: Cells) -> tuple[Cells, np.ndarray]:
    """Cells that between them stand for all, and which of them each row has."""
    return cells.distinct() if isinstance(cells, ArrowCells) else (cells, np.arange(len(cells)))


def reader(dates: DateOrder | None) -> Callable[[Cell], float | None]:
    """What reads the cells of a column of numbers, or of dates in some order."""
    return number if dates is None else functools.partial(days, order=dates)


def numbers(
    table: Table, name: str, *, dates: DateOrder | None = None, advice: str | Remedy = ""
) -> np.ndarray:
    """The numbers of a column, NaN where there is none, or an `InputError` that names the row.

    Dates are days since 1970; `dates` is the order in which they are written.
    """
    read, cells = reader(dates), table.column(name)
    values = cells.values(dates=dates is not None) if isinstance(cells, ArrowCells) else None
    if values is None:
        distinct, codes = distinct_of(cells)
        # What is no number is infinite for now.
        said = [math.nan if cell is None else read(cell) for cell in distinct]
        values = np.array([math.inf if value is None else value for value in said], float)[codes]
    bad = np.abs(values) > LARGEST
    if bad.any():
        row = int(np.argmax(bad))
        raise table.error(row, name, why_no_number(cells[row], dates=dates), advice)
    return values


def why_no_number(cell: Cell, *, dates: DateOrder | None) -> str:
    """What is wrong with a cell of a column of numbers or dates."""
    if reader(dates)(cell) is not None:
        return f"{short(cell)} is infinite, or too large a number."
    kind = "a number" if dates is None else f"a date such as {EXAMPLES[dates]}"
    return f"{short(cell)} is not {kind}."


def short(cell: Cell) -> str:
    """The cell as it may stand in a message."""
    shown = repr(cell if isinstance(cell, str) else text(cell))
    return shown if len(shown) <= 40 else shown[:36] + "...'"
