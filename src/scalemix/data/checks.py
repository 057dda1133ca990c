"""Numbers at the door: inputs, targets and weights as arrays to work with, or a `ValueError`.

Everything is checked in the precision that it comes in, shifted and scaled in double precision,
and only then cast to that of the network.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.data.scaling import FARTHEST, Scaling
from scalemix.likelihoods import Likelihood
from scalemix.model.model import Model

# Beyond this double precision has no room left to add and to scale.
LARGEST = 1e300
# Whole numbers are held in 32 bits.
MOST_COUNTED = 2**31 - 1
# What all rows together may count as. Less, and nothing is left beside the prior; more, and single
# precision sees no prior and no row.
TOTAL_WEIGHT = 1e-6, 1e15


def network_dtype(model: Model) -> np.dtype:
    """The type of number that the model's network computes in."""
    return np.dtype(next(iter(model.weights.values())).dtype)


def check_inputs(x: Any, model: Model) -> np.ndarray:
    """Inputs as an array that the model's network takes row by row, or a `ValueError`.

    A table is still as precise as it came: `inputs_as_seen` centres it before it is cast.
    """
    columns = list(getattr(x, "columns", []))
    if columns:
        text = [
            name for name, kind in zip(columns, x.dtypes, strict=True) if kind.kind not in "biuf"
        ]
        if text:
            raise ValueError(
                f"Column {text[0]!r} of x holds no plain numbers ({x.dtypes[text[0]]}). Encode or "
                f"drop it first."
            )
    x = _numbers("x", x)
    if x.ndim == 0:
        raise ValueError("x must hold examples along its first axis, got a single number.")
    dtype = network_dtype(model)
    # Whole numbers are measurements, unless the network takes nothing else (an embedding).
    problem = _refusal(model, x.shape[1:], dtype)
    if problem is not None:
        if x.dtype.kind in "iu" and _refusal(model, x.shape[1:], x.dtype) is None:
            if not _within(x, MOST_COUNTED):
                raise ValueError(
                    f"x is a whole number beyond {MOST_COUNTED:,} at "
                    f"{_place(np.abs(x.astype(np.float64)) > MOST_COUNTED)}. Number them from 0."
                )
            return x
        raise ValueError(
            f"The network does not take an example of shape {x.shape[1:]}, a row of x, which has "
            f"the shape {x.shape}. It says: {problem}"
        )
    _check_finite("x", x)
    if x.ndim == 2:
        return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    return _cast_unscaled(x, dtype)


def inputs_as_seen(
    x: np.ndarray, model: Model, scaling: Scaling, rows: np.ndarray | None = None
) -> np.ndarray:
    """Inputs that `check_inputs` gave, as the network sees them, or a `ValueError`.

    `rows` are their numbers in the data that they are a part of.
    """
    if x.dtype.kind in "iu":
        return x
    if not scaling.x_mean.size:
        return _cast_unscaled(x, network_dtype(model))
    seen = scaling.inputs(x, network_dtype(model))
    if not _within(seen, FARTHEST):
        row, column = np.argwhere(~(np.abs(seen) <= FARTHEST))[0]
        number = row if rows is None else rows[row]
        raise ValueError(
            f"x is {x[row, column]:g} at row {number}, column {column}, where the training data "
            f"have the mean {scaling.x_mean[column]:g} and the scale {scaling.x_scale[column]:g}. "
            f"More than {FARTHEST:g} scales away nothing can be told: look at the column's unit, "
            f"or remove the row."
        )
    return seen


def check_targets(y: Any, likelihood: Likelihood) -> np.ndarray:
    """Targets, one a row: whole numbers of counts and classes, all others in double precision."""
    y = _numbers("y", y, " Number the classes from 0.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(
            f"y must have one target a row, got the shape {y.shape}. Classes are whole numbers "
            f"from 0, not one-hot."
        )
    _check_finite("y", y)
    if likelihood.continuous_units:
        return y.astype(np.float64)
    if not _within(y, MOST_COUNTED):
        row = int(np.argmax(np.abs(y.astype(np.float64)) > MOST_COUNTED))
        raise ValueError(
            f"y is {y[row]} at row {row}: {type(likelihood).__name__} counts no further than "
            f"{MOST_COUNTED:,}. Number classes from 0; take the logarithm of counts so large, and "
            f"a likelihood of real numbers."
        )
    return y.astype(np.int32 if y.dtype.kind in "biu" else np.float64)


def targets_as_seen(
    y: np.ndarray, scaling: Scaling, dtype: Any, rows: np.ndarray | None = None
) -> np.ndarray:
    """Targets that `check_targets` gave, as the likelihood sees them, or a `ValueError`."""
    if y.dtype.kind == "i":
        return y
    seen = scaling.targets(y)
    # Likelihoods take squares.
    most = float(np.sqrt(jnp.finfo(dtype).max))
    if not _within(seen, most):
        row = int(np.argmin(np.abs(seen) <= most))
        number = row if rows is None else rows[row]
        raise ValueError(
            f"y is {y[row]:g} at row {number}, and {seen[row]:.3g} as the likelihood sees it, "
            f"which in {np.dtype(dtype)} has no square. Divide y by a constant, or let `fit` "
            f"standardize it."
        )
    return seen.astype(dtype)


def check_weights(weight: Any, num_rows: int) -> np.ndarray:
    """How many rows each row counts as, in double precision; one unless given."""
    if weight is None:
        return np.ones(num_rows)
    weight = _numbers("sample_weight", weight).astype(np.float64)
    if weight.shape != (num_rows,):
        raise ValueError(
            f"sample_weight must be one number a row, got {weight.shape} for {num_rows}."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        row = int(np.argmin(np.isfinite(weight) & (weight >= 0)))
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


def refuse_masked(name: str, values: Any) -> None:
    """Raise `ValueError` if something is masked: as an array it would be there again."""
    if np.ma.is_masked(values):
        mask = np.ma.getmaskarray(values)
        raise ValueError(
            f"{name} is masked at {_place(mask)}. A mask says nothing to a network: remove such "
            f"rows, or fill in values ({name}.filled)."
        )


def _numbers(name: str, values: Any, advice: str = "") -> np.ndarray:
    refuse_masked(name, values)
    values = np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers, got the type {values.dtype}.{advice}")
    return values


def _check_finite(name: str, values: np.ndarray) -> None:
    if not _within(values, LARGEST):
        place = _place(~np.isfinite(values))
        if place:
            raise ValueError(
                f"{name} is not finite at {place}. Remove or impute such values first."
            )
        place = _place(np.abs(values) > LARGEST)
        raise ValueError(
            f"{name} is beyond {LARGEST:g} at {place}. Divide it by a power of ten first."
        )


def _cast_unscaled(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):
        seen = x.astype(dtype)
    if not _within(seen, float(jnp.finfo(dtype).max)):
        raise ValueError(
            f"x is too large a number for {dtype} at {_place(~np.isfinite(seen))}, and is not "
            f"standardised. Divide it by a constant first."
        )
    return seen


def _within(values: np.ndarray, most: float) -> bool:
    """Whether no value is beyond, or not a number; without a copy of them all."""
    return not values.size or bool(-most <= float(values.min()) and float(values.max()) <= most)


def _place(found: np.ndarray) -> str:
    """The first place where something was found, in words; empty if nowhere."""
    places = np.argwhere(found)
    if not len(places):
        return ""
    return f"row {places[0][0]}" + (f", column {places[0][1]}" if found.ndim == 2 else "")


def _refusal(model: Model, shape: tuple[int, ...], dtype: Any) -> str | None:
    """What the network says against an example of this shape and type, if anything."""
    try:
        eqx.filter_eval_shape(
            model.network, jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
        )
    except Exception as error:
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return None
