"""What the text of a cell says: a number, a date, one of a few words."""

import datetime
import math
from collections.abc import Sequence

from scalemix.tables.reading import Table

# A column with this share of numbers was meant to hold numbers, and other text in it is a mistake.
MOSTLY = 0.8
# What float32 holds with room to spare; networks compute in it.
LARGEST = 1e30

Cells = Sequence[str | None]


def number(text: str) -> float | None:
    """The number that the text says, if it says one."""
    # Python reads 1_000 as a number; in a table it is a label.
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def days(text: str) -> float | None:
    """The days since 1970 of a date or time as in 2024-01-31 or 2024-01-31 12:00, if it is one."""
    if "-" not in text:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / 86_400


def word(text: str) -> str:
    """The text as a category: programs do not agree on how to write true and false."""
    return text.lower() if text.lower() in ("true", "false") else text


def says_numbers(cells: Cells) -> bool:
    """Whether a column is meant to hold numbers."""
    present = [cell for cell in cells if cell is not None]
    found = sum(number(cell) is not None for cell in present)
    return found > 0 and found >= MOSTLY * len(present)


def says_dates(cells: Cells) -> bool:
    """Whether a column holds dates and nothing else."""
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(days(cell) is not None for cell in present)


def numbers(table: Table, name: str, *, dates: bool = False, advice: str = "") -> list[float]:
    """The numbers of a column, NaN where there is none, or an `InputError` that names the row."""
    read, kind = (days, "a date such as 2024-01-31") if dates else (number, "a number")
    found = []
    for row, cell in enumerate(table.column(name)):
        value = math.nan if cell is None else read(cell)
        if value is None:
            raise table.error(row, name, f"{short(cell)} is not {kind}.{advice}")
        if abs(value) > LARGEST:
            raise table.error(row, name, f"{short(cell)} is infinite, or too large a number.")
        found.append(value)
    return found


def short(text: str | None) -> str:
    """The text as it may stand in a message."""
    shown = repr(text)
    return shown if len(shown) <= 40 else shown[:36] + "...'"
