"""Pictures of what a model makes of its columns."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.analysis.effects import Effect
from scalemix.analysis.importance import LOG_LIKELIHOOD, Importance
from scalemix.analysis.numbers import as_cell
from scalemix.analysis.plots.axes import BLUE, GREY, RED, SKY, legend, new_axes, plain_numbers, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The letters of a word on an axis, and of all words that stand beside each other there.
LONGEST_WORD, LONGEST_LINE = 16, 26
# The most numbers beside an axis of a map.
MOST_TICKS = 4


def effect(
    estimate: Effect,
    names: Sequence[str] | None = None,
    *,
    target: str = "mean prediction",
    most_curves: int = 30,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the effect of a column with its band, or that of two columns as a map.

    Parameters
    ----------
    estimate : Effect
        What `scalemix.analysis.effects.effect` gave.
    names : sequence of str, optional
        What all columns of the table are called; by default as in the frame, and columns of an
        array are numbered.
    target : str, default "mean prediction"
        What to call the prediction.
    most_curves : int, default 30
        The most curves of single rows to draw. They have the mean of the effect taken off and
        added back, so that shapes can be compared.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> from scalemix.analysis.effects import effect
    >>> ax = plots.effect(effect(post, x, 0, num_values=5), ["a", "b", "c"])
    >>> ax.get_xlabel()
    'a'
    """
    ax = new_axes()[0] if ax is None else ax
    labels = estimate.names if names is None else [str(names[c]) for c in estimate.columns]
    if len(estimate.columns) == 2:
        first, second = (np.arange(len(grid)) for grid in estimate.grids)
        mesh = ax.pcolormesh(first, second, estimate.mean.T, cmap="cividis", shading="nearest")
        for axis, grid in ((ax.xaxis, estimate.grids[0]), (ax.yaxis, estimate.grids[1])):
            # Numbers in between can be guessed, words cannot. Those that are
            # written stand equally far apart, for neighbours would run into each other.
            some = np.arange(len(grid))
            if grid.dtype.kind in "biufM":
                some = some[:: math.ceil(len(grid) / MOST_TICKS)]
            axis.set_ticks(some, [_short(grid[place]) for place in some])
        bar = ax.figure.colorbar(mesh, ax=ax, label=target)
        plain_numbers(bar.ax.yaxis)
        tidy(ax, *labels)
        return ax
    (grid,) = estimate.grids
    centred = (
        estimate.individual - estimate.individual.mean(axis=1, keepdims=True) + estimate.mean.mean()
    )
    some = np.unique(np.linspace(0, len(centred) - 1, min(len(centred), most_curves)).astype(int))
    if grid.dtype.kind in "biufM":
        ax.plot(grid, centred[some].T, color=GREY, alpha=0.25, linewidth=0.7)
        ax.fill_between(grid, estimate.lower, estimate.upper, color=SKY, alpha=0.5, linewidth=0)
        ax.plot(grid, estimate.mean, color=BLUE, linewidth=1.8)
        if grid.dtype.kind != "M":
            plain_numbers(ax.xaxis)
    else:
        below, above = estimate.mean - estimate.lower, estimate.upper - estimate.mean
        ax.errorbar(np.arange(len(grid)), estimate.mean, (below, above), fmt="o", color=BLUE)
        words = [_cut(str(value)) for value in grid]
        # Long words would run into each other.
        crowded = sum(map(len, words)) > LONGEST_LINE
        turned = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        ax.set_xticks(np.arange(len(grid)), words, **turned)
        ax.margins(x=0.08)
    if grid.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        # With two ticks it goes from months to years before months need more than six.
        locator = AutoDateLocator(minticks=2, maxticks=6)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    plain_numbers(ax.yaxis)
    tidy(ax, labels[0], target)
    return ax


def importance(
    estimate: Importance,
    names: Sequence[str],
    relevance: Any = None,
    *,
    top: int = 15,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the importance of columns with its uncertainty, and the prior's relevance beside it.

    Importance is `estimate.rise`: by how much `estimate.measure` gets worse without the column.

    Parameters
    ----------
    estimate : Importance
        What `scalemix.analysis.effects.permutation_importance` gave.
    names : sequence of str
        What the columns are called.
    relevance : array_like, optional
        The prior's relevance of the same columns, such as `ScaleMixRegressor.relevance_`. It is
        drawn as shares of the largest importance.
    top : int, default 15
        The most columns to draw, the most important first.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> from scalemix.analysis.effects import permutation_importance
    >>> estimate = permutation_importance(post, x, y, num_shuffles=2, key=key)
    >>> ax = plots.importance(estimate, ["a", "b", "c"], post.relevance().inputs)
    >>> len(ax.get_yticks())
    3
    """
    if len(names) != len(estimate.rise):
        raise ValueError(f"There are {len(estimate.rise)} columns and {len(names)} names.")
    order = estimate.order[:top]
    places = np.arange(len(order))
    ax = new_axes(height=1.2 + 0.34 * len(order))[0] if ax is None else ax
    ax.barh(
        places - 0.18, estimate.rise[order], 0.34, xerr=2 * estimate.rise_error[order], color=BLUE,
        ecolor=GREY, label="importance, two standard errors",
    )  # fmt: skip
    if relevance is not None:
        shares = np.asarray(relevance, float)
        scale = max(estimate.rise.max(), 0.0) / shares.max() if shares.max() > 0 else 0.0
        ax.barh(places + 0.18, shares[order] * scale, 0.34, color=RED, label="prior's relevance")
        legend(ax)
    ax.set_yticks(places, [str(names[i]) for i in order])
    ax.invert_yaxis()
    ax.axvline(0, color=GREY, linewidth=0.8)
    plain_numbers(ax.xaxis)
    lost = "rise of the {}" if estimate.measure != LOG_LIKELIHOOD else "{} lost, nats a row,"
    tidy(ax, f"{lost.format(estimate.measure)} when shuffled", "")
    return ax


def _short(value: Any) -> str:
    kind = np.asarray(value).dtype.kind
    return _cut(str(value)[:10] if kind == "M" else as_cell(value))


def _cut(word: str) -> str:
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"
