"""Large arrays whose memory goes back to the system as soon as they are gone."""

import math
import mmap
from typing import Any

import numpy as np

# Smaller arrays are left to the C library.
LEAST_BYTES = 2**20


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array to be filled, on pages of its own.

    The C library keeps memory that one thread allocates and another lets go, and its free pieces
    do not fit the next array. Over many windows of rows it would keep more and more: 10 MB for each
    million rows of 20 columns.
    """
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if num_bytes < LEAST_BYTES:
        return np.empty(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, num_bytes), dtype).reshape(shape)
