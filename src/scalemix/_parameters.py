"""Parameters as users give them: plain numbers or arrays, checked where possible."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike

Real = Array | float
"""A parameter: a plain number, or an array of them."""


def as_array(value: ArrayLike) -> Array:
    """A floating-point array; plain numbers stay weakly typed, so they never widen a network."""
    array = jnp.asarray(float(value) if isinstance(value, int) else value)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)


def as_parameter(value: ArrayLike) -> Real:
    """A plain number stays one, so that the instance is hashable and has no precision."""
    if isinstance(value, int | float | np.integer | np.floating):
        return float(value)
    dtype = getattr(value, "dtype", None)
    if dtype is None or not jnp.isdtype(dtype, ("real floating", "integral")):
        raise ValueError(f"A parameter must be a real number or an array of them, got {value!r}.")
    return as_array(value)


def require(condition: Array | bool, message: str) -> None:
    """Raise `ValueError` unless the condition holds. Values that are traced are not checked."""
    if not isinstance(condition, Tracer) and not np.all(np.asarray(condition)):
        raise ValueError(message)


def as_plain_numbers(settings: Any) -> None:
    """Turn NumPy's numbers among the fields of a frozen dataclass into plain ones."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(settings, field.name, value.item())
