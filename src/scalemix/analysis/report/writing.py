"""The report as a whole."""

from pathlib import Path

from scalemix._files import replacing
from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.report import inputs, results, sections
from scalemix.analysis.report.page import element, page
from scalemix.analysis.report.story import Story


def build_report(story: Story) -> str:
    """The text of an HTML file that needs nothing else: no script, no other file, no network."""
    found = [
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
    shown = [made for made in found if made is not None]
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
    """What there is to know, for those who read no further."""
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
    """Write the report to a file, whole or not at all."""
    content = build_report(story).encode(errors="replace")
    with replacing(path) as file:
        file.write(content)
