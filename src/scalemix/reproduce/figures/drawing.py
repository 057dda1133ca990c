"""Canvases that need no display, and their files."""

from pathlib import Path
from typing import Any

import numpy as np

# Colours that people with any kind of colour vision tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#6B6B6B")


def canvas(rows: int, columns: int, width: float, height: float) -> tuple[Any, np.ndarray]:
    """A figure, and its axes by row and column."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG."""
    for kind in ("png", "svg"):
        figure.savefig(folder / f"{name}.{kind}", dpi=150)
