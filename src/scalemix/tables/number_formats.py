"""Numbers as people write them: 1,234.5 and 1.234,5 and 1 234,5.

Whether a comma stands before decimals or between thousands shows wherever a number could not be
written the other way: 3,5 has a decimal comma, and 1,234.5 has none. 1,234 alone could be either;
then the table that a model was fitted to tells, or other columns, or the user. Every column has a
mark of its own, for programs write some columns and people others.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scalemix._text import listing, shortened
from scalemix.tables.arrow_cells import texts_of
from scalemix.tables.table import Cell, InputError
from scalemix.tables.units import PARTS_OF_ONE, WithUnit, find_unit, first_in_other_unit
from scalemix.tables.written_numbers import (
    COMMA,
    MOSTLY,
    PATTERNS,
    POINT,
    SPACES,
    has_numbers,
    is_number,
    is_python,
    plain,
    size_of,
    ways_of,
)

# A number without a % among others that have it is one of them, unless it may be a share of one.
LARGEST_SHARE = 1.0
WORDS = {POINT: "point", COMMA: "comma"}
MARKED = re.compile(f"[,'\u2019{SPACES}]")


class Settled(NamedTuple):
    """Columns whose numbers are written as Python does, and what they were written like before."""

    columns: dict[str, list[Cell]]
    """Those that changed."""
    decimal: str | None
    """The mark before decimals, where all columns that tell it agree."""
    decimals: dict[str, str]
    """The mark of each column in which it matters."""
    units: dict[str, str]
    """The sign of the unit of each column that has one."""
    remarks: tuple[str, ...]


class Known(NamedTuple):
    """What is known of the columns of numbers before their cells are looked at."""

    decimals: Mapping[str, str] = {}
    """The mark that a column had in the table of a model."""
    decimal: str | None = None
    """The mark of other columns there."""
    numbers: Collection[str] | None = None
    """The columns of numbers; others are text. By default the cells say which they are."""
    words: Collection[str] = ()
    """Columns that are left as they are, whatever their cells look like."""
    fixed: Mapping[str, str] = {}
    """The marks that columns had in earlier rows of the same table."""
    signed: Mapping[str, bool] = {}
    """Whether columns in percent had the sign in earlier rows of the same table, or were without it
    and may be shares of one."""
    units: Mapping[str, str] | None = None
    """The units of columns in the table of a model; `None` if there is no model yet."""

    def expects(self, name: str) -> str | None:
        """The mark that a column has if it is written as in the table of the model."""
        return self.decimals.get(name, self.decimal)

    def is_sure(self, name: str) -> bool:
        """Whether a column is known to hold numbers."""
        return name in (self.numbers or ())


class _Look(NamedTuple):
    """How many cells of a column of numbers are written in which way."""

    by_point: int
    """Cells that can only have a decimal point."""
    by_comma: int
    tells: bool
    """Whether one of them has decimals. 192.168.100.101 has none, and tells nothing of others."""
    open: str | None
    """A cell that is another number with a decimal comma than with a decimal point."""
    marked: bool
    """Whether any cell has a mark besides a decimal point."""

    @property
    def decimal(self) -> str | None:
        if not self.by_point and not self.by_comma:
            return None
        # Cells that contradict each other do not tell what a third one means.
        if self.by_point and self.by_comma and self.open is not None:
            return None
        return COMMA if self.by_comma > self.by_point else POINT


def settle(
    path: Path,
    columns: Mapping[str, Sequence[Cell]],
    *,
    places: Sequence[str],
    said: str | None = None,
    known: Known | None = None,
    separator: str | None = None,
) -> Settled:
    """The columns, with numbers written as Python writes them; or an `InputError`.

    Each column has a decimal mark of its own. Its cells tell it; where they do not, what is `known`
    of it or the other columns. The one that was `said` holds for all.
    """
    known = Known() if known is None else known
    considered = [
        name
        for name in columns
        if (known.numbers is None or name in known.numbers) and name not in known.words
    ]
    with_units, on_units = _settle_units(
        path, {name: columns[name] for name in considered}, places, known
    )
    bare = {name: column.cells for name, column in with_units.items()}
    columns = {**columns, **bare}
    looks = {
        name: look
        for name in considered
        if (look := _look(columns[name], sure=known.is_sure(name))) is not None
    }
    told = {name: look.decimal for name, look in looks.items() if look.tells and look.decimal}
    told |= known.fixed
    changed: dict[str, list[Cell]] = dict(bare)
    decimals: dict[str, str] = {}
    examples: dict[str, dict[str, str]] = {}
    for name, look in looks.items():
        decimal = said or _decide(name, look, told, known, separator)
        if decimal is None:
            raise InputError(_ask(path, name, look))
        if look.open is not None or look.decimal is not None:
            decimals[name] = decimal
        if said is None and (known.is_sure(name) or name in known.fixed):
            _refuse_other(path, name, columns[name], places, decimal)
        if decimal == POINT and not look.marked:
            continue
        cells = [plain(cell, decimal) for cell in columns[name]]
        pairs = zip(columns[name], cells, strict=True)
        example = next(((str(old), str(new)) for old, new in pairs if old != new), None)
        if example is not None:
            changed[name] = cells
            examples.setdefault(decimal, {})[name] = "{} is {}".format(*example)
    marks = set(told.values())
    common = said or (marks.pop() if len(marks) == 1 else None)
    units = {name: column.unit for name, column in with_units.items()}
    return Settled(changed, common, decimals, units, (*on_units, *_remarks(examples)))


def _settle_units(
    path: Path, columns: Mapping[str, Sequence[Cell]], places: Sequence[str], known: Known
) -> tuple[dict[str, WithUnit], list[str]]:
    """Columns of numbers without the signs of their units, and remarks; or an `InputError`."""
    with_units, remarks = {}, []
    for name, cells in columns.items():
        one, expected = find_unit(cells), (known.units or {}).get(name, "")
        if known.units is not None and (odd := first_in_other_unit(cells, expected)) is not None:
            row, unit = odd
            had = f"had {expected} there" if expected else "had numbers without a unit there"
            raise InputError(
                f"{path}, {places[row]}, column {name!r}: {cells[row]!r:.40} is in {unit}, and the "
                f"table that the model was fitted to {had}. Write the column in the same way."
            )
        if one is not None and (known.is_sure(name) or has_numbers(one.cells)):
            if (odd := first_in_other_unit(cells, one.unit)) is not None:
                row, unit = odd
                raise InputError(
                    f"{path}, {places[row]}, column {name!r}: {cells[row]!r:.40} is in {unit}, and "
                    f"other rows such as {one.example[0]!r} are not. Write them in one unit. "
                    f"--missing {cells[row]!r:.40} makes it a gap. `scalemix fit` takes all as "
                    f"words with --categorical {name}, and does without the column with --ignore "
                    f"{name}."
                )
            with_units[name] = one
            remarks += _on_bare(path, name, one, cells, places)
        if expected and one is None and any(cell is not None for cell in cells):
            remarks.append(_on_all_bare(name, expected, cells))
    if with_units and known.units is None:
        said = [f"{name!r} in {one.unit}" for name, one in with_units.items()]
        old, new = next(iter(with_units.values())).example
        remarks.append(f"numbers with a unit: {shortened(said)}, where {old} is {new}")
    return with_units, remarks


def _on_all_bare(name: str, unit: str, cells: Sequence[Cell]) -> str:
    """A remark on a column that has no unit, where that of the model's table had one."""
    sizes = [size for cell in cells if is_number(cell) and (size := size_of(cell))]
    said = f"{name!r}: numbers without a unit, taken to be in {unit}"
    if unit not in PARTS_OF_ONE or not sizes or max(sizes) > LARGEST_SHARE:
        return said
    return (
        f"{said}, though all are at most {LARGEST_SHARE:g}: shares of one would be other numbers, "
        f"and have to be written with the {unit}"
    )


def _on_bare(
    path: Path, name: str, one: WithUnit, cells: Sequence[Cell], places: Sequence[str]
) -> list[str]:
    """A remark on numbers without the unit that others of their column have.

    Where the unit is a part of one, such as %, those that may be shares may be a hundred times too
    small: `InputError`.
    """
    odd = None
    for place, was, now in zip(places, cells, one.cells, strict=True):
        # Nothing is nothing in every unit.
        if was != now or not is_number(was) or not (size := size_of(was)):
            continue
        if one.unit in PARTS_OF_ONE and size <= LARGEST_SHARE:
            raise InputError(
                f"{path}, {place}, column {name!r}: {was!r:.40} has no {one.unit}, and other rows "
                f"such as {one.example[0]!r} have it. It may be {was}{one.unit}, or a share of "
                f"one, which is another number: write it as the others are. --missing {was} makes "
                f"it a gap, and `scalemix fit` does without the column with --ignore {name}."
            )
        odd = was if odd is None else odd
    if odd is None:
        return []
    return [f"{name!r}: some numbers without a unit, such as {odd}, taken to be in {one.unit}"]


def look_like_numbers(cells: Iterable[Cell]) -> str | None:
    """One of the cells of a column that are text and look like numbers, such as 1.234,5 or 12%.

    `None` if most do not, or if all are written as Python writes numbers.
    """
    texts = texts_of(cells)
    one = find_unit(texts)
    if not texts or not has_numbers(texts if one is None else one.cells):
        return None
    if one is not None:
        return one.example[0]
    return next((text for text in texts if any(ways_of(text)) and not is_python(text)), None)


def _decide(
    name: str, look: _Look, told: Mapping[str, str], known: Known, separator: str | None
) -> str | None:
    """The decimal mark of a column; `None` if any would be a guess."""
    own = known.fixed.get(name, look.decimal)
    if own is not None:
        return own
    if look.open is None:
        return POINT
    if look.by_point and look.by_comma:
        # Any mark will do for a column of numbers, for some row will be refused.
        return known.expects(name) or POINT if known.is_sure(name) else None
    # Who separates cells by commas has decimal points.
    if separator == COMMA and POINT in look.open:
        return POINT
    marks = set(told.values())
    expected = known.expects(name)
    if expected is not None:
        others = {other: known.expects(other) for other in told}
        if all(others[other] in (None, mark) for other, mark in told.items()):
            return expected
        # The table is written in another way than that of the model: in which, is plain only if
        # all columns are written alike in both.
        alike = len({known.decimal or expected, *known.decimals.values()}) == 1
        return marks.pop() if alike and len(marks) == 1 else None
    if len(marks) == 1:
        (mark,) = marks
        return None if separator == mark else mark
    # Who separates cells by semicolons has a reason to.
    if separator == COMMA:
        return POINT
    return POINT if POINT in look.open and separator != ";" and not marks else None


def _refuse_other(
    path: Path, name: str, cells: Sequence[Cell], places: Sequence[str], decimal: str
) -> None:
    """Raise `InputError` if a number can only have the other mark."""
    other = COMMA if decimal == POINT else POINT
    for place, cell in zip(places, cells, strict=True):
        if not isinstance(cell, str) or PATTERNS[decimal].fullmatch(cell):
            continue
        if PATTERNS[other].fullmatch(cell):
            raise InputError(
                f"{path}, {place}, column {name!r}: {cell!r:.40} has a decimal {WORDS[other]}, and "
                f"other rows of the column a decimal {WORDS[decimal]}. Write them alike, or say "
                f"--decimal {other}"
            )


def _look(cells: Iterable[Cell], *, sure: bool) -> _Look | None:
    """How the numbers of a column are written; `None` if it holds few of them."""
    texts = texts_of(cells)
    together = "\n".join(texts)
    least = 0 if sure else MOSTLY * len(texts)
    if MARKED.search(together) is None:
        # Most columns are like this, so that it should not take long.
        return _look_at_points(texts, least) if POINT in together else None
    ways = [ways_of(cell) for cell in texts]
    if sum(map(any, ways)) < least:
        return None
    both = list(zip(texts, ways, strict=True))
    either = (cell for cell, way in both if all(way))
    return _Look(
        by_point=ways.count((True, False)),
        by_comma=ways.count((False, True)),
        tells=any((POINT if way[0] else COMMA) in cell for cell, way in both if sum(way) == 1),
        open=next((cell for cell in either if POINT in cell or COMMA in cell), None),
        marked=True,
    )


def _look_at_points(texts: list[str], least: float) -> _Look | None:
    """The same for a column in which there are points and no other marks."""
    if sum(map(_is_plain, texts)) < least:
        return None
    either = None
    for cell in texts:
        ways = ways_of(cell) if POINT in cell else (False, False)
        if ways == (True, False):
            return _Look(by_point=1, by_comma=0, tells=True, open=either, marked=False)
        # As in 1.234.567.
        if ways == (False, True):
            return _Look(by_point=0, by_comma=1, tells=False, open=either, marked=False)
        either = either or (cell if all(ways) else None)
    return _Look(by_point=0, by_comma=0, tells=False, open=either, marked=False)


def _is_plain(cell: str) -> bool:
    return is_python(cell) or PATTERNS[COMMA].fullmatch(cell) is not None


def _remarks(examples: dict[str, dict[str, str]]) -> Iterable[str]:
    for decimal, of in examples.items():
        how = "with a decimal comma" if decimal == COMMA else "with marks between thousands"
        other = POINT if decimal == COMMA else COMMA
        yield (
            f"numbers {how}: {listing(of)}, where {next(iter(of.values()))}; --decimal {other} "
            f"reads them the other way"
        )


def _ask(path: Path, name: str, look: _Look) -> str:
    ways = {mark: plain(look.open, mark) for mark in (POINT, COMMA)}
    return (
        f"{path}, column {name!r}: {look.open!r} may be {ways[POINT]} or {ways[COMMA]}. Say "
        f"--decimal . for the first, or --decimal , for the second. `scalemix fit` reads a column "
        f"as text with --categorical {name}, and does without it with --ignore {name}."
    )
