"""The columns of a table for a report: what was made of each, and values to show its effect at."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.analysis.numbers import as_cell
from scalemix.tables import InputColumns, Table
from scalemix.tables.cells import numbers, word
from scalemix.tables.dates import FIRST
from scalemix.tables.inputs import Categorical, Numeric
from scalemix.tables.units import in_unit

if TYPE_CHECKING:
    from scalemix.analysis.report import Column

MOST_VALUES, MOST_WORDS = 20, 8
MISSING = "(missing)"


def describe_columns(columns: InputColumns, table: Table | None) -> "list[Column]":
    """The columns that a model predicts from; with a table, values that they have there."""
    from scalemix.analysis.report import Column

    described = []
    for column in columns.inputs:
        places = tuple(columns.groups[column.name])
        if isinstance(column, Numeric):
            told, shown = _treat_numbers(column, table), _number_values(column, table)
        else:
            told, shown = _treat_words(column, table), _word_values(column, table)
        values, blocks = shown or (None, None)
        described.append(Column(column.name, places, told, values, blocks))
    return described


def plain_places(columns: InputColumns) -> tuple[int, ...]:
    """The inputs that are no bins and no repeated numbers."""
    return tuple(
        place
        for column in columns.inputs
        for i, place in enumerate(columns.groups[column.name])
        if not (isinstance(column, Numeric) and 0 < i < len(column.features) - column.gaps)
    )


def _treat_numbers(column: Numeric, table: Table | None) -> str:
    what = in_unit("numbers", column.unit)
    if column.dates:
        first = "" if column.date_order == "ymd" else f" with the {FIRST[column.date_order]} first"
        what = f"dates{first}, as days since 1970"
    each = [
        f"one more for each {name} ({num:,})"
        for num, name in (
            (column.more.num_bins, "bin"),
            (len(column.repeated), "number that many rows share"),
        )
        if num
    ]
    if each:
        what += f", {' and '.join(each)}"
        if column.optional_bins:
            what += ", which networks read if held-out rows said so"
    median = str(np.datetime64(round(column.fill), "D")) if column.dates else as_cell(column.fill)
    told = ", and one more input says that the cell was empty" if column.gaps else ""
    return f"{what}. {_gaps(column, table)} as the median, {median}{told}."


def _treat_words(column: Categorical, table: Table | None) -> str:
    num = len(column.categories)
    what = f"categories: an input for each of {num}"
    if column.looked_up:
        what = f"categories: weights for each of {num:,}, which are looked up"
    if column.unseen:
        what += ", and one for all others"
    as_what = " as one that is not known" if column.looked_up else " as none of the categories"
    if column.gaps:
        as_what = " as a category of their own"
    return f"{what}. {_gaps(column, table)}{as_what}."


def _gaps(column: Numeric | Categorical, table: Table | None) -> str:
    """What is done with empty cells; training may have had none."""
    if not column.gaps:
        return "Training had no empty cells; new ones count"
    num = 0 if table is None else table.column(column.name).count(None)
    where = f" ({num:,} in {table.num_rows:,} rows)" if table and num else ""
    return f"Empty cells{where} count"


def _number_values(column: Numeric, table: Table | None) -> tuple[np.ndarray, np.ndarray] | None:
    if table is None:
        return None
    from scalemix.analysis.effects import grid_of

    grid = grid_of(np.array(numbers(table, column.name, dates=column.written)), MOST_VALUES)
    if not len(grid):
        return None
    if column.dates:
        days = np.unique(grid.round()).astype("datetime64[D]")
        return days, _inputs(column, _one_column(column.name, [str(day) for day in days]))
    return grid, _inputs(column, _one_column(column.name, grid.tolist()))


def _word_values(column: Categorical, table: Table | None) -> tuple[np.ndarray, np.ndarray] | None:
    if table is None:
        return None
    counts = Counter(None if cell is None else word(cell) for cell in table.written(column.name))
    known = {word(category) for category in column.categories}
    frequent = [w for w, _ in counts.most_common() if w is None or w in known][:MOST_WORDS]
    cells = sorted((w for w in frequent if w is not None), key=str)
    cells = [*cells, None] if column.gaps and None in frequent else cells
    if not cells:
        return None
    values = np.array([MISSING if cell is None else cell for cell in cells], object)
    return values, _inputs(column, _one_column(column.name, cells))


def _inputs(column: Numeric | Categorical, table: Table) -> np.ndarray:
    return column.expand(column.read(table))


def _one_column(name: str, cells: list[Any]) -> Table:
    return Table(Path("values"), {name: cells}, [f"value {i}" for i in range(len(cells))], "")
