"""Warnings that name the line of the user's code that led to them."""

import sys
import warnings
from itertools import count

PACKAGE = __name__.partition(".")[0]


def warn(message: str, category: type[Warning]) -> None:
    """Warn as if the first caller outside this package had done so.

    How many calls lie in between depends on the way in, so that no fixed `stacklevel` is right.
    """
    frame = sys._getframe()
    for level in count(1):
        if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] != PACKAGE:
            warnings.warn(message, category, stacklevel=level)
            return
        frame = frame.f_back
