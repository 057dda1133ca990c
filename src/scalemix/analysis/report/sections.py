"""The sections of a report on data, model and training.

Where a report is of several fits, each picture is drawn once for each of them.
"""

import dataclasses
import platform
from importlib import metadata
from xml.etree.ElementTree import Element

from scalemix.analysis.report import pictures, words
from scalemix.analysis.report.page import element, picture, section, table
from scalemix.analysis.report.results import draw_each
from scalemix.analysis.report.story import Story

PACKAGES = ("scalemix", "jax", "equinox", "optax", "numpy")


def data(story: Story) -> Element:
    """What the fits were made of."""
    return section("data", "The data", table(["", ""], story.facts, numbers=False))


def model(story: Story) -> Element:
    """What was fitted, in words and as a table of layers."""
    contents = []
    for fit in story.fits:
        if len(story.fits) > 1:
            contents.append(element("h3", fit.name))
        contents.append(element("p", words.describe_network(fit.posterior)))
        contents.append(element("p", words.describe_method(fit.posterior)))
        contents.append(
            element("ul", *(element("li", line) for line in words.describe_prior(fit.posterior)))
        )
        shapes = {site.name: site.shape for site in fit.posterior.model.sites}
        rows = [
            (name, " × ".join(map(str, shapes[name])), prior)
            for name, prior in words.priors_by_layer(fit.posterior).items()
        ]
        contents.append(table(["layer", "weights", "prior"], rows))
    return section("model", "The model", *contents)


def size(story: Story) -> Element:
    """What the network needs, and what could be pruned."""
    contents = [
        element(
            "p",
            "A unit or a layer is off when its weights carry no signal: the data do not need it, "
            "and it can be removed (scalemix prune).",
        )
    ]
    for fit in story.fits:
        if len(story.fits) > 1:
            contents.append(element("h3", fit.name))
        rows = [*fit.sizes.items()]
        if rows:
            contents.append(table(["", ""], rows))
        contents.append(
            picture(
                pictures.heat_maps(fit.posterior),
                f"Size of every weight, {fit.name}",
                "Each weight's second moment, layer by layer, of the first network. A dark row is "
                "a unit that is switched off.",
            )
        )
    return section("size", "How much of the network is needed", *contents)


def training(story: Story) -> Element | None:
    """How the objective rose."""
    fits = [fit for fit in story.fits if fit.posterior.history.objective.shape[-1]]
    if not fits:
        return None
    with_history = dataclasses.replace(story, fits=fits)
    return section(
        "training",
        "Training",
        draw_each(
            with_history,
            lambda fit: pictures.history(fit.posterior),
            "The objective at each step: it should have levelled off. If it still rises at the "
            "end, more steps will help.",
        ),
    )


def settings(story: Story) -> Element:
    """The settings to repeat the fits with, and the versions of what was used."""
    contents = []
    for fit in story.fits:
        if fit.settings:
            contents.append(element("h3", fit.name))
            rows = [(name, str(value)) for name, value in fit.settings.items()]
            contents.append(table(["", ""], rows, numbers=False))
    versions = [(name, metadata.version(name)) for name in PACKAGES]
    versions.append(("Python", platform.python_version()))
    contents += [element("h3", "Versions"), table(["", ""], versions, numbers=False)]
    return section("settings", "Settings and versions", *contents)
