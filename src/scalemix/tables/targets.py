"""The column to predict: numbers, or classes."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scalemix.fitting.settings import Task
from scalemix.tables.cells import Cells, number, numbers, says_numbers, short, word
from scalemix.tables.reading import Cell, InputError, Table, listing

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


@dataclasses.dataclass(frozen=True)
class Target:
    """The name of the target, and its classes if it has any."""

    name: str
    classes: tuple[str, ...] | None
    reason: str
    """Why it was taken for what it is."""
    kind: str = "real"
    """Which numbers it has: a name in `NUMBERS`."""
    drop_missing: bool = False
    """Whether rows without a target are left out."""

    @property
    def task(self) -> Task:
        """Whether it is a number or a class."""
        return "regression" if self.classes is None else "classification"

    def describe(self) -> str:
        """The target in words."""
        of = "" if self.classes is None else f" of {len(self.classes)} classes"
        kind = "" if self.kind == "real" else f", each {NUMBERS[self.kind][0]}"
        return f"{self.name}, {self.task}{of} ({self.reason}){kind}"

    def rows_of(self, table: Table) -> Table:
        """The rows of a table that count: all, or only those that have a target."""
        return without_missing(table, self.name)[0] if self.drop_missing else table

    def encode(self, table: Table) -> np.ndarray:
        """The numbers, or the classes counted from 0; or an `InputError` that names the row."""
        _refuse_missing(table, self.name)
        if self.classes is None:
            values = numbers(table, self.name)
            what, is_one = NUMBERS[self.kind]
            for row, value in enumerate(values):
                if not is_one(value):
                    cell = short(table.column(self.name)[row])
                    raise table.error(row, self.name, f"{cell} is not {what}.")
            return np.array(values)
        places = {label: i for i, label in enumerate(self.classes)}
        labels = []
        for row, cell in enumerate(table.column(self.name)):
            label = _label(cell)
            if label not in places:
                raise table.error(
                    row,
                    self.name,
                    f"{short(cell)} is none of the classes that the model knows: "
                    f"{listing(self.classes)}.",
                )
            labels.append(places[label])
        return np.array(labels, np.int32)

    def to_json(self) -> dict[str, Any]:
        """The same as a dict, for a model's file."""
        classes = None if self.classes is None else list(self.classes)
        said = {"name": self.name, "classes": classes, "reason": self.reason, "kind": self.kind}
        return said | {"drop_missing": self.drop_missing}

    @staticmethod
    def from_json(said: Any) -> "Target":
        """The target that `to_json` described, or a `TypeError`."""
        classes = said["classes"]
        texts = [said["name"], said["reason"], *(classes or ())]
        if not (classes is None or isinstance(classes, list)) or not all(
            isinstance(text, str) for text in texts
        ):
            raise TypeError("the target is no column")
        # Files from before there were other kinds say nothing of them.
        kind, drop = said.get("kind", "real"), said.get("drop_missing", False)
        if kind not in NUMBERS or not isinstance(drop, bool):
            raise TypeError("the target is of no kind that there is")
        names = None if classes is None else tuple(classes)
        return Target(said["name"], names, said["reason"], kind, drop)


def learn_target(table: Table, name: str, task: Task | None) -> Target:
    """What kind of target a column is, or an `InputError` if it cannot be one."""
    cells = table.column(name)
    _refuse_missing(table, name)
    numeric = says_numbers(cells)
    reason = "as asked" if task is not None else ""
    if task is None:
        task, reason = _find_task(cells) if numeric else ("classification", "it is text")
    if task == "regression" or numeric:
        values = numbers(table, name)
        if task == "regression":
            if len(set(values)) == 1:
                raise InputError(
                    f"{table.path}, column {name!r}: the target is {values[0]:g} in every row: "
                    f"there is nothing to learn."
                )
            return Target(name, None, reason)
    labels = sorted({_label(cell) for cell in cells}, key=_order)
    if len(labels) == 1:
        raise InputError(
            f"{table.path}, column {name!r}: every row is of one class, {short(labels[0])}: there "
            f"is nothing to tell apart."
        )
    if len(labels) > min(MOST_CLASSES, max(2, 0.5 * len(cells))):
        raise InputError(
            f"{table.path}, column {name!r}: {len(labels)} different values, such as "
            f"{short(labels[0])}, in {len(cells)} rows are too many for classes."
        )
    return Target(name, tuple(labels), reason)


def _find_task(cells: Cells) -> tuple[Task, str]:
    values = {number(cell) for cell in cells if cell is not None} - {None}
    if len(values) == 2:
        return "classification", "two different numbers; --task regression for the other"
    labels = {float(i) for i in range(len(values))}
    counted = values in (labels, {label + 1 for label in labels})
    # Labels repeat; measurements that happen to be whole numbers need not.
    if counted and 1 < len(values) <= min(MOST_LABELS, len(cells) // 2):
        return "classification", "few whole numbers; --task regression for the other"
    return "regression", "numbers"


def without_missing(table: Table, name: str) -> tuple[Table, int]:
    """The rows that have a target, and how many have none; an `InputError` if all have none."""
    cells = table.column(name)
    kept = [row for row, cell in enumerate(cells) if cell is not None]
    if not kept:
        raise InputError(f"{table.path}, column {name!r}: no row has a target.")
    return (table if len(kept) == len(cells) else table.take(kept)), len(cells) - len(kept)


def _refuse_missing(table: Table, name: str) -> None:
    missing = [row for row, cell in enumerate(table.column(name)) if cell is None]
    if missing:
        num = len(missing) - 1
        others = f", as in {num:,} other row{'s' * (num > 1)}" if num else ""
        raise table.error(
            missing[0],
            name,
            f"the target is missing{others}. Remove such rows, or leave them out by fitting with "
            f"--missing-target drop.",
        )


def _label(cell: Cell) -> str:
    """The name of a class. 1 and 1.0 are one class, whichever program wrote them."""
    value = number(cell)
    if value is not None and math.isfinite(value) and value == int(value):
        return str(int(value))
    return word(cell)


def _order(label: str) -> tuple[float, str]:
    value = number(label)
    return (math.inf if value is None else value, label)
