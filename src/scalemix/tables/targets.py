"""The column to predict: numbers, or classes."""

import dataclasses
import math
from typing import Any

import numpy as np

from scalemix.fitting.settings import Task
from scalemix.tables.cells import Cells, number, numbers, says_numbers, short, word
from scalemix.tables.reading import Cell, InputError, Table, listing

# Consecutive whole numbers from 0 or 1, up to so many, are taken for labels of classes.
MOST_LABELS = 10
MOST_CLASSES = 100


@dataclasses.dataclass(frozen=True)
class Target:
    """The name of the target, and its classes if it has any."""

    name: str
    classes: tuple[str, ...] | None
    reason: str
    """Why it was taken for what it is."""

    @property
    def task(self) -> Task:
        """Whether it is a number or a class."""
        return "regression" if self.classes is None else "classification"

    def describe(self) -> str:
        """The target in words."""
        of = "" if self.classes is None else f" of {len(self.classes)} classes"
        return f"{self.name}, {self.task}{of} ({self.reason})"

    def encode(self, table: Table) -> np.ndarray:
        """The numbers, or the classes counted from 0; or an `InputError` that names the row."""
        _refuse_missing(table, self.name)
        if self.classes is None:
            return np.array(numbers(table, self.name))
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
        return {"name": self.name, "classes": classes, "reason": self.reason}

    @staticmethod
    def from_json(said: Any) -> "Target":
        """The target that `to_json` described, or a `TypeError`."""
        classes = said["classes"]
        texts = [said["name"], said["reason"], *(classes or ())]
        if not (classes is None or isinstance(classes, list)) or not all(
            isinstance(text, str) for text in texts
        ):
            raise TypeError("the target is no column")
        return Target(said["name"], None if classes is None else tuple(classes), said["reason"])


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


def _refuse_missing(table: Table, name: str) -> None:
    missing = [row for row, cell in enumerate(table.column(name)) if cell is None]
    if missing:
        num = len(missing) - 1
        others = f", as in {num:,} other row{'s' * (num > 1)}" if num else ""
        raise table.error(missing[0], name, f"the target is missing{others}. Remove such rows.")


def _label(cell: Cell) -> str:
    """The name of a class. 1 and 1.0 are one class, whichever program wrote them."""
    value = number(cell)
    if value is not None and math.isfinite(value) and value == int(value):
        return str(int(value))
    return word(cell)


def _order(label: str) -> tuple[float, str]:
    value = number(label)
    return (math.inf if value is None else value, label)
