"""Warnings that name the line of the user's code that led to them."""

import hashlib
import sys
import warnings
from itertools import count

import numpy as np

# Methods of Equinox modules are called by Equinox.
INSIDE = {__name__.partition(".")[0], "equinox"}
# How many remarks are remembered: enough for a program that goes through a few sets of rows.
MOST_REMEMBERED = 256


def warn(message: str, category: type[Warning]) -> None:
    """Warn as if the first caller outside this package had done so.

    How many calls lie in between depends on the way in, so that no fixed `stacklevel` is right.
    """
    frame = sys._getframe()
    for level in count(1):
        if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] not in INSIDE:
            warnings.warn(message, category, stacklevel=level)
            return
        frame = frame.f_back


class Said:
    """What was said of which rows, so that it is not said again at every question about them."""

    def __init__(self) -> None:
        self._digests: dict[bytes, None] = {}

    def warn(self, message: str, category: type[Warning], rows: np.ndarray | None = None) -> None:
        """Warn, unless the same was said of the same rows."""
        digest = hashlib.blake2b(message.encode())
        if rows is not None:
            digest.update(np.ascontiguousarray(rows).data)
        if digest.digest() in self._digests:
            return
        # First: where warnings are errors, this call fails, and so should the next one.
        warn(message, category)
        while len(self._digests) >= MOST_REMEMBERED:
            del self._digests[next(iter(self._digests))]
        self._digests[digest.digest()] = None
