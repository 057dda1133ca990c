"""The report as a whole."""

from pathlib import Path

from scalemix._files import replacing
from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.report import inputs, results, sections
from scalemix.analysis.report.page import element, page
from scalemix.analysis.report.story import Story


def build_report(story: Story) -> str:
    """The text of an HTML report that needs nothing else: no script, no other file, no network.

    Parameters
    ----------
    story : Story
        The data and the fits to report on.

    Returns
    -------
    str
        A whole HTML document, its pictures included.

    Examples
    --------
    >>> from scalemix.analysis.report import ReportedFit, Story, build_report
    >>> story = Story(
    ...     title="A model of y", facts=[("rows", "40")], features=["a", "b", "c"],
    ...     groups={"a": [0], "b": [1], "c": [2]}, target="y", fits=[ReportedFit("The fit", post)],
    ... )
    >>> build_report(story).startswith("<!doctype html>")
    True
    """
    sections_made = [
        make(story)
        for make in (
            sections.data,
            sections.model,
            results.figures,
            results.calibration,
            results.intervals,
            inputs.relevance,
            sections.size,
            sections.training,
            sections.settings,
        )
    ]
    shown = [made for made in sections_made if made is not None]
    links = [element("a", made[0].text or "", href=f"#{made.get('id')}") for made in shown]
    return page(
        story.title,
        element("h1", story.title),
        element("p", summary(story), class_="lead"),
        element("nav", *links),
        *shown,
        element(
            "footer",
            "Written by scalemix. All pictures are in this file; opening it asks nothing of any "
            "server.",
        ),
    )


def summary(story: Story) -> str:
    """The result in a sentence or two, for those who read no further."""
    best = story.fits[-1].figures
    what = f"Predicts {story.target!r} from {len(story.features)} inputs."
    if {"accuracy", "baseline_accuracy"} <= best.keys():
        return (
            f"{what} On {story.tested_on} it names the right class "
            f"{MEASURES['accuracy'].show(best['accuracy'])} of the time "
            f"(no model: {MEASURES['accuracy'].show(best['baseline_accuracy'])})."
        )
    if {"mae", "coverage"} <= best.keys():
        return (
            f"{what} On {story.tested_on} it is off by {MEASURES['mae'].show(best['mae'])} on "
            f"average, and {MEASURES['coverage'].show(best['coverage'])} of the targets lie in "
            f"their 90% intervals."
        )
    return what


def write_report(path: Path, story: Story) -> None:
    """Write the report to a file, whole or not at all.

    Parameters
    ----------
    path : pathlib.Path
        Where to write. An earlier file is replaced at once, and survives if this fails.
    story : Story
        The data and the fits to report on.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scalemix.analysis.report import ReportedFit, Story, write_report
    >>> story = Story(
    ...     title="A model of y", facts=[("rows", "40")], features=["a", "b", "c"],
    ...     groups={"a": [0], "b": [1], "c": [2]}, target="y", fits=[ReportedFit("The fit", post)],
    ... )
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(path, story)
    >>> path.exists()
    True
    """
    content = build_report(story).encode(errors="replace")
    with replacing(path) as file:
        file.write(content)
