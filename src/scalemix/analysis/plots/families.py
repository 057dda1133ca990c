"""Pictures of a family of scales."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from scalemix.analysis.plots.axes import BLUE, GREY, RED, SKY, legend, new_axes, tidy
from scalemix.mixtures import Bernoulli, LogUniform, ScaleMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def densities(
    mixture: ScaleMixture, *, scale: float = 1.0, axes: "Sequence[Axes] | None" = None
) -> "list[Axes]":
    """Draw the three views of one family: its noise, its variance prior and its marginal prior.

    The Gaussian that the noise multiplies is the dashed line beside the marginal. Atoms are drawn
    as pins, as high as their probability.

    Parameters
    ----------
    mixture : ScaleMixture
        The family, such as `scalemix.HalfCauchy(1.0)`.
    scale : float, default 1.0
        The standard deviation of the Gaussian that the noise multiplies.
    axes : sequence of matplotlib.axes.Axes, optional
        Three axes to draw into; new ones by default.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> len(plots.densities(sx.HalfCauchy(1.0)))
    3
    """
    axes = new_axes(3, width=10.5, height=3.2) if axes is None else [*axes]
    if len(axes) != 3:
        raise ValueError(f"A family has three views and takes three axes, got {len(axes)}.")
    ends = _ends(mixture, scale)
    titles = ("noise on a unit", "prior of the variance", "prior of the weight")
    names = (r"$\xi$", r"$v = \xi^2$", r"$w = \xi z$")
    log_probs = (
        mixture.log_prob,
        mixture.variance_log_prob,
        lambda w: mixture.marginal_log_prob(w, scale),
    )
    improper = " (up to a constant)" if isinstance(mixture, LogUniform) else ""
    for ax, name, title, (low, high), log_prob in zip(
        axes, names, titles, ends, log_probs, strict=True
    ):
        tidy(ax, name, f"density{improper}", title)
        marginal = ax is axes[2]
        if isinstance(mixture, Bernoulli) and not marginal:
            value = float(mixture.value) ** (2 if ax is axes[1] else 1)
            keep = float(mixture.keep)
            _pins(ax, {0.0: 1 - keep, value: keep})
            ax.set_ylabel("probability")
            continue
        # An even number of points, none of them on a pole at zero.
        grid = np.linspace(low, high, 400)
        grid = grid[grid != 0]
        density = np.exp(np.asarray(log_prob(grid.astype(np.float32)), float))
        ax.plot(grid, density, color=BLUE, linewidth=1.8)
        ax.fill_between(grid, density, color=SKY, alpha=0.25, linewidth=0)
        ax.set_xlim(low, high)
        top = _top(density)
        if marginal:
            gauss = np.exp(-0.5 * (grid / scale) ** 2) / (scale * np.sqrt(2 * np.pi))
            ax.plot(grid, gauss, color=GREY, linestyle="--", linewidth=1.2, label="Gaussian")
            top = max(top, gauss.max())
            if isinstance(mixture, Bernoulli):
                _pins(ax, {0.0: float(mixture.spike_mass)})
                top = max(top, float(mixture.spike_mass))
            legend(ax, loc="upper right")
        ax.set_ylim(0, 1.15 * top)
    figure = axes[0].get_figure()
    if figure is not None and not figure.get_suptitle() and len(figure.get_axes()) == 3:
        figure.suptitle(repr(mixture), fontsize="medium")
    return axes


def _pins(ax: "Axes", masses: dict[float, float]) -> None:
    places = list(masses)
    ax.vlines(places, 0, list(masses.values()), color=RED, linewidth=2)
    ax.plot(places, list(masses.values()), "o", color=RED, markersize=6, label="point mass")
    if len(places) > 1:
        ax.set_ylim(0, 1.1 * max(masses.values()))
        ax.margins(x=0.3)


def _ends(mixture: ScaleMixture, scale: float) -> list[tuple[float, float]]:
    """Where most of the noise, the variance and the weight lie."""
    if isinstance(mixture, LogUniform):
        return [(0.0, 3.0), (0.0, 3.0), (-3.0 * scale, 3.0 * scale)]
    noise = np.asarray(mixture.sample((4000,), key=jax.random.key(0), dtype=np.float32), float)
    normal = np.random.default_rng(0).normal(size=noise.shape)
    noise_end = 1.1 * _reach(np.abs(noise))
    weight_end = _reach(np.abs(noise * normal)) * scale
    low = max(min(0.0, np.quantile(noise, 0.005)), -noise_end)
    return [(low, noise_end), (0.0, _reach(noise**2)), (-weight_end, weight_end)]


def _reach(sizes: np.ndarray) -> float:
    """Where nearly all of the values lie, or where a heavy tail has become flat."""
    return max(min(np.quantile(sizes, 0.99), 5 * np.quantile(sizes, 0.6)), 1e-6)


def _top(density: np.ndarray) -> float:
    """Where the axis ends: low enough that a pole does not flatten all else."""
    return min(density.max(), 4 * np.quantile(density, 0.9))
