"""The column to predict: numbers, or classes."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from scalemix._text import listing, shortened
from scalemix.fitting.settings import Task
from scalemix.tables.cells import Cells, exact, number, numbers, says_numbers, short, whole, word
from scalemix.tables.dates import days
from scalemix.tables.table import Cell, InputError, Remedy, Table
from scalemix.tables.units import PARTS_OF_ONE, in_unit
from scalemix.tables.written_numbers import MOSTLY

# Consecutive whole numbers from 0 or 1, up to so many, are taken for labels of classes.
MOST_LABELS = 10
MOST_CLASSES = 100
# The kinds of numbers that a target may have: what each is, and whether a number is one of them.
NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "real": ("a number", lambda value: True),
    "positive": ("a number above zero", lambda value: value > 0),
    "count": ("a whole number from zero", lambda value: value >= 0 and value == int(value)),
    "share": ("a number strictly between zero and one", lambda value: 0 < value < 1),
    "time": ("a time, below zero if it was not observed to the end", lambda value: value != 0),
}


# How tables say whether a time was observed to the end.
ENDED = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclasses.dataclass(frozen=True)
class Target:
    """The names of the targets, mostly one, and its classes if it has any."""

    names: tuple[str, ...]
    classes: tuple[str, ...] | None
    reason: str
    """Why it was taken for what it is."""
    kind: str = "real"
    """Which numbers it has: a name in `NUMBERS`."""
    drop_missing: bool = False
    """Whether rows without a target are left out."""
    observed: tuple[str, ...] = ()
    """For each time, the column that says whether it was observed to the end."""
    units: tuple[str, ...] = ()
    """For each target its unit, such as $, where some had one."""

    @property
    def name(self) -> str:
        """The name, or the names."""
        return shortened(self.names)

    @property
    def several(self) -> bool:
        """Whether each row has more than one target."""
        return len(self.names) > 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that say what happened, and which nothing may be predicted from."""
        return (*self.names, *self.observed)

    @property
    def task(self) -> Task:
        """Whether it is a number or a class."""
        return "regression" if self.classes is None else "classification"

    def describe(self) -> str:
        """The target in words."""
        of = "" if self.classes is None else f" of {len(self.classes)} classes"
        kind = f", each {NUMBERS[self.kind][0]}"
        if self.kind == "real":
            kind = ""
        elif self.observed:
            kind = f", each a time; {listing(self.observed)} says if it was observed to the end"
        units = self.units or ("",) * len(self.names)
        named = shortened([in_unit(*one) for one in zip(self.names, units, strict=True)])
        return f"{named}, {self.task}{of} ({self.reason}){kind}"

    def parts_of_one(self, name: str) -> int:
        """What the numbers of a target are divided by: shares may be written as percentages."""
        unit = dict(zip(self.names, self.units, strict=False)).get(name, "")
        return PARTS_OF_ONE.get(unit, 1) if self.kind == "share" else 1

    def on_parts(self) -> list[str]:
        """What to say of shares that the table has as percentages."""
        names = [name for name in self.names if self.parts_of_one(name) > 1]
        said = f"{listing(names)}: 50% is read as 0.5, and predictions are shares of one, too"
        return [said] if names else []

    def rows_of(self, table: Table) -> Table:
        """The rows of a table that count: all, or only those that have a target."""
        return without_missing(table, self.names)[0] if self.drop_missing else table

    def encode(self, table: Table) -> np.ndarray:
        """The numbers, or the classes counted from 0; or an `InputError` that names the row.

        Of several targets, each is a column.
        """
        refuse_missing(table, self.names)
        if self.classes is not None:
            return self._labels(table, self.classes)
        columns = [self._numbers(table, name) for name in self.names]
        for i, name in enumerate(self.observed):
            columns[i] = np.where(_ended(table, name), columns[i], -columns[i])
        return np.stack(columns, axis=1) if self.several else columns[0]

    def _numbers(self, table: Table, name: str) -> np.ndarray:
        values = numbers(table, name) / self.parts_of_one(name)
        what, is_one = NUMBERS["positive" if self.observed else self.kind]
        for row, value in enumerate(values):
            if not is_one(value):
                cell = short(table.written(name)[row])
                told = f"{cell} is not {what}.{how_to_move(self.kind, value, len(values))}"
                raise table.error(row, name, told)
        return np.array(values)

    def _labels(self, table: Table, classes: tuple[str, ...]) -> np.ndarray:
        places = {label: i for i, label in enumerate(classes)}
        labels = []
        for row, cell in enumerate(table.written(self.name)):
            label = label_of(cell)
            if label not in places:
                raise table.error(
                    row,
                    self.name,
                    f"{short(cell)} is none of the classes that the model knows: "
                    f"{listing(classes)}.",
                )
            labels.append(places[label])
        return np.array(labels, np.int32)

    def to_json(self) -> dict[str, Any]:
        """The same as a dict, for a model's file."""
        classes = None if self.classes is None else list(self.classes)
        said = {"name": self.name, "classes": classes, "reason": self.reason, "kind": self.kind}
        more = {"names": list(self.names)} if self.several else {}
        more |= {"observed": list(self.observed)} if self.observed else {}
        more |= {"units": list(self.units)} if self.units else {}
        return said | {"drop_missing": self.drop_missing} | more

    @staticmethod
    def from_json(said: Any) -> "Target":
        """The target that `to_json` described, or a `TypeError`."""
        # Files from before there were several targets, and other kinds, say nothing of them.
        names, observed = said.get("names", [said["name"]]), said.get("observed", [])
        classes, units = said["classes"], said.get("units", [])
        lists = all(isinstance(each, list) for each in (names, observed, units, classes or []))
        if not lists or not names or {len(observed), len(units)} - {0, len(names)}:
            raise TypeError("the target is no column")
        texts = [said["reason"], *names, *observed, *units, *(classes or ())]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("the target is no column")
        kind, drop = said.get("kind", "real"), said.get("drop_missing", False)
        if kind not in NUMBERS or not isinstance(drop, bool):
            raise TypeError("the target is of no kind that there is")
        of = None if classes is None else tuple(classes)
        more = tuple(observed), tuple(units)
        return Target(tuple(names), of, said["reason"], kind, drop, *more)


def learn_target(table: Table, names: Sequence[str], task: Task | None) -> Target:
    """What kind of target a column is, or several are; an `InputError` if it cannot be one."""
    refuse_missing(table, names)
    if len(names) > 1:
        if task == "classification":
            raise InputError(
                f"{table.path}: only numbers can be several targets at once. Fit one model for "
                f"each of {listing(names)}."
            )
        for name in names:
            if not says_numbers(table.column(name)):
                raise InputError(
                    f"{table.path}, column {name!r}: only numbers can be several targets at once, "
                    f"and this is text. Fit a model of its own to it."
                )
            _check_numbers(table, name)
        return Target(tuple(names), None, f"{len(names)} targets", units=_units(table, names))
    (name,) = names
    reason = "as asked"
    if task is None:
        task, reason = _find_task(table.column(name))
    if task == "regression":
        _check_numbers(table, name)
        return Target((name,), None, reason, units=_units(table, names))
    return Target((name,), _learn_classes(table, name), reason)


def _units(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    units = tuple(table.text.units.get(name, "") for name in names)
    return units if any(units) else ()


def _check_numbers(table: Table, name: str) -> None:
    """Raise `InputError` unless the target is numbers, of which two differ."""
    advice: str | Remedy = ""
    if not says_numbers(table.column(name)):
        advice = Remedy(
            " A target of words is a classification: leave out --task, --target-kind and "
            "--observed.",
            " A target of words is a classification.",
        )
    values = numbers(table, name, advice=advice)
    if len(values) == 1:
        raise InputError(f"{table.path}: it has one row, and nothing can be learned from one.")
    if len(set(values)) == 1:
        raise InputError(
            f"{table.path}, column {name!r}: the target is {values[0]:g} in every row: there is "
            f"nothing to learn."
        )


def _learn_classes(table: Table, name: str) -> tuple[str, ...]:
    cells = table.written(name)
    labels = sorted({label_of(cell) for cell in cells}, key=_order)
    if len(labels) == 1:
        raise InputError(
            f"{table.path}, column {name!r}: every row is of one class, {short(labels[0])}: there "
            f"is nothing to tell apart."
        )
    if len(labels) > min(MOST_CLASSES, max(2, 0.5 * len(cells))):
        raise InputError(
            f"{table.path}, column {name!r}: {len(labels)} different values, such as "
            f"{short(labels[0])}, in {len(cells)} rows are too many for classes.",
            _advice(labels),
        )
    return tuple(labels)


def _advice(labels: Sequence[str]) -> str | Remedy:
    """What to do about labels that may have been meant as numbers."""
    if all(number(label) is not None for label in labels):
        return Remedy(
            " They are numbers: --task regression predicts them as such.",
            " They are numbers: task='regression' predicts them as such.",
        )
    if all(days(label) is not None for label in labels):
        return " They are dates: a target is a number, such as the days since one of them."
    if sum(any(sign.isdigit() for sign in label) for label in labels) > MOSTLY * len(labels):
        return " If they are numbers, write them without units and other signs."
    return ""


def _find_task(cells: Cells) -> tuple[Task, str]:
    if not says_numbers(cells):
        return "classification", "it is text"
    values = {exact(cell) for cell in cells}
    few = len({label_of(cell) for cell in cells}) <= min(MOST_LABELS, len(cells) // 2)
    if None in values:
        # A word among many different numbers is a mistake, and will be named.
        word_in = next(cell for cell in cells if number(cell) is None)
        whole = all(value is None or value % 1 == 0 for value in values)
        if few and whole:
            return "classification", f"labels, for {short(word_in)} is no number"
        return "regression", "numbers"
    if any(value is None or value % 1 for value in values):
        # Labels have no decimals.
        return "regression", "numbers"
    if len(values) == 2:
        return "classification", "two different numbers; --task regression for the other"
    labels = {float(i) for i in range(len(values))}
    counted = values in (labels, {label + 1 for label in labels})
    # Labels repeat; measurements that happen to be whole numbers need not.
    if counted and few and len(values) > 1:
        how = "--task regression for numbers, or --target-kind count for counts"
        return "classification", f"few whole numbers; {how}"
    return "regression", "numbers"


def how_to_move(kind: str, value: float, num_rows: int) -> str:
    """What to do about shares of 0 and 1, which no beta distribution has, and about percentages.

    It changes the data, so that it is for their owner to decide.
    """
    if kind == "share" and 1 < value <= 100:
        return " Divide percentages by 100 first."
    if kind != "share" or value not in (0, 1):
        return ""
    moved = (value * (num_rows - 1) + 0.5) / num_rows
    return (
        f" Take such targets for real numbers, or move all shares inward first, such as by "
        f"(y * (n - 1) + 0.5) / n, which for n = {num_rows:,} rows makes {moved:.4g} of it."
    )


def without_missing(table: Table, names: Sequence[str]) -> tuple[Table, int]:
    """The rows that have all targets, and how many do not; an `InputError` if none has."""
    rows = zip(*(table.column(name) for name in names), strict=True)
    kept = [place for place, row in enumerate(rows) if None not in row]
    if not kept:
        raise InputError(f"{table.path}, column {listing(names)}: no row has a target.")
    whole = len(kept) == table.num_rows
    return (table if whole else table.take(kept)), table.num_rows - len(kept)


def refuse_missing(table: Table, names: Sequence[str]) -> None:
    """Raise `InputError`, naming the row, if a target is missing."""
    for name in names:
        if table.column(name).count(None):
            missing = [row for row, cell in enumerate(table.column(name)) if cell is None]
            num = len(missing) - 1
            others = f", as in {num:,} other row{'s' * (num > 1)}" if num else ""
            raise table.error(
                missing[0],
                name,
                f"the target is missing{others}. Remove such rows",
                Remedy(", or leave them out by fitting with --missing-target drop.", "."),
            )


def hint_of_observed(
    target: Target, y: np.ndarray, table: Table, inputs: Iterable[str]
) -> str | None:
    """What to say where all times count as observed to the end, and nobody said that they were.

    Inputs that may tell which ones go on are named: they would give the answer away.
    """
    if target.kind != "time" or target.observed or np.any(y < 0):
        return None
    tell = [repr(name) for name in inputs if _may_tell(table, name)]
    hint = f" It may be {' or '.join(tell[:3])}." if tell else ""
    return (
        f"All times count as observed to the end: none is below zero. Where some go on, name the "
        f"column that tells it: --observed COLUMN, with 0 for these and 1 for the others.{hint}"
    )


def _may_tell(table: Table, name: str) -> bool:
    """Whether a column says of every row that something has ended, or goes on."""
    words = {"" if cell is None else word(cell).lower() for cell in table.written(name)}
    return len(words) == 2 and words <= ENDED.keys()


def _ended(table: Table, name: str) -> list[bool]:
    """Whether times were observed to the end, as a column says, or an `InputError`."""
    ended = []
    for row, cell in enumerate(table.written(name)):
        said = word(cell).lower()
        if said not in ENDED:
            raise table.error(
                row,
                name,
                f"{short(cell)} does not say whether the time was observed to the end. That is 1, "
                f"true or yes where it was, and 0, false or no where it goes on.",
            )
        ended.append(ENDED[said])
    return ended


def label_of(cell: Cell) -> str:
    """The name of a class. 1 and 1.0 are one class, whichever program wrote them."""
    value = whole(cell)
    return word(cell) if value is None else str(value)


def _order(label: str) -> tuple[float, str]:
    value = exact(label)
    return (math.inf if value is None else value, label)
