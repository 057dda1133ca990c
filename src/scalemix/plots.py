"""Pictures. Each function draws into axes that it is given, or into new ones, and returns them.

matplotlib is imported when a picture is asked for, and its settings are never changed. Colours are
told apart by people with any kind of colour vision (the palette of Okabe and Ito, and cividis).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from scalemix.distributions import GaussianNetworks
from scalemix.mixtures import Bernoulli, LogUniform, ScaleMixture
from scalemix.posterior import History, Posterior
from scalemix.predictive import Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, RED, GREY, SKY = "#0072B2", "#D55E00", "#6B6B6B", "#56B4E9"
# A weight of this second moment or less is off; without a least value one such takes all colours.
LEAST_MOMENT = 1e-6


def _new_axes(num: int = 1, width: float = 6.0, height: float = 3.8) -> "list[Axes]":
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            'Pictures need matplotlib, which is not installed: pip install "scalemix[plot]"'
        ) from None
    _, axes = plt.subplots(1, num, figsize=(width, height), layout="constrained", squeeze=False)
    return list(axes[0])


def _tidy(ax: "Axes", xlabel: str, ylabel: str, title: str | None = None) -> None:
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if title is not None:
        ax.set_title(title, loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: "Axes", **arguments: Any) -> None:
    ax.legend(frameon=False, fontsize="small", **arguments)


# ------------------------------------------------------------------------------------ predictions


def intervals(
    predictive: Predictive,
    y: Any = None,
    *,
    x: Any = None,
    probability: float = 0.9,
    target: str = "target",
    input: str = "input",
    ax: "Axes | None" = None,
) -> "Axes":
    """Axes with the predictive mean and interval of each row, and the targets if they are given.

    Rows stand in the order of their predictions, or, with `x` (one number a row), against that
    input: as a band if there is no other input, else as a bar for each row. `target` and `input`
    are what to call them. Targets outside their interval stand out.
    """
    mean, (lower, upper) = predictive.mean, predictive.interval(probability)
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
    ax = _new_axes()[0] if ax is None else ax
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
    _tidy(ax, xlabel, target)
    _legend(ax)
    return ax


def calibration(cdf_values: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Axes with the share of targets below each predictive quantile, against the quantile's level.

    `cdf_values` are each row's `Predictive.cdf` of its target. The curve of a calibrated predictive
    runs along the diagonal, and stays within the band at 95 of 100 levels, so few rows as there
    are. Above it on the left and below on the right: intervals too narrow.
    """
    values = np.asarray(cdf_values, float).reshape(-1)
    if values.size == 0 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("Calibration is seen from probabilities in [0, 1], one a row or more.")
    levels = np.linspace(0, 1, 101)
    shares = np.searchsorted(np.sort(values), levels, side="right") / values.size
    shares[0] = 0.0
    # Under calibration the number below a level is binomial.
    slack = 1.96 * np.sqrt(levels * (1 - levels) / values.size)
    ax = _new_axes(width=4.6, height=4.4)[0] if ax is None else ax
    ax.fill_between(
        levels, np.maximum(levels - slack, 0), np.minimum(levels + slack, 1), color=GREY,
        alpha=0.2, linewidth=0, label=f"95% of calibrated, {values.size} rows",
    )  # fmt: skip
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    ax.plot(levels, shares, color=BLUE, linewidth=1.8, label="observed")
    ax.set_aspect("equal")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    _tidy(ax, "level of the predictive quantile", "share of targets below it")
    _legend(ax, loc="upper left")
    return ax


# -------------------------------------------------------------------------- weights and relevance


def relevance(
    values: Any,
    names: Sequence[str] | None = None,
    *,
    top: int = 20,
    label: str = "share of the relevance",
    ax: "Axes | None" = None,
) -> "Axes":
    """Axes with a bar for each value, the largest on top: of inputs, units or layers.

    `values` is an array with `names` beside it, or a dict from names to numbers. Only the `top`
    largest are drawn, and what the others add up to.
    """
    if isinstance(values, Mapping):
        names, values = [str(name) for name in values], list(values.values())
    values = np.asarray(values, float)
    names = [str(i) for i in range(len(values))] if names is None else [str(n) for n in names]
    if values.ndim != 1 or len(names) != len(values) or len(values) == 0:
        raise ValueError(
            f"Relevance is one number for each name: got the shape {values.shape} and "
            f"{len(names)} names."
        )
    order = np.argsort(-values, kind="stable")
    shown = [(names[i], values[i]) for i in order[:top]]
    if len(order) > top:
        shown.append((f"{len(order) - top} others", values[order[top:]].sum()))
    ax = _new_axes(height=1.2 + 0.26 * len(shown))[0] if ax is None else ax
    places = np.arange(len(shown))
    bars = ax.barh(
        places,
        [value for _, value in shown],
        color=[BLUE] * min(top, len(order)) + [GREY] * (len(order) > top),
        height=0.7,
    )
    ax.bar_label(bars, fmt="%.3g", padding=3, fontsize="small")
    ax.set_yticks(places, [name for name, _ in shown])
    ax.invert_yaxis()
    # Room for the numbers at the ends of the bars.
    ax.margins(x=0.12)
    _tidy(ax, label, "")
    ax.tick_params(axis="y", length=0)
    return ax


def second_moments(posterior: Posterior, member: int = 0) -> dict[str, np.ndarray]:
    """`mu^2 + sigma^2` of each weight, by site, rows first; `w^2` where weights have no deviation.

    The trailing axes of a convolution are summed over, so that there is one number for each pair of
    channels.
    """
    networks = posterior.members[member].networks
    moments = {}
    for name, weight in networks.model.weights.items():
        moment = np.asarray(weight, float) ** 2
        if isinstance(networks, GaussianNetworks):
            moment = moment + np.asarray(networks.deviations[name], float) ** 2
        if moment.ndim < 2:
            moment = moment.reshape(1, -1)
        # Equinox keeps outputs first; a row of the prior holds one unit's outgoing weights.
        moments[name] = moment.reshape(*moment.shape[:2], -1).sum(axis=-1).T
    return moments


def heat_map(
    posterior: Posterior,
    site: str,
    *,
    member: int = 0,
    limits: tuple[float, float] | None = None,
    colorbar: bool = True,
    ax: "Axes | None" = None,
) -> "Axes":
    """Axes with `mu^2 + sigma^2` of each weight of one site, as colour on a logarithmic scale.

    A row is a unit of the layer's input, so that a unit which the prior has switched off is a dark
    row. Under noise training it is `w^2`. `limits` are the ends of the colours.
    """
    moments = second_moments(posterior, member)
    if site not in moments:
        raise ValueError(f"There is no site {site!r}; there are {', '.join(moments)}.")
    ax = _new_axes(width=5.0, height=4.2)[0] if ax is None else ax
    # After the axes, which say what to do where there is no matplotlib.
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    low, high = _limits([moments[site]]) if limits is None else limits
    ax.imshow(
        np.clip(moments[site], low, high), norm=LogNorm(low, high), cmap="cividis", aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    if colorbar:
        _colorbar([ax], posterior)
    _tidy(ax, "output unit", "input unit (a row of the prior)", site)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    ax.spines[:].set_visible(False)
    return ax


def _colorbar(axes: "list[Axes]", posterior: Posterior) -> None:
    figure = axes[-1].get_figure()
    assert figure is not None
    bar = figure.colorbar(axes[-1].images[-1], ax=axes, pad=0.02)
    gaussian = isinstance(posterior.members[0].networks, GaussianNetworks)
    bar.set_label(r"$\mu^2 + \sigma^2$" if gaussian else r"$w^2$")


def heat_maps(
    posterior: Posterior, *, member: int = 0, axes: "Sequence[Axes] | None" = None
) -> "list[Axes]":
    """Axes with the heat map of every site, in the same colours."""
    moments = second_moments(posterior, member)
    axes = (
        _new_axes(len(moments), width=4.2 * len(moments), height=3.8) if axes is None else [*axes]
    )
    if len(axes) != len(moments):
        raise ValueError(f"{len(moments)} sites take as many axes, got {len(axes)}.")
    limits = _limits(list(moments.values()))
    for ax, site in zip(axes, moments, strict=True):
        heat_map(posterior, site, member=member, limits=limits, colorbar=False, ax=ax)
        if ax is not axes[0]:
            ax.set_ylabel("")
    _colorbar(axes, posterior)
    return axes


def _limits(moments: list[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([moment.reshape(-1) for moment in moments])
    high = max(values.max(), LEAST_MOMENT)
    return min(max(values.min(), LEAST_MOMENT), 0.1 * high), high


# --------------------------------------------------------------------------------------- training


def history(fit: Posterior | History, *, ax: "Axes | None" = None) -> "Axes":
    """Axes with the objective at each step, and the held-out score if there was one.

    Thin lines are single steps, thick ones running means. An ensemble has one of each a member.
    """
    told = fit.history if isinstance(fit, Posterior) else fit
    objectives, scores = np.atleast_2d(told.objective), np.atleast_2d(told.score)
    num_members, num_steps = objectives.shape
    if num_steps == 0:
        raise ValueError("The history is empty: there was no step.")
    steps = np.arange(num_steps) + 1
    window = max(1, num_steps // 50)
    smooth = [_running_mean(objective, window) for objective in objectives]
    of = f", {num_members} members" if num_members > 1 else ""
    ax = _new_axes()[0] if ax is None else ax
    for i, (objective, mean) in enumerate(zip(objectives, smooth, strict=True)):
        ax.plot(steps, objective, color=SKY, linewidth=0.5, alpha=0.5 / num_members**0.5)
        ax.plot(steps, mean, color=BLUE, linewidth=1.5, label=None if i else f"objective{of}")
    # Scores come at the ends of chunks, which are of one length save the last.
    num_scores = scores.shape[-1]
    ends = np.minimum(np.arange(1, num_scores + 1) * -(-num_steps // max(num_scores, 1)), num_steps)
    for i, score in enumerate(scores if num_scores else []):
        ax.plot(
            ends, score, "o-", color=RED, markersize=3, linewidth=1.2,
            label=None if i else f"held-out log-likelihood{of}",
        )  # fmt: skip
    _focus(ax, np.concatenate([np.ravel(smooth), scores.reshape(-1)]))
    _tidy(ax, "step", "nats per row of data (higher is better)")
    _legend(ax, loc="lower right")
    return ax


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """The mean of the last `window` values, of fewer at the start."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _focus(ax: "Axes", values: np.ndarray) -> None:
    """Leave out of sight the deep fall that a network starts from, if all else would be flat."""
    low, high = np.quantile(values, 0.1), values.max()
    if high > low and values.min() < low - 2 * (high - low):
        ax.set_ylim(low - 0.5 * (high - low), high + 0.15 * (high - low))


def importance_weights(
    fit: Posterior | History, *, chunk: int = -1, member: int = 0, ax: "Axes | None" = None
) -> "Axes":
    """Axes with the weights of the draws at the end of a chunk, from the heaviest to the lightest.

    From a fit with `NoiseTraining(record_weights=True)`. Each example ranks its draws; the line is
    the mean over examples, the band goes from the 5% to the 95% quantile. Equal weights would lie
    on the dashed line: then the bound is no tighter than dropout's.
    """
    told = fit.history if isinstance(fit, Posterior) else fit
    if "importance_weights" not in told.recorded:
        raise ValueError(
            "The history holds no importance weights. Fit with NoiseTraining(record_weights=True)."
        )
    recorded = np.asarray(told.recorded["importance_weights"], float)
    # Chunks, draws, examples; an ensemble has its members before them.
    weights = recorded[member][chunk] if recorded.ndim == 4 else recorded[chunk]
    ranked = -np.sort(-weights, axis=0)
    num_draws, num_examples = ranked.shape
    ranks = np.arange(1, num_draws + 1)
    ax = _new_axes()[0] if ax is None else ax
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
    _tidy(ax, "rank of the draw, by its likelihood", "importance weight")
    _legend(ax)
    return ax


# --------------------------------------------------------------------------------------- families


def densities(
    mixture: ScaleMixture, *, scale: float = 1.0, axes: "Sequence[Axes] | None" = None
) -> "list[Axes]":
    """Three axes, the three views of one family: noise, variance prior and marginal prior.

    `scale` is the standard deviation of the Gaussian that the noise multiplies; that Gaussian is
    the dashed line beside the marginal. Atoms are drawn as pins, as high as their probability.
    """
    axes = _new_axes(3, width=10.5, height=3.2) if axes is None else [*axes]
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
        _tidy(ax, name, f"density{improper}", title)
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
            _legend(ax, loc="upper right")
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
    """Where nearly all of it lies, or, of a heavy tail, where it has become flat."""
    return max(min(np.quantile(sizes, 0.99), 5 * np.quantile(sizes, 0.6)), 1e-6)


def _top(density: np.ndarray) -> float:
    """The end of the axis: a pole goes out of sight before it makes all else flat."""
    return min(density.max(), 4 * np.quantile(density, 0.9))
