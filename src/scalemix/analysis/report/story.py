"""What a report is about: data, and one fit or several to compare."""

import dataclasses
from typing import Any

import numpy as np

from scalemix.posterior.posterior import Posterior


@dataclasses.dataclass(frozen=True)
class ReportedFit:
    """One fit of a report, and what came of it.

    Parameters
    ----------
    name : str
        What to call the fit.
    posterior : Posterior
        What the fit returned.
    figures : dict of str to float, optional
        What `scalemix.analysis.evaluation.evaluate` gave on rows that were not trained on; none by
        default.
    settings : dict, optional
        How it was fitted, for those who want to repeat it; none by default.
    sizes : dict of str to str, optional
        What pruning would leave, or anything else on how large the network is; none by default.

    Examples
    --------
    >>> from scalemix.analysis.report import ReportedFit
    >>> ReportedFit("The fit", post, settings={"seed": 0}).name
    'The fit'
    """

    name: str
    posterior: Posterior
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    sizes: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Story:
    """What a report is about: the data, and the fits that were made of them.

    Parameters
    ----------
    title : str
        The heading of the report.
    facts : list of tuple of str
        What there is to say about the data, as pairs of a name and a text.
    features : list of str
        What each input of the networks is called.
    groups : dict of str to list of int
        The columns of the table, and the inputs of the networks that each became.
    target : str
        What the target is called.
    fits : list of ReportedFit
        One fit, or several to compare.
    test : tuple of numpy.ndarray, optional
        Inputs and targets of rows that were not trained on. Without them there are no pictures of
        predictions.
    classes : tuple of str, optional
        The names of the classes, where the target is one.
    tested_on : str, optional
        Which rows the figures are of, to be used in a sentence; empty by default.

    Examples
    --------
    >>> from scalemix.analysis.report import ReportedFit, Story
    >>> story = Story(
    ...     title="A model of y", facts=[("rows", "40")], features=["a", "b", "c"],
    ...     groups={"a": [0], "b": [1], "c": [2]}, target="y", fits=[ReportedFit("The fit", post)],
    ... )
    >>> len(story.fits)
    1
    """

    title: str
    facts: list[tuple[str, str]]
    features: list[str]
    groups: dict[str, list[int]]
    target: str
    fits: list[ReportedFit]
    test: tuple[np.ndarray, np.ndarray] | None = None
    classes: tuple[str, ...] | None = None
    tested_on: str = ""
