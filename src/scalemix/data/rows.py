"""Inputs as rows: one array, or several that belong together in a dict or a tuple."""

from typing import Any

import jax
import numpy as np

Inputs = Any
"""An array with the examples along its first axis, or a dict or tuple of such."""


def are_several(x: Any) -> bool:
    """Whether these are several inputs, and not one that NumPy makes an array of."""
    if isinstance(x, dict):
        return True
    parts = x if isinstance(x, tuple) else ()
    return bool(parts) and all(hasattr(part, "shape") or are_several(part) for part in parts)


def is_table(x: Inputs) -> bool:
    """Whether this is one array of rows and columns."""
    return not are_several(x) and x.ndim == 2


def num_rows(x: Inputs) -> int:
    """How many examples there are."""
    return len(jax.tree.leaves(x)[0])


def take_rows(x: Inputs, rows: Any) -> Inputs:
    """Some of the examples."""
    return jax.tree.map(lambda part: part[rows], x)


def row_like(x: Inputs, dtype: Any = None) -> Any:
    """The shapes and types of one example; real numbers, and whole ones too, as `dtype` if given.

    Types are those that JAX holds such numbers in.
    """

    def like(part: np.ndarray) -> jax.ShapeDtypeStruct:
        kind = jax.dtypes.canonicalize_dtype(part.dtype if dtype is None else dtype)
        return jax.ShapeDtypeStruct(part.shape[1:], kind)

    return jax.tree.map(like, x)


def path_in_words(path: Any) -> str:
    """`x['image']`, for a place in several inputs."""
    return "x" + jax.tree_util.keystr(path)
