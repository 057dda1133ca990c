"""Numbers as people write them."""

import math

import numpy as np

# From here on even people write powers of ten.
LARGEST = 1e15


def number(value: float, digits: int = 3, *, separated_from: float = 1e3) -> str:
    """A number with so many digits that count; all of a large one, with commas by thousands.

    Years, and other values that tables have without commas, are `separated_from` 10,000 on.
    """
    rounded = float(f"{value:.{digits}g}")
    small = abs(rounded) < min(10**digits, separated_from)
    if not math.isfinite(rounded) or small or abs(rounded) >= LARGEST:
        return f"{value:.{digits}g}"
    comma = "," if abs(rounded) >= separated_from else ""
    return f"{value:{comma}.0f}"


def as_cell(value: object) -> str:
    """What a table's column has in a cell: a number, a date, a word."""
    if np.asarray(value).dtype.kind not in "iuf":
        return str(value)
    return number(float(value), 4, separated_from=1e4)  # pyright: ignore[reportArgumentType]


def num_rows(num: int) -> str:
    """How many rows there are, in words."""
    return "1 row" if num == 1 else f"{num:,} rows"
