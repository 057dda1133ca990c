"""Pictures of the results: what is left against the error, and the pixels that are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scalemix.reproduce.compression.networks import SIDE
from scalemix.reproduce.compression.published import PUBLISHED
from scalemix.reproduce.figures.drawing import COLOURS, canvas, save

OURS, WHOLE, OTHERS = COLOURS[0], COLOURS[1], COLOURS[6]


def draw(content: Mapping[str, Any], folder: str | Path) -> None:
    """Write compression.png and pixels.png, and both as SVG."""
    networks = content["networks"]
    figure, axes = canvas(len(networks), 3, 13, 3.8 * len(networks))
    for row, (name, found) in zip(axes, networks.items(), strict=True):
        by_temperature = group(found["fits"])
        _draw_trade_off(row[0], name, by_temperature)
        _draw_against_temperature(row[1], by_temperature, {"weights_as_found": "as found", "weights": "in the end"})  # noqa: E501  # fmt: skip
        _draw_against_temperature(row[2], by_temperature, {"whole": "before", "refit": "refitted"})
        row[1].set(yscale="log", ylabel="weights left")
        row[2].set(ylabel="test error, %", ylim=(0, None))
    save(figure, Path(folder), "compression")
    for found in networks.values():
        if "pixels" in found:
            _draw_pixels(found, Path(folder))


def group(fits: Sequence[Mapping[str, Any]]) -> dict[float, list[Mapping[str, Any]]]:
    """The fits of each temperature of which something is left, the coldest first."""
    alive = [fit for fit in fits if fit["refit"] is not None]
    temperatures = sorted({fit["temperature"] for fit in alive})
    return {t: [fit for fit in alive if fit["temperature"] == t] for t in temperatures}


def _draw_trade_off(axis: Any, name: str, fits: Mapping[float, Any]) -> None:
    published = [point for point in PUBLISHED if point.network == name]
    for point in published:
        axis.plot(point.weights, point.error, "s", color=OTHERS, ms=5)
    # Labels of points that lie close together go above one another.
    for place, point in enumerate(sorted(published, key=lambda p: p.weights)):
        axis.annotate(
            point.method, (point.weights, point.error), xytext=(4, 5 + 9 * (place % 3)),
            textcoords="offset points", fontsize="x-small", color=OTHERS,
        )  # fmt: skip
    for temperature, some in fits.items():
        weights, errors = (np.array([fit[key] for fit in some]) for key in ("weights", "refit"))
        axis.plot(weights, errors, ".", color=OURS, alpha=0.4)
        axis.annotate(
            f"{temperature:g}", (weights.mean(), errors.mean()), xytext=(-4, -13),
            textcoords="offset points", fontsize="small", color=OURS,
        )  # fmt: skip
    means = [[np.mean([fit[key] for fit in some]) for some in fits.values()]
             for key in ("weights", "refit")]  # fmt: skip
    axis.plot(*means, "o-", color=OURS, label="scalemix, at these temperatures")
    axis.set(xscale="log", xlabel="weights left", ylabel="test error, %", ylim=(0, None))
    axis.set_title(name, loc="left", fontsize="medium")
    axis.legend(frameon=False, fontsize="small", loc="lower left")


def _draw_against_temperature(
    axis: Any, fits: Mapping[float, Any], curves: Mapping[str, str]
) -> None:
    for (key, label), colour in zip(curves.items(), (WHOLE, OURS), strict=True):
        for temperature, some in fits.items():
            values = [fit[key] for fit in some]
            axis.plot(np.full(len(values), temperature), values, ".", color=colour, alpha=0.4)
        means = [np.mean([fit[key] for fit in some]) for some in fits.values()]
        axis.plot(list(fits), means, "o-", color=colour, label=label)
    axis.set(xlabel="temperature")
    axis.legend(frameon=False, fontsize="small")


def _draw_pixels(found: Mapping[str, Any], folder: Path) -> None:
    """How many seeds read each pixel, one picture a temperature."""
    pixels, fits = found["pixels"], found["fits"]
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
