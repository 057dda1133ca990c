"""Which figures there are: how each is drawn, and how it is put into words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from scalemix.reproduce.figures.heat_maps import describe_heat_maps, draw_heat_maps
from scalemix.reproduce.figures.variances import describe_variances, draw_variances
from scalemix.reproduce.figures.weights import describe_weights, draw_weights
from scalemix.reproduce.plans import Plan


class Figure(NamedTuple):
    """A figure that is drawn into a folder, measured, and described by what was measured."""

    draw: Callable[[Path, Plan, bool | None], dict[str, Any]]
    describe: Callable[[dict[str, Any]], str]


FIGURES = {
    "figure1a": Figure(draw_weights, describe_weights),
    "figure1b": Figure(draw_variances, describe_variances),
    "figure2": Figure(draw_heat_maps, describe_heat_maps),
}


def figure_words(content: dict[str, Any]) -> dict[str, str]:
    """A paragraph on each figure, from the measures in the results."""
    measured = content.get("figures", {})
    return {
        name: figure.describe(measured[name]) if name in measured else "It was not measured."
        for name, figure in FIGURES.items()
    }
