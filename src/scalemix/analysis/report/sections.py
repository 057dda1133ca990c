"""The sections of a report on data, model and training."""

import platform
from importlib import metadata
from xml.etree.ElementTree import Element

from scalemix.analysis.report import pictures, words
from scalemix.analysis.report.page import element, picture, section, table
from scalemix.analysis.report.story import ReportedFit
from scalemix.analysis.report.study import Study

MOST_TREATED = 100
PACKAGES = ("scalemix", "jax", "equinox", "optax", "numpy")


def data(study: Study) -> Element:
    """What the fits were made of, and what was made of each column."""
    story = study.story
    contents = [table("The data", ["", ""], story.facts, numbers=False)]
    treated = [
        (column.name, column.treatment, f"{len(column.places)}")
        for column in story.columns
        if column.treatment
    ]
    treated += [(name, f"left out: {reason}", "0") for name, reason in story.left_out.items()]
    if treated:
        rest = len(treated) - MOST_TREATED
        contents += [
            element("h3", "How gaps, dates and categories were treated"),
            table(
                "What was made of each column",
                ["column", "what was made of it", "inputs"],
                treated[:MOST_TREATED],
                numbers=False,
            ),
        ]
        if rest > 0:
            contents.append(element("p", f"… and {rest} columns more."))
    return section("data", "The data", *contents)


def model(study: Study) -> Element:
    """What was fitted, in words and as a table of layers."""
    contents = []
    for fit in study.story.fits:
        if len(study.story.fits) > 1:
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
        name = f"Layers{_of(study, fit)}"
        contents.append(table(name, ["layer", "weights", "prior"], rows))
    return section("model", "The model", *contents)


def size(study: Study) -> Element:
    """What the network needs, and what could be pruned."""
    contents = [
        element(
            "p",
            "A hidden unit is one of the numbers that a network computes on the way. The prior may "
            "shrink all weights that read a unit, or all weights of a layer, towards zero, unless "
            "the data speak against it. A unit is off when next to nothing of what it computes is "
            "read any more, and a layer is off when it adds next to nothing to what passes by it, "
            "by the prior's measure.",
        )
    ]
    for fit in study.story.fits:
        if len(study.story.fits) > 1:
            contents.append(element("h3", fit.name))
        contents.append(element("p", words.describe_sizes(fit.sizes, study.story.tested_on)))
        rows = [*fit.sizes.in_words().items()]
        if rows:
            contents.append(table(f"Sizes{_of(study, fit)}", ["", ""], rows))
        dark = "" if fit.sizes.all_on else " A dark row is a unit that is switched off."
        contents.append(
            picture(
                pictures.heat_maps(fit.posterior),
                f"The size of every weight{_of(study, fit)}, layer by layer.",
                f"Each weight's second moment, layer by layer, of the first network.{dark}",
            )
        )
    return section("size", "How much of the network is needed", *contents)


def training(study: Study) -> Element | None:
    """How the objective rose."""
    fits = [fit for fit in study.story.fits if fit.posterior.history.objective.shape[-1]]
    if not fits:
        return None
    made = [
        picture(
            pictures.history(fit.posterior),
            f"The objective{_of(study, fit)} at each step.",
            f"{fit.name}. "
            * (len(study.story.fits) > 1)
            + "The objective at each step: it should have levelled off. If it still rises at the "
            "end, more steps will help.",
        )
        for fit in fits
    ]
    return section("training", "Training", element("div", *made, class_="pictures"))


def _of(study: Study, fit: ReportedFit) -> str:
    """Which fit, where there are several."""
    return f" of {fit.name}" if len(study.story.fits) > 1 else ""


def settings(study: Study) -> Element:
    """The settings to repeat the fits with, and the versions of what was used."""
    contents = []
    for fit in study.story.fits:
        if fit.settings:
            contents.append(element("h3", f"Settings{_of(study, fit)}"))
            rows = [(name, str(value)) for name, value in fit.settings.items()]
            contents.append(table(f"Settings{_of(study, fit)}", ["", ""], rows, numbers=False))
    versions = [(name, metadata.version(name)) for name in PACKAGES]
    versions.append(("Python", platform.python_version()))
    contents += [element("h3", "Versions"), table("Versions", ["", ""], versions, numbers=False)]
    return section("settings", "Settings and versions", *contents)
