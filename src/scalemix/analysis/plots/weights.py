"""Pictures of what is believed about the weights."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.analysis.plots.axes import BLUE, GREY, new_axes, tidy
from scalemix.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Second moments below this are drawn as this: without a floor one dead weight takes all colours.
LEAST_MOMENT = 1e-6


def relevance(
    values: Any,
    names: Sequence[str] | None = None,
    *,
    top: int = 20,
    label: str = "share of the relevance",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a bar for the relevance of each input, unit or layer, the largest on top.

    Parameters
    ----------
    values : array_like or dict of str to float
        The relevance, such as `Posterior.relevance().inputs` or `.layers`.
    names : sequence of str, optional
        What to call each entry of an array; by default they are numbered.
    top : int, default 20
        How many to draw; what the others add up to is one more bar.
    label : str, default "share of the relevance"
        What the values are.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> ax = plots.relevance(post.relevance().inputs, ["a", "b", "c"])
    >>> len(ax.patches)
    3
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
    ax = new_axes(height=1.2 + 0.26 * len(shown))[0] if ax is None else ax
    places = np.arange(len(shown))
    bars = ax.barh(
        places,
        [value for _, value in shown],
        color=[BLUE] * min(top, len(order)) + [GREY] * (len(order) > top),
        height=0.7,
    )
    for bar, (_, value) in zip(bars, shown, strict=True):
        # To the right of zero, for names stand on the left of a bar that is below it.
        ax.annotate(
            f"{value:.3g}", (max(value, 0.0), bar.get_y() + bar.get_height() / 2), (3, 0),
            textcoords="offset points", va="center", fontsize="small",
        )  # fmt: skip
    ax.set_yticks(places, [name for name, _ in shown])
    ax.invert_yaxis()
    # Room for the numbers at the ends of the bars.
    ax.margins(x=0.12)
    tidy(ax, label, "")
    ax.tick_params(axis="y", length=0)
    return ax


def second_moments(posterior: Posterior, member: int = 0) -> dict[str, np.ndarray]:
    """The second moment of each weight, `mu^2 + sigma^2`, or `w^2` where it has no deviation.

    Parameters
    ----------
    posterior : Posterior
        What a fit returned.
    member : int, default 0
        Which member of an ensemble to take.

    Returns
    -------
    dict of str to numpy.ndarray
        By site, a matrix with a row for each input unit and a column for each output unit. The
        trailing axes of a convolution are summed over, so that there is one number for each pair of
        channels.

    Examples
    --------
    >>> from scalemix import plots
    >>> plots.second_moments(post)["layers.0"].shape
    (3, 8)
    """
    moments = {}
    for name, moment in posterior.networks.members[member].second_moments().items():
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
    """Draw the second moment of each weight of one site, as colour on a logarithmic scale.

    A row is a unit of the layer's input, so that a unit which the prior has switched off is a dark
    row. `second_moments` says what is drawn.

    Parameters
    ----------
    posterior : Posterior
        What a fit returned.
    site : str
        The name of the site, as `Model.describe` lists it.
    member : int, default 0
        Which member of an ensemble to draw.
    limits : tuple of float, optional
        The ends of the scale of colours; by default those of the values.
    colorbar : bool, default True
        Whether to draw the scale of colours beside.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> plots.heat_map(post, "layers.0").get_xlabel()
    'output unit'
    """
    moments = second_moments(posterior, member)
    if site not in moments:
        raise ValueError(f"There is no site {site!r}; there are {', '.join(moments)}.")
    ax = new_axes(width=5.0, height=4.2)[0] if ax is None else ax
    # Imported after `new_axes`, which says what to do where there is no matplotlib.
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    low, high = _limits([moments[site]]) if limits is None else limits
    ax.imshow(
        np.clip(moments[site], low, high), norm=LogNorm(low, high), cmap="cividis", aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    if colorbar:
        _colorbar([ax], posterior)
    tidy(ax, "output unit", "input unit (a row of the prior)", site)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    ax.spines[:].set_visible(False)
    return ax


def _colorbar(axes: "list[Axes]", posterior: Posterior) -> None:
    figure = axes[-1].get_figure()
    assert figure is not None
    bar = figure.colorbar(axes[-1].images[-1], ax=axes, pad=0.02)
    bar.set_label(posterior.networks.stacked.moment_label)


def heat_maps(
    posterior: Posterior, *, member: int = 0, axes: "Sequence[Axes] | None" = None
) -> "list[Axes]":
    """Draw the heat map of every site, all on one scale of colours.

    Parameters
    ----------
    posterior : Posterior
        What a fit returned.
    member : int, default 0
        Which member of an ensemble to draw.
    axes : sequence of matplotlib.axes.Axes, optional
        Where to draw, one for each site; new axes by default.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes drawn into.

    Examples
    --------
    >>> from scalemix import plots
    >>> len(plots.heat_maps(post))
    3
    """
    moments = second_moments(posterior, member)
    axes = new_axes(len(moments), width=4.2 * len(moments), height=3.8) if axes is None else [*axes]
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
