"""Columns as they are read: without marks of gaps, and with numbers as Python writes them.

Tables in memory, streams of text, and parts of large files all come by here, so that the same text
means the same wherever it stands.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scalemix.tables.arrow_cells import texts_of
from scalemix.tables.cells import number
from scalemix.tables.gaps import without_marked
from scalemix.tables.number_formats import LARGEST_SHARE, Known, settle
from scalemix.tables.table import Cell, InputError, Table, TextFormat
from scalemix.tables.units import PARTS_OF_ONE


class SettledColumns(NamedTuple):
    """Columns that are ready to use, what they were like before, and how their text was read."""

    columns: dict[str, Sequence[Cell]]
    as_written: dict[str, Sequence[Cell]]
    """Those whose numbers were written in another way, as they were."""
    unmarked: dict[str, Sequence[Cell]]
    """Those from which marks of gaps were taken out, as they were."""
    text: TextFormat
    remarks: tuple[str, ...]


def settle_columns(
    path: Path,
    given: Mapping[str, Sequence[Cell]],
    *,
    places: Sequence[str],
    said: TextFormat,
    known: Known | None,
    text: TextFormat,
) -> SettledColumns:
    """The columns, ready to use; or an `InputError`. Where nothing is `known`, text stays."""
    columns = dict(given)
    if said.missing:
        # Marks that are words have no place in a column of numbers.
        columns = {n: without_marked(c, said.missing, settled=False) for n, c in given.items()}
    ready, remarks = dict(columns), ()
    text = text._replace(missing=said.missing)
    changed: Collection[str] = ()
    if known is not None:
        settled = settle(
            path, columns, places=places, said=said.decimal, known=known, separator=text.separator
        )
        changed, remarks = settled.columns, settled.remarks
        ready |= settled.columns
        text = text._replace(
            decimal=settled.decimal, decimals=settled.decimals, units=settled.units
        )
    unmarked: dict[str, Sequence[Cell]] = {}
    if said.missing:
        ready = {name: without_marked(cells, said.missing) for name, cells in ready.items()}
        unmarked = {
            name: cells
            for name, cells in given.items()
            if cells.count(None) < ready[name].count(None)
        }
    as_written: dict[str, Sequence[Cell]] = {
        name: [
            None if now is None else was
            for was, now in zip(columns[name], ready[name], strict=True)
        ]
        for name in changed
    }
    return SettledColumns(ready, as_written, unmarked, text, remarks)


def known_after(known: Known, table: Table) -> Known:
    """What is known of later rows of the same table.

    `InputError` if some have a % and others, without it, may be shares of one.
    """
    signed = dict(known.signed)
    for name, unit in (known.units or {}).items():
        if unit not in PARTS_OF_ONE or name not in table.columns:
            continue
        has_sign = name in table.text.units
        # Gaps, zeros and numbers above one are the same with a sign or without.
        sizes = [] if has_sign else [abs(number(cell) or 0) for cell in table.column(name)]
        if not has_sign and not any(0 < size <= LARGEST_SHARE for size in sizes):
            continue
        if signed.setdefault(name, has_sign) != has_sign:
            raise InputError(
                f"{table.path}, column {name!r}: from {table.places[0]} on its numbers are written "
                f"{'with' if has_sign else 'without'} a {unit}, unlike those before. Write them "
                f"alike: 0.12% is not 0.12."
            )
    return known._replace(fixed={**table.text.decimals, **known.fixed}, signed=signed)


def refuse_formatted(table: Table, words: Collection[str], decimal: str | None) -> None:
    """Raise `InputError` if text of a part would be other numbers in memory.

    How a column is written shows in all of its rows, and only one part is there at a time.
    `words` are columns that are left as they are.
    """
    texts = {
        name: cells
        for name, cells in table.columns.items()
        if name not in words and any(map(str.isdigit, "".join(texts_of(cells))))
    }
    settled = settle(table.path, texts, places=table.places, said=decimal)
    for name, cells in settled.columns.items():
        old, new = next(
            (was, now) for was, now in zip(texts[name], cells, strict=True) if was != now
        )
        raise InputError(
            f"{table.path}, column {name!r}: the text {old!r:.40} means the number {new}. A table "
            f"that is read in parts needs such a column as numbers: convert it in the file, or fit "
            f"to a smaller Parquet file without --stream, which is read in memory. --categorical "
            f"{name} reads it as words, and --ignore {name} does without it."
        )
