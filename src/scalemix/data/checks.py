"""Data as they come in, checked against whoever reads them: arrays to work with, or a `ValueError`.

Everything is checked in the precision that it comes in, shifted and scaled in double precision,
and only then cast to that of the network.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalemix.data.reader import Reader
from scalemix.data.rows import Inputs, are_several, path_in_words, row_like
from scalemix.data.scaling import FARTHEST, Scaling, farthest_cell
from scalemix.data.values import as_numbers, check_finite, first_place, within
from scalemix.likelihoods import Likelihood

# Whole numbers are held in 32 bits.
MOST_COUNTED = 2**31 - 1


def check_inputs(x: Any, reader: Reader) -> Inputs:
    """Inputs as arrays that the reader's network takes row by row, or a `ValueError`.

    A table stays as precise as it came: `inputs_as_seen` centres it before it is cast.
    """
    if are_several(x):
        return _check_several(x, reader)
    _refuse_text_columns(x)
    x = as_numbers("x", x)
    if x.ndim == 0:
        raise ValueError("x must hold examples along its first axis, got a single number.")
    # Whole numbers are measurements, unless the network takes nothing else (an embedding).
    problem = reader.refusal(row_like(x, reader.dtype))
    if problem is not None:
        if x.dtype.kind in "iu":
            counted = reader.refusal(row_like(x))
            if counted is None:
                check_counted("x", x)
                _check_lookups(x, reader, row_like(x))
                return x
            if "integer" in problem:
                # JAX asks for whole numbers, which these are: what else is wrong is what counts.
                problem = counted
        raise ValueError(
            f"The network does not take an example of shape {x.shape[1:]}, a row of x, which has "
            f"the shape {x.shape}. {problem}"
        )
    check_finite("x", x)
    # Whole numbers of any size are real ones to this network.
    _check_lookups(x, reader, row_like(x, reader.dtype))
    if x.ndim == 2:
        return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    return _cast_unscaled(x, reader.dtype)


def _check_several(x: Any, reader: Reader) -> Inputs:
    """The same of several inputs, which are never scaled."""

    def as_array(path: Any, part: Any) -> np.ndarray:
        name = path_in_words(path)
        array = as_numbers(name, part)
        if array.ndim == 0:
            raise ValueError(f"{name} must hold examples along its first axis, got one number.")
        return array

    # A list is an array in the making.
    given = jax.tree_util.tree_map_with_path(
        as_array, x, is_leaf=lambda part: not are_several(part)
    )
    lengths = {
        path_in_words(path): len(part) for path, part in jax.tree_util.tree_leaves_with_path(given)
    }
    if len(set(lengths.values())) != 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"All inputs must have as many rows: {told or 'x is empty'}.")

    def seen(path: Any, part: np.ndarray, whole: bool) -> np.ndarray:
        name = path_in_words(path)
        if whole and part.dtype.kind in "biu":
            check_counted(name, part)
            return part
        check_finite(name, part)
        return _cast_unscaled(part, reader.dtype, name)

    x = jax.tree_util.tree_map_with_path(seen, given, _whole_parts(given, reader))
    if (problem := reader.refusal(row_like(x))) is not None:
        shapes = ", ".join(
            f"{path_in_words(path)}: {part.shape[1:]}"
            for path, part in jax.tree_util.tree_leaves_with_path(x)
        )
        raise ValueError(f"The network does not take an example of the shapes {shapes}. {problem}")
    _check_lookups(given, reader, row_like(x))
    return x


def _whole_parts(x: Inputs, reader: Reader) -> Any:
    """Which of several inputs are whole numbers to the network, and not measurements."""
    if reader.refusal(row_like(x, reader.dtype)) is None:
        return jax.tree.map(lambda _: False, x)
    if jax.tree.structure(reader.example) != jax.tree.structure(x):
        return jax.tree.map(lambda _: True, x)
    return jax.tree.map(lambda like: not jnp.issubdtype(like.dtype, jnp.inexact), reader.example)


def check_counted(name: str, values: np.ndarray) -> None:
    """Raise `ValueError` if a whole number is too large to be held as one."""
    if not within(values, MOST_COUNTED):
        raise ValueError(
            f"{name} is a whole number beyond {MOST_COUNTED:,} at "
            f"{first_place(np.abs(values.astype(np.float64)) > MOST_COUNTED)}. Number them from 0."
        )


def _check_lookups(x: Inputs, reader: Reader, example: Any) -> None:
    """Raise `ValueError` if a number is looked up in a table that does not have it.

    `example` is a row of `x` as the network sees it.
    """
    parts = jax.tree_util.tree_leaves_with_path(x)
    kinds = [like.dtype for like in jax.tree.leaves(example)]
    for site, num_tokens, places in reader.lookups(example):
        for (path, part), kind, looked_up in zip(parts, kinds, places, strict=True):
            wrong = np.zeros((len(part), math.prod(part.shape[1:])), bool)
            tokens = part.reshape(wrong.shape)[:, looked_up]
            is_whole = tokens == np.floor(tokens)
            is_token = (tokens >= 0) & (tokens < num_tokens) & is_whole
            with np.errstate(over="ignore"):
                # Cast, any other one would be another token.
                is_held = tokens.astype(kind).astype(np.float64) == tokens
            wrong[:, looked_up] = ~(is_token & is_held)
            if not wrong.any():
                continue
            wrong = wrong.reshape(part.shape)
            token = part[wrong][0]
            if token != np.floor(token):
                remedy = "Only whole numbers are tokens."
            elif 0 <= token < num_tokens:
                remedy = (
                    f"In {kind}, which the network computes in, this is the number "
                    f"{token.astype(kind):.0f}. Split the table in several, or let the network "
                    f"compute in float64."
                )
            else:
                remedy = "Give it more of them, or one for all that are not known."
            raise ValueError(
                f"{path_in_words(path)} is {token} at {first_place(wrong)}, and is looked up "
                f"in {site!r}, which has the tokens 0 to {num_tokens - 1}. {remedy}"
            )


def inputs_as_seen(
    x: Inputs, reader: Reader, scaling: Scaling, rows: np.ndarray | None = None
) -> Inputs:
    """Inputs that `check_inputs` gave, as the network sees them, or a `ValueError`.

    `rows` are their numbers in the data that they are a part of.
    """
    if are_several(x) or x.dtype.kind in "iu":
        return x
    if not scaling.x_mean.size:
        return _cast_unscaled(x, reader.dtype)
    seen = scaling.drawn_in(scaling.inputs(x, reader.dtype))
    looked_up = [
        place for *_, places in reader.lookups(row_like(x, reader.dtype)) for place in places[0]
    ]
    far = farthest_cell(seen, looked_up)
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
                f"Column {name!r} of x holds no plain numbers ({kind}). Encode or drop it first, "
                f"or use an estimator of scalemix.sklearn, which encodes."
            )


def _cast_unscaled(x: np.ndarray, dtype: np.dtype, name: str = "x") -> np.ndarray:
    with np.errstate(over="ignore"):
        seen = x.astype(dtype)
    if not within(seen, float(jnp.finfo(dtype).max)):
        raise ValueError(
            f"{name} is too large a number for {dtype} at {first_place(~np.isfinite(seen))}, and "
            f"is not standardised. Divide it by a constant first."
        )
    return seen
