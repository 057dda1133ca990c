"""Work that is handed to other threads."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import numpy as np

Given = ParamSpec("Given")
Result = TypeVar("Result")


def in_this_precision(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, which runs in the precision of this thread in whatever thread it runs.

    `jax.enable_x64` is a setting of one thread alone. In another, JAX would make single precision
    of what double precision was asked for.
    """
    is_double = jax.dtypes.canonicalize_dtype(np.float64) == np.float64

    @functools.wraps(function)
    def run(*arguments: Given.args, **settings: Given.kwargs) -> Result:
        with jax.enable_x64(is_double):
            return function(*arguments, **settings)

    return run
