"""Pictures as data URIs, each drawn on a figure of its own: no window, no shared state."""

import base64
import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.analysis import plots
from scalemix.analysis.effects import Effect, Importance
from scalemix.analysis.learning_curve import Curve
from scalemix.analysis.plots.axes import plain_numbers
from scalemix.analysis.report.page import Image
from scalemix.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A picture of intervals gets no clearer with more rows than this.
MOST_ROWS = 300
# Of so many classes each has a picture of its own.
MOST_PANELS = 6
LONGEST_NAME = 36
# Pixels of the page for an inch of a picture, which has twice as many dots for fine screens.
SHOWN = 90
DOTS = 2 * SHOWN


def draw(
    paint: "Callable[[list[Axes]], Any]",
    across: int = 1,
    down: int = 1,
    *,
    width: float = 6.0,
    height: float = 3.8,
) -> Image:
    """A picture of what `paint` draws into axes beside and below each other; sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).reshape(-1))
    paint(axes)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes; the table beside it has the full name.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return Image(source, round(width * SHOWN))


def plain(name: str) -> str:
    """A name from the user as text for a picture: short, on one line, without mathematics."""
    name = " ".join(name.split())
    name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return name.replace("$", r"\$")


def intervals(
    posterior: Posterior, x: np.ndarray, y: np.ndarray, target: str, column: int | None
) -> Image:
    """Predictive means and intervals of the rows, or of some of them, and their targets."""
    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).astype(int))
    predictive = posterior.predict(x[some])

    def paint(axes: "list[Axes]") -> None:
        ax = plots.intervals(predictive, y[some], target=plain(target), column=column, ax=axes[0])
        # Above, where it hides none of the rows.
        above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2}
        ax.legend(frameon=False, fontsize="small", **above)

    return draw(paint, width=5.4)


def calibration(cdf_values: np.ndarray) -> Image:
    """The calibration curve."""
    return draw(lambda axes: plots.calibration(cdf_values, ax=axes[0]), width=4.6, height=4.4)


def class_calibration(
    probabilities: np.ndarray, y: np.ndarray, shown: list[int], classes: tuple[str, ...]
) -> Image:
    """How often each class came, against the probability that it was given."""
    across = min(len(shown), 2)
    down = -(-len(shown) // across)

    def paint(axes: "list[Axes]") -> None:
        for ax, place in zip(axes, shown, strict=False):
            plots.class_calibration(probabilities[:, place], y == place, ax=ax)
            ax.set_title(plain(classes[place]), loc="left", fontsize="medium")
        for ax in axes[1:]:
            legend = ax.get_legend()
            if legend is not None:
                legend.remove()
        for ax in axes[len(shown) :]:
            ax.set_visible(False)

    return draw(paint, across, down, width=2.9 * across, height=3.0 * down)


def importance(estimate: Importance, names: list[str], relevance: np.ndarray | None) -> Image:
    """What predictions lose without each column, and the prior's relevance beside it."""
    top = 15
    rows = min(len(names), top)
    return draw(
        lambda axes: plots.importance(
            estimate, [plain(name) for name in names], relevance, top=top, ax=axes[0]
        ),
        width=5.8,
        height=1.4 + 0.36 * rows,
    )


def effects(estimates: list[Effect], target: str, bounds: tuple[float, float]) -> list[Image]:
    """A picture for each effect: a curve, points, or a map of two columns.

    `bounds` are those of the prediction, which curves of single rows that are moved may leave.
    """
    made = []
    for effect in estimates:
        shown = effect._replace(names=tuple(plain(name) for name in effect.names))

        def paint(axes: "list[Axes]", shown: Effect = shown) -> None:
            ax = plots.effect(shown, target=plain(target), ax=axes[0])
            if len(shown.columns) == 1:
                low, high = ax.get_ylim()
                ax.set_ylim(max(low, bounds[0]), min(high, bounds[1]))

        made.append(draw(paint, width=4.2, height=3.1))
    return made


def learning_curves(curves: list[Curve], ours: float | None, label: str) -> Image:
    """The errors of baselines by the number of rows, and ours at all of them."""

    def paint(axes: "list[Axes]") -> None:
        (ax,) = axes
        for curve, colour, mark in zip(curves, (plots.GREY, plots.RED), "sD", strict=False):
            ax.errorbar(
                curve.sizes, curve.errors, curve.spread, color=colour, marker=mark, markersize=4,
                linewidth=1.4, capsize=3, label=curve.name,
            )  # fmt: skip
        if ours is not None:
            size = curves[0].sizes[-1]
            ax.plot([size], [ours], "o", color=plots.BLUE, markersize=7, label="this model")
        ax.set_xscale("log", base=2)
        sizes = curves[0].sizes
        ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
        ax.minorticks_off()
        ax.set(xlabel="rows to train on", ylabel=label)
        plain_numbers(ax.yaxis)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="small")

    return draw(paint, width=5.4, height=3.4)


def heat_maps(posterior: Posterior) -> Image:
    """The weights of every layer of the first network."""
    num = len(posterior.model.sites)
    return draw(
        lambda axes: plots.heat_maps(posterior, axes=axes), num, width=3.4 * num, height=3.4
    )


def history(posterior: Posterior) -> Image:
    """The objective at each step."""
    return draw(lambda axes: plots.history(posterior, ax=axes[0]))
