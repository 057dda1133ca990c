"""Data as they come in, checked against whoever reads them: arrays to work with, or a `ValueError`.

Everything is checked in the precision that it comes in, shifted and scaled in double precision,
and only then cast to that of the network.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from scalemix.data.reader import Reader
from scalemix.data.scaling import FARTHEST, Scaling, farthest_cell
from scalemix.data.values import as_numbers, check_finite, first_place, within
from scalemix.likelihoods import Likelihood

# Whole numbers are held in 32 bits.
MOST_COUNTED = 2**31 - 1


def check_inputs(x: Any, reader: Reader) -> np.ndarray:
    """Inputs as an array that the reader's network takes row by row, or a `ValueError`.

    A table stays as precise as it came: `inputs_as_seen` centres it before it is cast.
    """
    _refuse_text_columns(x)
    x = as_numbers("x", x)
    if x.ndim == 0:
        raise ValueError("x must hold examples along its first axis, got a single number.")
    # Whole numbers are measurements, unless the network takes nothing else (an embedding).
    problem = reader.refusal(x.shape[1:], reader.dtype)
    if problem is not None:
        if x.dtype.kind in "iu" and reader.refusal(x.shape[1:], x.dtype) is None:
            if not within(x, MOST_COUNTED):
                raise ValueError(
                    f"x is a whole number beyond {MOST_COUNTED:,} at "
                    f"{first_place(np.abs(x.astype(np.float64)) > MOST_COUNTED)}. Number them "
                    f"from 0."
                )
            return x
        raise ValueError(
            f"The network does not take an example of shape {x.shape[1:]}, a row of x, which has "
            f"the shape {x.shape}. It says: {problem}"
        )
    check_finite("x", x)
    if x.ndim == 2:
        return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    return _cast_unscaled(x, reader.dtype)


def inputs_as_seen(
    x: np.ndarray, reader: Reader, scaling: Scaling, rows: np.ndarray | None = None
) -> np.ndarray:
    """Inputs that `check_inputs` gave, as the network sees them, or a `ValueError`.

    `rows` are their numbers in the data that they are a part of.
    """
    if x.dtype.kind in "iu":
        return x
    if not scaling.x_mean.size:
        return _cast_unscaled(x, reader.dtype)
    seen = scaling.inputs(x, reader.dtype)
    far = farthest_cell(seen)
    if far is not None:
        row, column = far
        number = row if rows is None else rows[row]
        raise ValueError(
            f"x is {x[row, column]:g} at row {number}, column {column}, where the training data "
            f"have the mean {scaling.x_mean[column]:g} and the scale {scaling.x_scale[column]:g}. "
            f"More than {FARTHEST:g} scales away nothing can be predicted: check the column's "
            f"unit, or remove the row."
        )
    return seen


def check_targets(y: Any, likelihood: Likelihood) -> np.ndarray:
    """Targets, one a row: counts and classes as whole numbers, all others in double precision."""
    y = _shape_targets(as_numbers("y", y, " Number the classes from 0."), likelihood)
    check_finite("y", y)
    if likelihood.continuous_units:
        return y.astype(np.float64)
    if not within(y, MOST_COUNTED):
        marked = np.abs(y.astype(np.float64)) > MOST_COUNTED
        raise ValueError(
            f"y is {y[marked][0]} at {first_place(marked)}: {likelihood.title} counts no further "
            f"than {MOST_COUNTED:,}. Number classes from 0; take the logarithm of counts so large, "
            f"and a likelihood of real numbers."
        )
    return y.astype(np.int32 if y.dtype.kind in "biu" else np.float64)


def _shape_targets(y: np.ndarray, likelihood: Likelihood) -> np.ndarray:
    """The targets in the likelihood's shape, or a `ValueError`; a column is as good as a vector."""
    wanted = likelihood.target_shape
    if y.ndim and y.shape[1:] in ((), (1,)) and wanted in ((), (1,)):
        return y.reshape(len(y), *wanted)
    if y.ndim and y.shape[1:] == wanted:
        return y
    if wanted:
        raise ValueError(
            f"y must have the shape (rows, {', '.join(map(str, wanted))}), since the likelihood is "
            f"{likelihood.title}; got the shape {y.shape}."
        )
    several = ""
    if y.ndim == 2 and likelihood.ordered:
        num = y.shape[1]
        several = (
            f" For {num} targets a row use likelihoods.Independent({likelihood.title}(), {num}), "
            f"and a network with {num * likelihood.num_outputs} outputs."
        )
    raise ValueError(
        f"y must have one target a row, got the shape {y.shape}.{several} Classes are whole "
        f"numbers from 0, not one-hot."
    )


def targets_as_seen(
    y: np.ndarray, scaling: Scaling, dtype: Any, rows: np.ndarray | None = None
) -> np.ndarray:
    """Targets that `check_targets` gave, as the likelihood sees them, or a `ValueError`."""
    if y.dtype.kind == "i":
        return y
    seen = scaling.targets(y)
    # Likelihoods take squares.
    most = float(np.sqrt(jnp.finfo(dtype).max))
    if not within(seen, most):
        place = tuple(np.argwhere(~(np.abs(seen) <= most))[0])
        number = place[0] if rows is None else rows[place[0]]
        raise ValueError(
            f"y is {y[place]:g} at row {number}, and {seen[place]:.3g} as the likelihood sees it, "
            f"which in {np.dtype(dtype)} has no square. Divide y by a constant, or let `fit` "
            f"standardize it."
        )
    return seen.astype(dtype)


def _refuse_text_columns(x: Any) -> None:
    """Name a column of a data frame that holds no numbers, which as an array has no name."""
    columns = list(getattr(x, "columns", []))
    if not columns:
        return
    for name, kind in zip(columns, x.dtypes, strict=True):
        if kind.kind not in "biuf":
            raise ValueError(
                f"Column {name!r} of x holds no plain numbers ({kind}). Encode or drop it first."
            )


def _cast_unscaled(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):
        seen = x.astype(dtype)
    if not within(seen, float(jnp.finfo(dtype).max)):
        raise ValueError(
            f"x is too large a number for {dtype} at {first_place(~np.isfinite(seen))}, and is not "
            f"standardised. Divide it by a constant first."
        )
    return seen
