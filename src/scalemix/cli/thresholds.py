"""`--above`: numbers that targets may be above, written as the targets are."""

from collections.abc import Sequence

import numpy as np

from scalemix._text import listing
from scalemix.cli.models import TableModel
from scalemix.tables import InputError
from scalemix.tables.number_formats import LARGEST_SHARE
from scalemix.tables.single_numbers import both_ways, read_number
from scalemix.tables.units import PARTS_OF_ONE, split

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
            _refuse_share(number, value, name, _units(fitted)[name])
            thresholds[name][value / fitted.columns.target.parts_of_one(name)] = None
    return {name: tuple(values) for name, values in thresholds.items()}


def on_bare_thresholds(said: Sequence[str], fitted: TableModel) -> str | None:
    """What to say of numbers without a sign where a target is in percent: what they are taken for.

    Numbers that may be shares have been refused.
    """
    names, units = fitted.columns.target.names, _units(fitted)
    taken = {
        f"{number} is {number}{units[name]} of {name!r}": None
        for of, number in (_split(one, names) for one in said)
        for name in of
        if units[name] in PARTS_OF_ONE and _is_bare(number)
    }
    return f"--above: {', '.join(taken)}" if taken else None


def _refuse_share(said: str, value: float, name: str, unit: str) -> None:
    """Raise `InputError` if a number may be a share of one, where the target is in percent."""
    if unit in PARTS_OF_ONE and _is_bare(said) and 0 < abs(value) <= LARGEST_SHARE:
        raise InputError(
            f"--above {said}: {name!r} is in {unit}, so that it may be {value:.15g}{unit}, or a "
            f"share of one, which is {value * PARTS_OF_ONE[unit]:.15g}{unit}. Write it with the "
            f"{unit}."
        )


def _is_bare(said: str) -> bool:
    """Whether a number has no sign of a unit."""
    return split(said.strip()) is None


def _units(fitted: TableModel) -> dict[str, str]:
    """The unit of each target, which may be none."""
    target = fitted.columns.target
    return dict(zip(target.names, target.units or ("",) * len(target.names), strict=True))


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
    units = {_units(fitted)[name] for name in names}
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
