"""The report as a whole."""

from pathlib import Path

from scalemix._files import replacing
from scalemix._text import listing
from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.report import columns, effects, quality, rows, sections
from scalemix.analysis.report.page import element, page
from scalemix.analysis.report.story import Story
from scalemix.analysis.report.study import Study


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
    >>> from scalemix.analysis.report import Column, ReportedFit, Story, build_report
    >>> story = Story(
    ...     title="A model of y", facts=[("rows", "40")], target="y",
    ...     columns=[Column(name, (i,)) for i, name in enumerate("abc")],
    ...     fits=[ReportedFit("The fit", post)],
    ... )
    >>> build_report(story).startswith("<!doctype html>")
    True
    """
    study = Study(story)
    # What it is worth comes first, and how it was made last.
    sections_made = [
        make(study)
        for make in (
            quality.figures,
            quality.calibration,
            columns.relevance,
            effects.effects,
            rows.uncertain,
            rows.more,
            sections.data,
            sections.model,
            sections.size,
            sections.training,
            sections.settings,
        )
    ]
    shown = [made for made in sections_made if made is not None]
    links = [
        element("li", element("a", made[0].text or "", href=f"#{made.get('id')}")) for made in shown
    ]
    return page(
        story.title,
        element(
            "header",
            element("a", "Skip to the figures", href="#figures", class_="skip"),
            element("h1", story.title),
            element("p", summary(study), class_="lead"),
        ),
        element("nav", element("ul", *links), **{"aria-label": "Sections"}),
        element("main", *shown),
        element(
            "footer",
            "Written by scalemix. All pictures are in this file; opening it asks nothing of any "
            "server.",
        ),
    )


def summary(study: Study) -> str:
    """The result in a sentence or two, for those who read no further."""
    story = study.story
    best = story.fits[-1].figures
    num = len(story.columns)
    targets = listing(story.targets if len(story.targets) > 1 else [story.target])
    what = f"Predicts {targets} from {num} column{'s' * (num != 1)}."
    if "accuracy" in best:
        # No model knows the commonest class of the training rows. Of other rows nobody knows it.
        others = [] if isinstance(study.baselines, str) else study.baselines.fitted
        without = [f"no model: {MEASURES['accuracy'].show(o.figures['accuracy'])}" for o in others]
        aside = f" ({without[0]})" if without else ""
        return (
            f"{what} On {story.tested_on} it names the right class "
            f"{MEASURES['accuracy'].show(best['accuracy'])} of the time{aside}."
        )
    if study.num_targets > 1 and {"r2", "coverage"} <= best.keys():
        return (
            f"{what} On {story.tested_on} it explains {MEASURES['r2'].show(best['r2'])} of the "
            f"variance on average over the targets, and "
            f"{MEASURES['coverage'].show(best['coverage'])} of them lie in their 90% intervals."
        )
    if "concordance" in best:
        return (
            f"{what} On {story.tested_on} it tells which of two lasts longer "
            f"{best['concordance']:.1%} of the time (by chance: 50%)."
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
    >>> from scalemix.analysis.report import Column, ReportedFit, Story, write_report
    >>> story = Story(
    ...     title="A model of y", facts=[("rows", "40")], target="y",
    ...     columns=[Column(name, (i,)) for i, name in enumerate("abc")],
    ...     fits=[ReportedFit("The fit", post)],
    ... )
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(path, story)
    >>> path.exists()
    True
    """
    content = build_report(story).encode(errors="replace")
    with replacing(path) as file:
        file.write(content)
