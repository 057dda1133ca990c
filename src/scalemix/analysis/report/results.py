"""The sections of a report on how good predictions are."""

from collections.abc import Callable
from xml.etree.ElementTree import Element

import numpy as np

from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.report import pictures
from scalemix.analysis.report.page import Image, element, picture, section, table
from scalemix.analysis.report.story import ReportedFit, Story

MOST_CLASSES = 12


def figures(story: Story) -> Element:
    """The figures, and what each means."""
    if not any(fit.figures for fit in story.fits):
        return section(
            "figures", "How good it is", element("p", "No rows were held out: nothing is known.")
        )
    names = list(dict.fromkeys(name for fit in story.fits for name in fit.figures))
    rows = [
        (
            MEASURES[name].label,
            *(_show(name, fit.figures.get(name)) for fit in story.fits),
            MEASURES[name].meaning,
        )
        for name in names
    ]
    heads = [fit.name if len(story.fits) > 1 else "value" for fit in story.fits]
    intro = f"Measured on {story.tested_on}." if story.tested_on else ""
    return section(
        "figures",
        "How good it is",
        element("p", intro),
        table(["", *heads, "what it means"], rows),
    )


def _show(name: str, value: float | None) -> str:
    return "" if value is None else MEASURES[name].show(value)


def calibration(story: Story) -> Element | None:
    """Whether stated probabilities come true."""
    if story.test is None:
        return None
    x, y = story.test
    if story.classes is not None:
        return section(
            "calibration",
            "Are its probabilities true?",
            draw_each(
                story,
                lambda fit: pictures.reliability(fit.posterior.predict(x).mean, y),
                "How often the most probable class was right, against the probability it was "
                "given. On the dashed line they agree; below it the model is too sure of itself. "
                "Grey: what chance alone does to so few rows.",
            ),
            *_confusions(story),
        )
    return section(
        "calibration",
        "Are its probabilities true?",
        draw_each(
            story,
            lambda fit: pictures.calibration(fit.posterior.predict(x).cdf(y)),
            "The share of targets below each predicted quantile. On the diagonal the two agree; "
            "grey is what chance alone does to so few rows. Where rows were set apart in training, "
            "intervals are also widened or narrowed by what those showed.",
        ),
    )


def intervals(story: Story) -> Element | None:
    """Predictions and what happened."""
    if story.test is None or story.classes is not None:
        return None
    x, y = story.test
    return section(
        "intervals",
        "Predictions and what happened",
        draw_each(
            story,
            lambda fit: pictures.intervals(fit.posterior, x, y, story.target),
            "Rows that were not trained on, from the lowest prediction to the highest, with their "
            "90% intervals. About one in ten should lie outside.",
        ),
    )


def _confusions(story: Story) -> list[Element]:
    assert story.test is not None
    classes = story.classes or ()
    if len(classes) > MOST_CLASSES:
        return []
    x, y = story.test
    contents = []
    for fit in story.fits:
        guess = fit.posterior.predict(x).mean.argmax(axis=1)
        counts = np.zeros((len(classes), len(classes)), int)
        np.add.at(counts, (y, guess), 1)
        rows = [(f"is {name}", *map(str, row)) for name, row in zip(classes, counts, strict=True)]
        if len(story.fits) > 1:
            contents.append(element("h3", fit.name))
        contents.append(table(["", *(f"said {name}" for name in classes)], rows))
    return contents


def draw_each(story: Story, draw: Callable[[ReportedFit], Image], caption: str) -> Element:
    """A picture for each fit, side by side where there is room."""
    several = len(story.fits) > 1
    made = [
        picture(draw(fit), f"{fit.name}. {caption}", fit.name if several else caption)
        for fit in story.fits
    ]
    if several:
        return element("div", element("p", caption), element("div", *made, class_="pictures"))
    return element("div", *made)
