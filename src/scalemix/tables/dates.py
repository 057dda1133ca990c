"""Dates as people write them: 2024-08-17, 17.08.2024, 17/08/2024 and 08/17/2024.

With dots the day comes first. With slashes or dashes it is the day or the month, and a column shows
which one wherever a number is above twelve. 03/04/2024 alone could be either; then the user tells.
"""

import datetime
import re
from typing import Literal

from scalemix.tables.table import Cell

DateOrder = Literal["ymd", "dmy", "mdy"]
"""What comes first: the year, the day or the month."""
FIRST: dict[DateOrder, str] = {"ymd": "year", "dmy": "day", "mdy": "month"}
# The same day in each order, for messages.
EXAMPLES: dict[DateOrder, str] = {
    "ymd": "2024-01-31", "dmy": "31.01.2024 or 31/01/2024", "mdy": "01/31/2024",
}  # fmt: skip

# As in 9:05, 21:05:30.5 and 9:05 PM.
TIME = (
    r"(?:[ T]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?"
    r"\s*(?P<half>[AaPp][Mm])?)?"
)
PARTS = {"y": r"(?P<y>\d{4})", "m": r"(?P<m>\d{1,2})", "d": r"(?P<d>\d{1,2})"}


def _pattern(order: DateOrder, marks: str) -> re.Pattern[str]:
    first, second, third = (PARTS[part] for part in order)
    return re.compile(rf"{first}(?P<mark>[{marks}]){second}(?P=mark){third}{TIME}")


PATTERNS = {
    "ymd": _pattern("ymd", "./"),
    "dmy": _pattern("dmy", "./-"),
    "mdy": _pattern("mdy", "/-"),
}


def days(cell: Cell, order: DateOrder = "ymd") -> float | None:
    """The days from 1970 to a date, or to a time such as 2024-01-31 12:00, if the cell is one.

    Dates whose year comes first are read in any `order`.
    """
    moment = _moment(cell, order)
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp() / 86_400


def _moment(cell: Cell, order: DateOrder) -> datetime.datetime | None:
    if isinstance(cell, datetime.datetime):
        return cell
    if isinstance(cell, datetime.date):
        return datetime.datetime.combine(cell, datetime.time())
    # The quickest test comes first: most text is no date.
    if not isinstance(cell, str) or not cell[:1].isdecimal():
        return None
    if "-" in cell:
        try:
            return datetime.datetime.fromisoformat(cell)
        except ValueError:
            pass
    match = PATTERNS["ymd"].fullmatch(cell) or PATTERNS[order].fullmatch(cell)
    return None if match is None else _built(match)


def _built(match: re.Match[str]) -> datetime.datetime | None:
    hour = int(match["hour"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"].lower() == "pm")
    try:
        return datetime.datetime(
            int(match["y"]), int(match["m"]), int(match["d"]), hour, int(match["minute"] or 0),
            int(match["second"] or 0),
        )  # fmt: skip
    except ValueError:
        return None


def in_words(cell: str, order: DateOrder) -> str:
    """The day that a cell means in this order."""
    moment = _moment(cell, order)
    assert moment is not None
    return f"{moment.day} {moment:%B} {moment.year}"
