"""Pictures of the results: what is left against the error, and the pixels that are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scalemix.reproduce.compression.networks import SIDE
from scalemix.reproduce.compression.published import PUBLISHED, Published
from scalemix.reproduce.figures.drawing import COLOURS, canvas, save

OURS, WHOLE, OTHERS = COLOURS[0], COLOURS[1], COLOURS[6]


def draw(content: Mapping[str, Any], folder: str | Path) -> None:
    """Write compression.png and pixels.png, and both as SVG."""
    networks = content["networks"]
    figure, axes = canvas(len(networks), 3, 13, 3.8 * len(networks))
    for row, (name, results) in zip(axes, networks.items(), strict=True):
        by_temperature = group(results["fits"])
        _draw_trade_off(row[0], name, by_temperature)
        left = {"weights_as_found": "as found", "weights": "in the end"}
        _draw_against_temperature(row[1], by_temperature, left)
        _draw_against_temperature(row[2], by_temperature, {"whole": "whole", "refit": "refitted"})
        row[1].set(ylabel="weights left")
        _count_in_thousands(row[1].yaxis)
        row[2].set(ylabel="test error, %")
    save(figure, Path(folder), "compression")
    for results in networks.values():
        if "pixels" in results:
            _draw_pixels(results, Path(folder))


def group(fits: Sequence[Mapping[str, Any]]) -> dict[float, list[Mapping[str, Any]]]:
    """The fits of each temperature of which something is left, the coldest first."""
    alive = [fit for fit in fits if fit["refit"] is not None]
    temperatures = sorted({fit["temperature"] for fit in alive})
    return {t: [fit for fit in alive if fit["temperature"] == t] for t in temperatures}


def _draw_trade_off(axis: Any, name: str, fits: Mapping[float, Any]) -> None:
    published = [point for point in PUBLISHED if point.network == name]
    for point in published:
        axis.plot(point.weights, point.error, "s", color=OTHERS, ms=5)
    for some in _close_together(published):
        axis.annotate(
            "\n".join(point.method for point in some), (some[0].weights, some[0].error),
            xytext=(1, 6), rotation=50, textcoords="offset points", fontsize="x-small",
            color=OTHERS,
        )  # fmt: skip
    means = []
    for temperature, some in fits.items():
        weights, errors = (np.array([fit[key] for fit in some]) for key in ("weights", "refit"))
        axis.plot(weights, errors, ".", color=OURS, alpha=0.4)
        means.append((weights.mean(), errors.mean()))
        axis.annotate(
            f"T = {temperature:g}", means[-1], xytext=(-6, -14), textcoords="offset points",
            fontsize="small", color=OURS, ha="right",
        )  # fmt: skip
    axis.plot(
        *zip(*sorted(means), strict=True), "o-", color=OURS, label="scalemix, mean of the seeds"
    )
    errors = [error for _, error in means] + [point.error for point in published]
    lowest, highest = min(errors), max(errors)
    # Room for the names of the published points above, and for the legend below.
    limits = (0.75 * lowest, highest + 0.7 * (highest - lowest))
    axis.set(ylabel="test error, %", ylim=limits, xlabel="weights left")
    _count_in_thousands(axis.xaxis)
    axis.margins(x=0.25)
    axis.set_title(name, loc="left", fontsize="medium")
    axis.legend(frameon=False, fontsize="small", loc="lower left")


def _close_together(points: Sequence[Published]) -> list[list[Published]]:
    """The points in groups whose names would lie upon one another."""
    groups: list[list[Published]] = []
    for point in sorted(points, key=lambda p: (p.error, p.weights)):
        last = groups[-1][-1] if groups else None
        if last and last.error == point.error and point.weights < 1.2 * last.weights:
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _count_in_thousands(axis: Any) -> None:
    """A logarithmic axis with few ticks, in plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(FixedLocator([n * 10**k for k in range(2, 6) for n in (1, 2, 3, 5)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}k"))


def _draw_against_temperature(
    axis: Any, fits: Mapping[float, Any], curves: Mapping[str, str]
) -> None:
    # What is left in the end has limits of its own at some temperatures: no line runs through it.
    for (key, label), colour, style in zip(curves.items(), (WHOLE, OURS), ("o-", "o"), strict=True):
        for temperature, some in fits.items():
            values = [fit[key] for fit in some]
            axis.plot(np.full(len(values), temperature), values, ".", color=colour, alpha=0.4)
        means = [np.mean([fit[key] for fit in some]) for some in fits.values()]
        axis.plot(list(fits), means, style, color=colour, label=label)
    axis.set(xlabel="temperature")
    axis.legend(frameon=False, fontsize="small")


def _draw_pixels(results: Mapping[str, Any], folder: Path) -> None:
    """How many seeds read each pixel, one picture a temperature."""
    pixels, fits = results["pixels"], results["fits"]
    num_seeds = len({fit["seed"] for fit in fits})
    figure, (row,) = canvas(1, len(pixels), 3.0 * len(pixels), 3.4)
    for axis, (temperature, digits) in zip(row, pixels.items(), strict=True):
        image = np.array([int(digit) for digit in digits]).reshape(SIDE, SIDE)
        axis.imshow(image, cmap="Greys", vmin=0, vmax=num_seeds)
        axis.set(xticks=[], yticks=[])
        axis.spines[["top", "right"]].set_visible(True)
        title = f"temperature {temperature}: {image.sum() / num_seeds:.0f} of {SIDE * SIDE}"
        axis.set_title(title, loc="left", fontsize="small")
    save(figure, folder, "pixels")
