"""What columns hold, learned from rows that come a few at a time, or all at once."""

import shlex
from collections import Counter
from typing import Literal

import numpy as np

from scalemix.data.scaling import Moments
from scalemix.tables.arrow_cells import ArrowCells
from scalemix.tables.cells import LARGEST, Cells, distinct_of, reader, text, why_no_number, word
from scalemix.tables.dates import FIRST, DateOrder, days
from scalemix.tables.table import Cell, InputError, Remedy, Table
from scalemix.tables.written_numbers import MOSTLY

# So many different words of a column are counted. Beyond, rare ones are given up for frequent ones.
MOST_WORDS = 2**17
# A longer cell is a text, and no mark of a gap.
LONGEST_MARK = 36

Kind = Literal["words", "dates", "numbers"]


class NumberFacts:
    """What is known of a column, taken as numbers or as dates that are written in some order."""

    def __init__(self, dates: DateOrder | None):
        self.dates: DateOrder | None = dates
        self.num = 0
        """How many cells are one, of all rows."""
        self.low: float = np.inf
        self.high: float = -np.inf
        """The ends of those of training rows."""
        self.moments: Moments = Moments()
        self.refusal: InputError | None = None
        """What is wrong with the first cell that is none, if there is one."""

    def add(self, values: np.ndarray, train: np.ndarray) -> None:
        """More numbers, and how many training rows each of them has."""
        fine = np.abs(values) <= LARGEST
        values, train = values[fine & (train > 0)], train[fine & (train > 0)]
        if len(values):
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))
            self.moments.add(values[:, None], train)


class ColumnFacts:
    """What is known of one column so far.

    Whether it holds numbers, dates or words is a matter of all rows; everything else is one of
    those to train on, each of which may count several times, or by a fraction.
    """

    def __init__(self, name: str, *, as_words: bool):
        self.name: str = name
        self.as_words: bool = as_words
        self.num_present: int = 0
        self.num_missing: float = 0.0
        """How many training rows have no value."""
        self.num_trained: float = 0.0
        """How many have one."""
        self.words: dict[str, float] = {}
        """How many training rows have each word, where the type does not say that it is numbers."""
        self.some_given_up: bool = False
        """Whether there were too many words to count."""
        self.as_numbers: NumberFacts = NumberFacts(None)
        self.as_dates: dict[DateOrder, NumberFacts] = {order: NumberFacts(order) for order in FIRST}
        self.open_date: str | None = None
        """A cell that is a date with the day first and with the month first: mostly another one,
        but 05/05/2024 is the same, and tells as little."""

    def add(self, table: Table, train: np.ndarray | None = None) -> None:
        """More rows, and how often each counts in training; by default once."""
        cells = table.column(self.name)
        train = np.ones(len(cells)) if train is None else train.astype(float)
        if isinstance(cells, ArrowCells) and not self.as_words:
            for facts in (self.as_numbers, self.as_dates["ymd"]):
                values = cells.values(dates=facts.dates is not None)
                if values is not None:
                    self._add_values(table, cells, facts, values, train)
                    return
        self._add_cells(table, train)

    def _add_values(
        self, table: Table, cells: ArrowCells, facts: NumberFacts, values: np.ndarray,
        train: np.ndarray,
    ) -> None:  # fmt: skip
        """Cells whose type says that they are numbers, or dates."""
        missing = np.isnan(values)
        self._count(~missing, np.ones(len(values)), train)
        facts.num += int((~missing).sum())
        facts.add(values, train)
        far = np.abs(values) > LARGEST
        if far.any() and facts.refusal is None:
            row = int(np.argmax(far))
            facts.refusal = _refusal(table, row, self.name, cells[row], dates=facts.dates)

    def _add_cells(self, table: Table, train: np.ndarray) -> None:
        cells, codes = distinct_of(table.column(self.name))
        num = len(cells)
        counts = np.bincount(codes, minlength=num)
        trained = np.bincount(codes, weights=train, minlength=num)
        present = np.array([cell is not None for cell in cells], bool)
        self._count(present, counts, trained)
        self._add_words(table, train)
        if self.as_words:
            return
        said = self._add_read(self.as_numbers, table, cells, codes, counts, trained)
        others = [
            None if value is not None else cell for cell, value in zip(cells, said, strict=True)
        ]
        # What is a number is no date, and most columns have nothing else.
        if any(cell is not None for cell in others):
            if self.open_date is None or not differs(self.open_date):
                texts = [c for c in (self.open_date, *others) if isinstance(c, str) and _is_open(c)]
                self.open_date = next(filter(differs, texts), next(iter(texts), None))
            for facts in self.as_dates.values():
                self._add_read(facts, table, others, codes, counts, trained)

    def _add_read(
        self, facts: NumberFacts, table: Table, cells: Cells, codes: np.ndarray,
        counts: np.ndarray, trained: np.ndarray,
    ) -> list[float | None]:  # fmt: skip
        """The distinct cells, read as numbers or as dates; how often each occurs is counted."""
        read = reader(facts.dates)
        said = [None if cell is None else read(cell) for cell in cells]
        values = np.array([np.nan if value is None else value for value in said], float)
        is_one = np.array([value is not None for value in said], bool)
        facts.num += int(counts[is_one].sum())
        facts.add(values, trained)
        present = np.array([cell is not None for cell in cells], bool)
        bad = present & (counts > 0) & (~is_one | (np.abs(values) > LARGEST))
        if bad.any() and facts.refusal is None:
            row = int(np.argmax(bad[codes]))
            cell = table.column(self.name)[row]
            facts.refusal = _refusal(table, row, self.name, cell, dates=facts.dates)
        return said

    def _add_words(self, table: Table, train: np.ndarray) -> None:
        """The cells as the file has them: a word is no number that is written in another way."""
        cells, codes = distinct_of(table.written(self.name))
        trained = np.bincount(codes, weights=train, minlength=len(cells))
        for cell, weight in zip(cells, trained.tolist(), strict=True):
            if cell is not None and weight:
                said = word(cell)
                self.words[said] = self.words.get(said, 0.0) + weight
        if len(self.words) > MOST_WORDS:
            self.some_given_up = True
            self.words = dict(Counter(self.words).most_common(MOST_WORDS // 2))

    def _count(self, present: np.ndarray, counts: np.ndarray, trained: np.ndarray) -> None:
        self.num_present += int(counts[present].sum())
        self.num_trained += float(trained[present].sum())
        self.num_missing += float(trained[~present].sum())

    @property
    def kind(self) -> Kind:
        """What the column is meant to hold."""
        num = self.num_present
        if self.as_words or not num:
            return "words"
        # As with numbers, other text among them is a mistake, and will be named.
        if self._most_dates() >= max(MOSTLY * num, 1):
            return "dates"
        return "numbers" if self.as_numbers.num >= max(MOSTLY * num, 1) else "words"

    def _most_dates(self) -> int:
        """How many cells are dates in the order in which most are."""
        return max(facts.num for facts in self.as_dates.values())

    def values(self, dates: DateOrder | None) -> NumberFacts:
        """What is known of the numbers, or of the dates that are written in this order."""
        return self.as_numbers if dates is None else self.as_dates[dates]

    def date_order(self, said: DateOrder | None) -> DateOrder | None:
        """The order of dates; where the cells do not tell, the one that was `said`, if any was."""
        most = self._most_dates()
        fits: list[DateOrder] = [order for order, of in self.as_dates.items() if of.num == most]
        # All of them fit dates whose year comes first.
        return fits[0] if "ymd" in fits or len(fits) == 1 else said


def _is_open(cell: str) -> bool:
    """Whether a cell is a date with the day first and with the month first, not of ISO."""
    return days(cell) is None and None not in (days(cell, "dmy"), days(cell, "mdy"))


def differs(cell: str) -> bool:
    """Whether such a cell is not the same date both times."""
    return days(cell, "dmy") != days(cell, "mdy")


def _refusal(
    table: Table, row: int, name: str, cell: Cell, *, dates: DateOrder | None
) -> InputError:
    return table.error(row, name, why_no_number(cell, dates=dates), _ways_out(name, cell))


def _ways_out(name: str, cell: Cell) -> Remedy:
    """What to do about a cell that is none of the numbers or dates of its column."""
    mark = shlex.quote(text(cell)) if len(text(cell)) <= LONGEST_MARK else "TEXT"
    return Remedy(
        f" If it stands for a gap, say --missing {mark}; for a column of labels say --categorical "
        f"{name}; --ignore {name} does without the column.",
        " Make None of it where it stands for a gap, or give a column of labels a categorical "
        "type.",
    )
