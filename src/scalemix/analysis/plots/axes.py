"""Axes, and the looks that all pictures share."""

from typing import TYPE_CHECKING, Any

from scalemix.analysis.numbers import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

BLUE, RED, GREY, SKY = "#0072B2", "#D55E00", "#6B6B6B", "#56B4E9"


def new_axes(num: int = 1, width: float = 6.0, height: float = 3.8) -> "list[Axes]":
    """Axes side by side."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            'Pictures need matplotlib, which is not installed: pip install "scalemix[plot]"'
        ) from None
    _, axes = plt.subplots(1, num, figsize=(width, height), layout="constrained", squeeze=False)
    return list(axes[0])


def tidy(ax: "Axes", xlabel: str, ylabel: str, title: str | None = None) -> None:
    """Labels, and no frame."""
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if title is not None:
        ax.set_title(title, loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)


def plain_numbers(axis: "Axis") -> None:
    """Large numbers in full, with commas, and not as a number and a power of ten apart."""
    if max(map(abs, axis.get_view_interval())) >= 1e4:
        axis.set_major_formatter(lambda value, _: number(value, 6, separated_from=1e4))


def legend(ax: "Axes", **arguments: Any) -> None:
    """A legend without a frame."""
    ax.legend(frameon=False, fontsize="small", **arguments)
