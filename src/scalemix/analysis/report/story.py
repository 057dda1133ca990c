"""What a report is about: data, and one fit or several to compare."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalemix.analysis.sizes import Sizes
from scalemix.posterior.posterior import Posterior


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of the table, and the inputs of the networks that it became.

    Parameters
    ----------
    name : str
        What it is called.
    places : tuple of int
        Which inputs of the networks it became, by number.
    treatment : str, optional
        What was made of it, gaps included, in words; empty by default.
    values : numpy.ndarray, optional
        Values to show its effect at: numbers, dates or words in order. Without them, and without
        `blocks`, they are found in the rows of the test if it became one input.
    blocks : numpy.ndarray of shape (values, places), optional
        What the inputs are at each of these values.

    Examples
    --------
    >>> from scalemix.analysis.report import Column
    >>> Column("size", (0, 1), "a number; gaps have an input of their own").name
    'size'
    """

    name: str
    places: tuple[int, ...]
    treatment: str = ""
    values: np.ndarray | None = None
    blocks: np.ndarray | None = None


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
        What `scalemix.analysis.evaluation.find_figures` gave on rows that were not trained on; none
        by default.
    settings : dict, optional
        How it was fitted, for those who want to repeat it; none by default.
    sizes : Sizes, optional
        How much of the networks is needed; by default nothing is known of it.
    by_target : list of dict, optional
        The figures of each of several targets by itself; by default they are found from the rows
        of the test.

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
    sizes: Sizes = dataclasses.field(default_factory=Sizes)
    by_target: list[dict[str, float]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Story:
    """What a report is about: the data, and the fits that were made of them.

    Parameters
    ----------
    title : str
        The heading of the report.
    facts : list of tuple of str
        What there is to say about the data, as pairs of a name and a text.
    columns : list of Column
        The columns that the networks predict from.
    target : str
        What the target is called, or what all targets are.
    fits : list of ReportedFit
        One fit, or several to compare. Where only one can be told of, it is the last.
    train : tuple of numpy.ndarray, optional
        Inputs and targets of the rows that were trained on, for baselines to be fitted to.
    test : tuple of numpy.ndarray, optional
        Inputs and targets of rows that were not trained on. Without them there are no pictures of
        predictions.
    plain : tuple of int, optional
        The inputs that baselines take: by default all. Bins are of no use to them.
    classes : tuple of str, optional
        The names of the classes, where the target is one.
    tested_on : str, optional
        Which rows the figures are of, to be used in a sentence; empty by default.
    row_names : sequence of str, optional
        What the rows of the test are called, such as the lines of a file; by default they are
        numbered.
    cells : dict of str to list of str, optional
        What the columns of the table hold in the rows of the test, as text.
    outside : str, optional
        What there is to say of rows of the test that lie outside those of training.
    left_out : dict of str to str, optional
        Columns of the table that are not used, and why.
    targets : sequence of str, optional
        What each of several targets is called; by default they are numbered.
    caution : str, optional
        What is not known of the rows of the test, as a sentence without its
        full stop; empty by default.

    Examples
    --------
    >>> from scalemix.analysis.report import Column, ReportedFit, Story
    >>> story = Story(
    ...     title="A model of y", facts=[("rows", "40")], target="y",
    ...     columns=[Column(name, (i,)) for i, name in enumerate("abc")],
    ...     fits=[ReportedFit("The fit", post)],
    ... )
    >>> len(story.fits)
    1
    """

    title: str
    facts: list[tuple[str, str]]
    columns: list[Column]
    target: str
    fits: list[ReportedFit]
    train: tuple[np.ndarray, np.ndarray] | None = None
    test: tuple[np.ndarray, np.ndarray] | None = None
    plain: tuple[int, ...] | None = None
    classes: tuple[str, ...] | None = None
    tested_on: str = ""
    row_names: Sequence[str] | None = None
    cells: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    outside: str = ""
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    targets: Sequence[str] = ()
    caution: str = ""
