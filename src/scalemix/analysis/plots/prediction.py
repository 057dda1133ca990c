"""Pictures of predictions."""

from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.analysis.plots.axes import BLUE, GREY, RED, SKY, legend, new_axes, plain_numbers, tidy
from scalemix.posterior.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of fewer rows a share says nothing.
LEAST_ROWS_A_BIN = 10


def intervals(
    predictive: Predictive,
    y: Any = None,
    *,
    x: Any = None,
    probability: float = 0.9,
    column: int | None = None,
    target: str = "target",
    input: str = "input",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the predictive mean and interval of each row, and the targets if they are given.

    Targets outside their interval stand out.

    Parameters
    ----------
    predictive : Predictive
        What `Posterior.predict` gave.
    y : array_like, optional
        One target for each row.
    x : array_like, optional
        One number for each row to draw it at, such as one of the inputs. The intervals are a band
        if the network has no other input, else a bar for each row. By default rows stand in the
        order of their predictions.
    probability : float, default 0.9
        The probability of the intervals.
    column : int, optional
        Which of several targets a row to draw.
    target : str, default "target"
        What to call the target.
    input : str, default "input"
        What to call `x`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> ax = plots.intervals(post.predict(x), y, target="price")
    >>> ax.get_ylabel()
    'price'
    """
    mean, (lower, upper) = predictive.mean, predictive.interval(probability)
    if column is not None:
        mean, lower, upper = (part[:, column] for part in (mean, lower, upper))
        y = None if y is None else np.asarray(y, float)[:, column]
    if mean.ndim != 1:
        raise ValueError(
            f"There are {mean.shape[1]} targets a row: say which of them to draw, such as column=0."
        )
    if x is None:
        order, where = np.argsort(mean, kind="stable"), np.arange(len(mean)) + 1.0
        xlabel = "rows, in the order of their predictions"
    else:
        x = np.asarray(x, float)
        if x.shape != mean.shape:
            raise ValueError(f"x must be one number a row, {mean.shape}; got {x.shape}.")
        order = np.argsort(x, kind="stable")
        where, xlabel = x[order], input
    mean, lower, upper = mean[order], lower[order], upper[order]
    ax = new_axes()[0] if ax is None else ax
    says = f"{probability:.0%} interval"
    if x is None or predictive._x[:1].size == 1:
        ax.fill_between(where, lower, upper, color=SKY, alpha=0.4, linewidth=0, label=says)
        ax.plot(where, mean, color=BLUE, linewidth=1.5, label="predictive mean")
    else:
        # Rows next to each other in one input may be far apart in the others: no line joins them.
        ax.vlines(where, lower, upper, color=SKY, alpha=0.6, linewidth=2.5, label=says)
        ax.plot(where, mean, "_", color=BLUE, markersize=7, mew=1.8, label="predictive mean")
    if y is not None:
        y = np.asarray(y, float).reshape(-1)
        if y.shape != mean.shape:
            raise ValueError(f"y must be one target a row, {mean.shape}; got {y.shape}.")
        seen = y[order]
        inside = (lower <= seen) & (seen <= upper)
        share = f"{np.mean(inside):.0%} of {len(y)}"
        ax.plot(
            where[inside], seen[inside], "o", color="black", markersize=3.5, alpha=0.7,
            markeredgewidth=0, label=f"targets inside ({share})",
        )  # fmt: skip
        ax.plot(
            where[~inside], seen[~inside], "X", color=RED, markersize=6, markeredgewidth=0,
            label="targets outside",
        )  # fmt: skip
    tidy(ax, xlabel, target)
    plain_numbers(ax.yaxis)
    legend(ax)
    return ax


def calibration(cdf_values: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the share of targets below each predictive quantile, against the quantile's level.

    The curve of a calibrated predictive runs along the diagonal. The band shows how far chance
    takes it for so many rows: at 95 of 100 levels it stays within. Where the curve is above the
    diagonal on the left and below it on the right, intervals are too narrow.

    Parameters
    ----------
    cdf_values : array_like
        Each row's `Predictive.cdf` of its target.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> ax = plots.calibration(post.predict(x).cdf(y))
    >>> ax.get_ylabel()
    'share of targets below it'
    """
    values = np.asarray(cdf_values, float).reshape(-1)
    if values.size == 0 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("Calibration takes probabilities in [0, 1], one for each row.")
    levels = np.linspace(0, 1, 101)
    shares = np.searchsorted(np.sort(values), levels, side="right") / values.size
    shares[0] = 0.0
    # Under calibration the number below a level is binomial.
    slack = 1.96 * np.sqrt(levels * (1 - levels) / values.size)
    ax = new_axes(width=4.6, height=4.4)[0] if ax is None else ax
    ax.fill_between(
        levels, np.maximum(levels - slack, 0), np.minimum(levels + slack, 1), color=GREY,
        alpha=0.2, linewidth=0, label=f"95% of calibrated, {values.size} rows",
    )  # fmt: skip
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    ax.plot(levels, shares, color=BLUE, linewidth=1.8, label="observed")
    ax.set_aspect("equal")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    tidy(ax, "level of the predictive quantile", "share of targets below it")
    legend(ax, loc="upper left")
    return ax


def class_calibration(
    probabilities: Any, is_class: Any, *, num_bins: int = 8, ax: "Axes | None" = None
) -> "Axes":
    """Draw how often a class came, against the probability that it was given.

    Rows are sorted by that probability and put into bins of equal numbers. Grey bars are what
    chance does to so few rows, if the probabilities are true: two standard errors.

    Parameters
    ----------
    probabilities : array_like
        Each row's probability of the class, such as `Predictive.mean[:, 1]`.
    is_class : array_like of bool
        Whether each row is of the class.
    num_bins : int, default 8
        The most bins to put rows into; there are at least ten rows in each.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> ax = plots.class_calibration([0.1, 0.2, 0.7, 0.8], [False, False, True, True])
    >>> ax.get_xlabel()
    'stated probability'
    """
    said, came = np.asarray(probabilities, float), np.asarray(is_class, bool)
    if said.ndim != 1 or said.shape != came.shape or not said.size:
        raise ValueError(
            f"There must be a probability and an answer for each row: got {said.shape} and "
            f"{came.shape}."
        )
    order = np.argsort(said, kind="stable")
    bins = np.array_split(order, max(1, min(num_bins, len(said) // LEAST_ROWS_A_BIN)))
    stated = np.array([said[rows].mean() for rows in bins])
    observed = np.array([came[rows].mean() for rows in bins])
    variance = [np.mean(said[rows] * (1 - said[rows])) / len(rows) for rows in bins]
    slack = 2 * np.sqrt(variance)
    ax = new_axes(width=4.6, height=4.4)[0] if ax is None else ax
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    ax.vlines(
        stated, np.maximum(stated - slack, 0), np.minimum(stated + slack, 1), color=GREY,
        alpha=0.35, linewidth=6, label="chance",
    )  # fmt: skip
    ax.plot(stated, observed, "o-", color=BLUE, linewidth=1.5, markersize=5, label="observed")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    tidy(ax, "stated probability", "share of rows of it")
    legend(ax, loc="upper left")
    return ax
