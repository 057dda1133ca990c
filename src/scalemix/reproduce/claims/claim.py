"""What one claim of the paper is made of."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Numbers = dict[str, Any]
"""What a claim's experiment measured: plain values, as a JSON file holds them."""


class Verdict(NamedTuple):
    """Whether a part of a claim holds, and the numbers that say so."""

    holds: bool
    words: str


def mean_and_error(values: Any) -> tuple[float, float]:
    """The mean of independent values, and its standard error."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return float(values.mean()), math.inf
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the paper and the experiment that decides it.

    The experiment yields numbers and nothing else. Verdicts and pictures are made of the numbers,
    so that they can be made again from a file of results.
    """

    name: str
    title: str
    source: str
    """Where the paper says it."""
    statement: str
    """What the paper says, in other words."""
    method: str
    """What is computed."""
    measure: Callable[[float], Numbers]
    """The experiment, given the effort: one is all of it, less is shorter and says less."""
    judge: Callable[[Numbers], list[Verdict]]
    show: Callable[[Numbers], str] | None = None
    """A table, where one helps."""
    draw: Callable[[Numbers], Any] | None = None
    """A figure, where one helps."""
