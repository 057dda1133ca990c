"""One number by itself, as a user says it beside a table."""

from scalemix.tables.units import split
from scalemix.tables.written_numbers import COMMA, PATTERNS, POINT, is_open, plain


def read_number(said: str, decimal: str | None, unit: str) -> float | None:
    """A number by itself, as it would stand in a column with this decimal mark and unit.

    `None` if it has another unit, is no number, or may be several: where no comma stands before
    decimals, 3,5 may be 3 and 5, and where no mark is known, 1,200 and 1.200 may be either.
    """
    bare = _without_unit(said, unit)
    if bare is None:
        return None
    said = bare
    if is_open(said):
        marks = [] if decimal is None else [decimal]
    else:
        marks = [COMMA, POINT] if decimal == COMMA else [POINT]
    of = next((mark for mark in marks if PATTERNS[mark].fullmatch(said)), None)
    return None if of is None else float(str(plain(said, of)))


def both_ways(said: str, unit: str) -> tuple[float, float] | None:
    """The smaller and the larger number that one may be by itself, if it may be two."""
    said = _without_unit(said, unit) or ""
    if not is_open(said):
        return None
    ways = [float(str(plain(said, mark))) for mark in (POINT, COMMA)]
    return min(ways, key=abs), max(ways, key=abs)


def _without_unit(said: str, unit: str) -> str | None:
    """A number by itself without the sign of its unit; `None` if it has another."""
    said = said.strip()
    parts = split(said)
    if parts is None:
        return said
    sign, said = parts
    return said if sign == unit else None
