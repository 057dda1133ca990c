"""Checks of plain numbers and arrays, shared by every door. None of them needs JAX."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

# Beyond this, double precision has no room left to add and to scale.
LARGEST = 1e300
# What all rows together may count as. With less, nothing is left beside the prior; with more,
# single precision sees neither the prior nor a single row.
TOTAL_WEIGHT = 1e-6, 1e15


# More rows than this calibrate intervals no better: the coverage of 10,000 varies by 0.3%.
MOST_CALIBRATING = 10_000


def is_missing(value: Any) -> bool:
    """Whether a cell or a target is a gap: `None`, not a number, or what pandas has for nothing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def is_whole(value: Any) -> bool:
    """Whether this is an integer of Python or NumPy; truth values are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is a real number of Python or NumPy; truth values are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether this is a number that double precision holds."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def as_numbers(name: str, values: Any, advice: str = "") -> np.ndarray:
    """The values as an array of real numbers, or a `ValueError`."""
    refuse_masked(name, values)
    values = np.asarray(values)
    if values.dtype.name == "bfloat16":
        values = values.astype(np.float32)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers, got the type {values.dtype}.{advice}")
    return values


def check_finite(name: str, values: np.ndarray) -> None:
    """Raise `ValueError` if a value is infinite, missing, or too large to compute with."""
    if within(values, LARGEST):
        return
    place = first_place(~np.isfinite(values))
    if place:
        raise ValueError(f"{name} is not finite at {place}. Remove or impute such values first.")
    place = first_place(np.abs(values) > LARGEST)
    raise ValueError(f"{name} is beyond {LARGEST:g} at {place}. Divide it by a power of ten first.")


def check_table(x: Any) -> tuple[int, int]:
    """The numbers of rows and columns, or a `ValueError` if this is no table."""
    shape = np.shape(x)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"x must be a table with one row or more and one column or more, got the shape {shape}."
        )
    return shape


def check_weights(weight: Any, num_rows: int) -> np.ndarray:
    """How many rows each row counts as, in double precision; one unless given."""
    if weight is None:
        return np.ones(num_rows)
    weight = as_numbers("sample_weight", weight).astype(np.float64)
    if weight.shape != (num_rows,):
        raise ValueError(
            f"sample_weight must be one number a row, got {weight.shape} for {num_rows}."
        )
    valid = np.isfinite(weight) & (weight >= 0)
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(
            f"sample_weight is {weight[row]} at row {row}: none may be negative, and all must be "
            f"finite."
        )
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if num_rows and total == 0:
        raise ValueError("sample_weight is zero for every row.")
    if num_rows and not TOTAL_WEIGHT[0] <= total <= TOTAL_WEIGHT[1]:
        raise ValueError(
            f"sample_weight adds up to {total:g}. A weight is the number of rows that a row counts "
            f"as: multiply all of them by one number, so that together they are the number of rows "
            f"that the data are worth."
        )
    return weight


def check_classes(classes: Sequence[Any]) -> None:
    """Raise `ValueError` unless there are two classes or more."""
    if len(classes) < 2:
        only = f", {classes[0]!r}" if classes else ""
        raise ValueError(f"y holds one class only{only}: there is nothing to tell apart.")


def count_classes(y: Any, num_classes: int | None) -> int:
    """How many classes there are: as many as the largest number says, unless that is given."""
    y = np.asarray(y)
    if y.dtype.kind not in "biu" or y.size == 0 or y.min() < 0:
        raise ValueError(
            f"y must be classes numbered from 0, as whole numbers; got the type {y.dtype}."
        )
    count = int(y.max()) + 1 if num_classes is None else num_classes
    check_classes(range(count))
    if y.max() >= count:
        raise ValueError(f"y holds the class {y.max()}, and num_classes={count}.")
    return count


def refuse_masked(name: str, values: Any) -> None:
    """Raise `ValueError` if a value is masked: in a plain array it would be there again."""
    if np.ma.is_masked(values):
        place = first_place(np.ma.getmaskarray(values))
        raise ValueError(
            f"{name} is masked at {place}. A network cannot see a mask: remove such rows, or fill "
            f"in values ({name}.filled)."
        )


def within(values: np.ndarray, most: float) -> bool:
    """Whether no value is larger in magnitude, or not a number. No copy is made."""
    return not values.size or bool(-most <= float(values.min()) and float(values.max()) <= most)


def first_place(marked: np.ndarray) -> str:
    """The first marked row, and column if there are any, in words; empty if none is marked."""
    places = np.argwhere(marked)
    if not len(places):
        return ""
    return f"row {places[0][0]}" + (f", column {places[0][1]}" if marked.ndim == 2 else "")


def check_levels(what: str, levels: Any) -> np.ndarray:
    """One probability or several as a vector; `ValueError` unless all lie in (0, 1)."""
    values = np.asarray(levels)
    if values.dtype.kind != "f" or values.ndim > 1 or not np.all((values > 0) & (values < 1)):
        raise ValueError(f"{what} is one number in (0, 1), or a list of them; got {levels!r}.")
    return np.atleast_1d(values.astype(np.float64))


def check_thresholds(thresholds: Any) -> np.ndarray:
    """One threshold or several as a vector; `ValueError` unless all are finite numbers."""
    values = as_numbers("threshold", thresholds).astype(np.float64)
    if values.ndim > 1:
        raise ValueError(f"Thresholds are one number or a list of them, got {thresholds!r}.")
    check_finite("threshold", np.atleast_1d(values))
    return np.atleast_1d(values)
