"""Values of typed files and data frames as the cells of tables."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np

from scalemix.data.values import is_missing
from scalemix.tables.table import Cell

# What people and programs write where there is no value. Spelling counts, case does not.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "?", "#n/a", "<na>"})


def clean(cell: str) -> str | None:
    """The text of a cell, if it has any."""
    cell = cell.strip()
    return None if cell.lower() in MISSING else cell


def plain(value: Any) -> Cell:
    """A typed value of a file or a data frame as a cell; a `TypeError` if it is no plain value.

    Numbers of all kinds stay numbers: as text, they would be read in the way of some table's text.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, str | int | float | datetime.date):
        return value
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    # Whatever else calls itself a number, such as a fraction.
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{value!r:.60} is no number, text or date.") from None


def as_cell(value: Any) -> Cell:
    """A value as a cell: plain types stay, and others become text."""
    try:
        cell = plain(value)
    except TypeError:
        cell = str(value)
    return clean(cell) if isinstance(cell, str) else cell
