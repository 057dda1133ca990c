"""Marks by which a user says that a cell has no value, besides those that everyone uses."""

import datetime
from collections.abc import Collection, Sequence

import numpy as np

from scalemix.tables.arrow_cells import ArrowCells
from scalemix.tables.cells import number, text
from scalemix.tables.dates import days
from scalemix.tables.table import Cell
from scalemix.tables.written_numbers import is_open


class Marks:
    """What a user calls a gap: words, numbers and dates. Case does not count; -999.0 is -999."""

    def __init__(self, said: Collection[str]):
        self._words = {mark.strip().lower() for mark in said}
        self.numbers: list[float] = [v for mark in said if (v := number(mark)) is not None]
        self._days = {day for mark in said if (day := days(mark.strip())) is not None}

    def has(self, cell: Cell, *, settled: bool = True) -> bool:
        """Whether a cell is a mark.

        Before the decimal marks of text are `settled`, 1.000 may be another number than 1.
        """
        if cell is None or text(cell).strip().lower() in self._words:
            return cell is not None
        if isinstance(cell, datetime.date):
            return days(cell) in self._days
        if not settled and isinstance(cell, str) and is_open(cell):
            return False
        return number(cell) in self.numbers


def without_marked(
    cells: Sequence[Cell], marks: Collection[str], *, settled: bool = True
) -> Sequence[Cell]:
    """The cells, with `None` for those that are a mark; see `Marks.has`."""
    of = Marks(marks)
    if not isinstance(cells, ArrowCells):
        return [None if of.has(cell, settled=settled) else cell for cell in cells]
    values = cells.values(dates=False)
    if values is not None:
        return cells.without(np.isin(values, of.numbers))
    distinct, codes = cells.distinct()
    gone = np.array([of.has(cell, settled=settled) for cell in distinct], bool)
    return cells.without(gone[codes])
