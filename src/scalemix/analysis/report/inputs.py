"""The section of a report on which inputs matter."""

from xml.etree.ElementTree import Element

import numpy as np

from scalemix.analysis.evaluation import shuffling_losses
from scalemix.analysis.report import pictures
from scalemix.analysis.report.page import element, section, table
from scalemix.analysis.report.results import draw_each
from scalemix.analysis.report.story import Story

MOST_INPUTS = 40


def relevance(story: Story) -> Element:
    """Which columns predictions depend on, and which inputs the prior has left on."""
    return section("relevance", "Which inputs matter", *_shuffled(story), *_shares(story))


def _shuffled(story: Story) -> list[Element]:
    if story.test is None:
        return []
    x, y = story.test
    what = "growth of the RMSE" if story.classes is None else "fall of the accuracy"
    return [
        draw_each(
            story,
            lambda fit: pictures.bars(
                shuffling_losses(fit.posterior, x, y, story.groups, seed=0), what
            ),
            "How much worse predictions of unseen rows get when a column is shuffled among them: "
            "what the network uses, which need not be what causes the target. Values near zero, "
            "also below it, are chance.",
        )
    ]


def _shares(story: Story) -> list[Element]:
    contents = [
        element(
            "p",
            "The prior has a view of its own: an input's share of the variance that it gives to "
            "the weights which read the inputs. Where all shares are alike, the prior has not "
            "needed to choose.",
        )
    ]
    columns = []
    for fit in story.fits:
        try:
            shares = fit.posterior.relevance()
        except ValueError as error:
            contents.append(element("p", f"{fit.name}: {error}", class_="note"))
            continue
        if len(shares.inputs):
            columns.append((fit.name, shares.inputs))
        else:
            contents.append(element("p", f"{fit.name}: {shares.remarks[0]}.", class_="note"))
    if columns:
        order = np.argsort(-columns[-1][1], kind="stable")
        rows = [
            (story.features[i], *(f"{values[i]:.1%}" for _, values in columns))
            for i in order[:MOST_INPUTS]
        ]
        heads = [name for name, _ in columns] if len(columns) > 1 else ["share"]
        contents.append(table(["input", *heads], rows))
        if len(order) > MOST_INPUTS:
            contents.append(element("p", f"… and {len(order) - MOST_INPUTS} inputs more."))
    return contents
