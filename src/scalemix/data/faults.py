"""Which row it is that cannot be used."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Fault(NamedTuple):
    """A row that cannot be used, and what is said of it alone."""

    row: int
    said: str


def first_fault(rows: np.ndarray, check: Callable[[np.ndarray], object]) -> Fault | None:
    """The first row that `check` raises a `ValueError` for, found by halving.

    `None` if it raises none, or none for a row by itself.
    """

    def said_of(rows: np.ndarray) -> str | None:
        try:
            check(rows)
        except ValueError as error:
            return str(error)
        return None

    if not len(rows) or said_of(rows) is None:
        return None
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rows = rows[len(half) :] if said_of(half) is None else half
    said = said_of(rows)
    return None if said is None else Fault(int(rows[0]), said)
