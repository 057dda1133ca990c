"""Pictures as data URIs, each drawn on a figure of its own: no window, no shared state."""

import base64
import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.analysis import plots
from scalemix.analysis.report.page import Image
from scalemix.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A picture of intervals gets no clearer with more rows than this.
MOST_ROWS = 300
LONGEST_NAME = 36
# Pixels of the page for an inch of a picture, which has twice as many dots for fine screens.
SHOWN = 90
DOTS = 2 * SHOWN


def draw(
    paint: "Callable[[list[Axes]], Any]", num: int = 1, width: float = 6.0, height: float = 3.8
) -> Image:
    """A picture of what `paint` draws into `num` axes side by side; sizes are in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, num, squeeze=False)[0])
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


def intervals(posterior: Posterior, x: np.ndarray, y: np.ndarray, target: str) -> Image:
    """Predictive means and intervals of the rows, or of some of them, and their targets."""
    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).astype(int))
    predictive = posterior.predict(x[some])
    return draw(lambda axes: plots.intervals(predictive, y[some], target=plain(target), ax=axes[0]))


def calibration(cdf_values: np.ndarray) -> Image:
    """The calibration curve."""
    return draw(lambda axes: plots.calibration(cdf_values, ax=axes[0]), width=4.6, height=4.4)


def reliability(probabilities: np.ndarray, y: np.ndarray, num_bins: int = 10) -> Image:
    """How often the most probable class was right, against how probable it was said to be."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    counts = np.bincount(bins, minlength=num_bins)
    seen = counts > 0
    said = np.bincount(bins, weights=confidence, minlength=num_bins)[seen] / counts[seen]
    observed = np.bincount(bins, weights=right, minlength=num_bins)[seen] / counts[seen]
    # Two standard errors of the share that is right in so many rows, if the confidence is true.
    slack = 2 * np.sqrt(said * (1 - said) / counts[seen])

    def paint(axes: "list[Axes]") -> None:
        (ax,) = axes
        ax.plot([0, 1], [0, 1], color=plots.GREY, linestyle="--", linewidth=1, label="calibrated")
        ax.vlines(
            said, np.maximum(said - slack, 0), np.minimum(said + slack, 1), color=plots.GREY,
            alpha=0.35, linewidth=6, label="chance",
        )  # fmt: skip
        ax.plot(said, observed, "o-", color=plots.BLUE, linewidth=1.5, label="observed")
        ax.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
        ax.set(xlabel="stated probability of the class", ylabel="share that was right")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="small", loc="upper left")

    return draw(paint, width=4.6, height=4.4)


def bars(values: dict[str, float], label: str, top: int = 20) -> Image:
    """A bar for each of the largest values."""
    height = 1.2 + 0.26 * min(len(values), top + 1)
    # Names that become alike when they are cut short still have a bar each.
    names, sizes = [plain(name) for name in values], np.array(list(values.values()))
    return draw(
        lambda axes: plots.relevance(sizes, names, top=top, label=label, ax=axes[0]),
        width=5.6,
        height=height,
    )


def heat_maps(posterior: Posterior) -> Image:
    """The weights of every layer of the first network."""
    num = len(posterior.model.sites)
    return draw(
        lambda axes: plots.heat_maps(posterior, axes=axes), num, width=3.4 * num, height=3.4
    )


def history(posterior: Posterior) -> Image:
    """The objective at each step."""
    return draw(lambda axes: plots.history(posterior, ax=axes[0]))
