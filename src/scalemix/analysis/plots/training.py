"""Pictures of how a fit went."""

from typing import TYPE_CHECKING

import numpy as np

from scalemix.analysis.plots.axes import BLUE, GREY, RED, SKY, legend, new_axes, tidy
from scalemix.posterior.posterior import History, Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def history(fit: Posterior | History, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the objective at each step, and the held-out score if there was one.

    Thin lines are single steps, thick ones are running means. Each member of an ensemble has its
    own.

    Parameters
    ----------
    fit : Posterior or History
        The fit to look at.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> plots.history(post).get_xlabel()
    'step'
    """
    past = _history_of(fit)
    objectives, scores = np.atleast_2d(past.objective), np.atleast_2d(past.score)
    num_members, num_steps = objectives.shape
    if num_steps == 0:
        raise ValueError("The history is empty: there was no step.")
    steps = np.arange(num_steps) + 1
    window = max(1, num_steps // 50)
    smooth = [_running_mean(objective, window) for objective in objectives]
    of = f", {num_members} members" if num_members > 1 else ""
    ax = new_axes()[0] if ax is None else ax
    for i, (objective, mean) in enumerate(zip(objectives, smooth, strict=True)):
        ax.plot(steps, objective, color=SKY, linewidth=0.5, alpha=0.5 / num_members**0.5)
        ax.plot(steps, mean, color=BLUE, linewidth=1.5, label=None if i else f"objective{of}")
    # Scores come at the ends of chunks, all of which but the last have one length.
    num_scores = scores.shape[-1]
    ends = np.minimum(np.arange(1, num_scores + 1) * -(-num_steps // max(num_scores, 1)), num_steps)
    for i, score in enumerate(scores if num_scores else []):
        ax.plot(
            ends, score, "o-", color=RED, markersize=3, linewidth=1.2,
            label=None if i else f"held-out log-likelihood{of}",
        )  # fmt: skip
    _focus(ax, np.concatenate([np.ravel(smooth), scores.reshape(-1)]))
    tidy(ax, "step", "nats per row of data (higher is better)")
    legend(ax, loc="lower right")
    return ax


def _history_of(fit: Posterior | History) -> History:
    return fit.history if isinstance(fit, Posterior) else fit


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """The mean of the last `window` values, or of as many as there are at the start."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    # An infinite score has no mean, and none is drawn.
    with np.errstate(invalid="ignore"):
        return (sums[ends] - sums[starts]) / (ends - starts)


def _focus(ax: "Axes", values: np.ndarray) -> None:
    """Cut off the low values that a network starts from where they would flatten all else."""
    values = values[np.isfinite(values)]
    if not values.size:
        return
    low, high = np.quantile(values, 0.1), values.max()
    if high > low and values.min() < low - 2 * (high - low):
        ax.set_ylim(low - 0.5 * (high - low), high + 0.15 * (high - low))


def importance_weights(
    fit: Posterior | History, *, chunk: int = -1, member: int = 0, ax: "Axes | None" = None
) -> "Axes":
    """Draw the importance weights of the draws in one chunk, from the heaviest to the lightest.

    Each example ranks its draws; the line is the mean over examples, and the band goes from the 5%
    to the 95% quantile. Equal weights would lie on the dashed line: then the bound is no tighter
    than dropout's.

    Parameters
    ----------
    fit : Posterior or History
        A fit with `NoiseTraining(record_weights=True)`.
    chunk : int, default -1
        Which chunk of steps to show; by default the last.
    member : int, default 0
        Which member of an ensemble to show.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> from scalemix.posterior import History
    >>> weights = np.array([[[0.7, 0.2], [0.3, 0.8]]])  # one chunk, two draws, two examples
    >>> history = History(np.zeros(1), np.zeros(0), {"importance_weights": weights})
    >>> plots.importance_weights(history).get_ylabel()
    'importance weight'
    """
    past = _history_of(fit)
    if "importance_weights" not in past.recorded:
        raise ValueError(
            "The history holds no importance weights. Fit with NoiseTraining(record_weights=True)."
        )
    recorded = np.asarray(past.recorded["importance_weights"], float)
    # Chunks, draws, examples; an ensemble has its members before them.
    weights = recorded[member][chunk] if recorded.ndim == 4 else recorded[chunk]
    # Examples that only pad have no weight in any draw.
    weights = weights[:, weights.any(axis=0)]
    ranked = -np.sort(-weights, axis=0)
    num_draws, num_examples = ranked.shape
    ranks = np.arange(1, num_draws + 1)
    ax = new_axes()[0] if ax is None else ax
    if num_examples > 1:
        low, high = np.quantile(ranked, [0.05, 0.95], axis=1)
        ax.fill_between(
            ranks, low, high, color=SKY, alpha=0.35, linewidth=0, label="5% to 95% of examples"
        )
    ax.plot(
        ranks, ranked.mean(axis=1), "o-", color=BLUE, linewidth=1.8, markersize=5,
        label=f"mean of {num_examples} example{'s' * (num_examples > 1)}",
    )  # fmt: skip
    ax.axhline(1 / num_draws, color=GREY, linestyle="--", linewidth=1, label="equal weights")
    ax.set_ylim(bottom=0)
    if num_draws <= 20:
        ax.set_xticks(ranks)
    tidy(ax, "rank of the draw, by its likelihood", "importance weight")
    legend(ax)
    return ax
