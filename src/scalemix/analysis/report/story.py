"""What a report tells: data, and one fit or several to compare."""

import dataclasses
from typing import Any

import numpy as np

from scalemix.posterior.posterior import Posterior


@dataclasses.dataclass(frozen=True)
class ReportedFit:
    """One fit, and what came of it."""

    name: str
    posterior: Posterior
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    """Of `analysis.evaluation`, on rows that were not trained on; none if there were none."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    sizes: dict[str, str] = dataclasses.field(default_factory=dict)
    """What pruning would leave, or anything else on how large the network is."""


@dataclasses.dataclass(frozen=True)
class Story:
    """The data that fits were made of, and the fits."""

    title: str
    facts: list[tuple[str, str]]
    """What there is to say about the data, as pairs of a name and a text."""
    features: list[str]
    """What each input of the networks is."""
    groups: dict[str, list[int]]
    """Columns of the table, and the inputs of the networks that each became."""
    target: str
    fits: list[ReportedFit]
    test: tuple[np.ndarray, np.ndarray] | None = None
    """Inputs and targets of rows that were not trained on."""
    classes: tuple[str, ...] | None = None
    tested_on: str = ""
    """Which rows the figures are of, for a sentence."""
