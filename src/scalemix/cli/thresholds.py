"""`--above`: numbers that targets may be above, written as the targets are."""

from collections.abc import Sequence

import numpy as np

from scalemix._text import listing
from scalemix.cli.models import TableModel
from scalemix.tables import InputError
from scalemix.tables.number_formats import both_ways, read_number

Thresholds = dict[str, tuple[float, ...]]
"""What each target may be above, by its name."""


def read_thresholds(said: Sequence[str], fitted: TableModel, decimal: str | None) -> Thresholds:
    """What targets may be above: a number for all of them, or one for a target by name (price=3).

    Numbers are written as the target is. A `decimal` mark that was said for the table holds for
    them, too.
    """
    names = fitted.columns.target.names
    thresholds: dict[str, dict[float, None]] = {name: {} for name in names}
    for one in said:
        of, number = _split(one, names)
        value = _read(number, of, fitted, decimal)
        for name in of:
            thresholds[name][value] = None
    return {name: tuple(values) for name, values in thresholds.items()}


def _split(said: str, names: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The targets that a number is for, and the number."""
    # A name may itself have such a sign, and be the beginning of another.
    named = [name for name in names if said.startswith(f"{name}=")]
    if named:
        name = max(named, key=len)
        return (name,), said[len(name) + 1 :]
    if "=" in said:
        raise InputError(
            f"--above {said}: there is no target {said.rpartition('=')[0]!r}. The model predicts "
            f"{listing(names)}."
        )
    return names, said


def _read(said: str, names: tuple[str, ...], fitted: TableModel, decimal: str | None) -> float:
    """A number as it would stand in the columns of these targets."""
    known, target = fitted.text, fitted.columns.target
    marks = {decimal or known.decimals.get(name, known.decimal) for name in names}
    units_by_name = dict(zip(target.names, target.units, strict=False))
    units = {units_by_name.get(name, "") for name in names}
    unit = units.pop() if len(units) == 1 else ""
    # Of several targets all have to agree on what it means.
    values = {read_number(said, mark, unit) for mark in marks}
    value = values.pop() if len(values) == 1 else None
    if value is not None and np.isfinite(value):
        return value
    if (ways := both_ways(said, unit)) is not None:
        few, many = ways
        raise InputError(
            f"--above {said} may be {few:.15g} or {many:.15g}, and the table that the model was "
            f"fitted to does not tell. Write --above {many:.15g} for the larger, or say --decimal "
            f"with the mark that stands before decimals."
        )
    of = f" in {unit}" if unit else ""
    example = f" --above {target.names[0]}=5" if target.several else " --above 5"
    raise InputError(
        f"--above takes a number of {', '.join(map(repr, names))}{of}; got {said!r}. Write it with "
        f"a decimal point and nothing between thousands, as in --above 1200.5, and several one by "
        f"one, as in --above 3{example}."
    )
