"""The measures of relevance, and the rule of what is off, for the sites of some networks.

There are two measures of a row of weights (all that one unit sends out), of the weights that lead
to one output, or of a whole layer:

    share            its part of the prior variance, `v_r / sum_r v_r`, or of `E[w^2]` where the
                     posterior has no scales of its own
    signal to noise  `sum mu^2 / sum sigma^2`: what is known of the weights against what is not

The rule: a unit is **off** if its signal to noise is below a threshold, 0.01 by default, or if its
weights are all but zero compared with those of the others. The same goes for outputs, where they
have scales. A layer whose units have scales is off if all its units are, and one whose outputs have
scales if all its outputs are; any other layer is off if the rule says so of the layer as a whole.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.model.site_prior import SitePrior
from scalemix.networks.groups import GROUPS
from scalemix.networks.sites import Site
from scalemix.posterior.networks import Networks, WeightMoments

# Groups of which each scale is told on or off, beside the rows of each weight.
LISTED = ("output", "head", "token", "column")
# A row whose E[w^2] is less than this share of its layer's mean carries nothing.
NEGLIGIBLE = 1e-6


class Lines(NamedTuple):
    """What the measures and the rule say of each row of a weight, or of each of its outputs."""

    variance: np.ndarray
    ratio: np.ndarray
    on: np.ndarray


class LayerRelevance(NamedTuple):
    """What the measures and the rule say of one layer of one part of the networks."""

    site: str
    place: tuple[int, ...]
    """Where in its site the layer is: layers that are stacked share a site."""
    lines: dict[str, Lines]
    """By the group that has a scale for each: `unit` for rows, and others (`output`, `head`,
    `token`, `column`) where there are such scales."""
    variance: float
    ratio: float
    on: bool


class Sums(NamedTuple):
    """Sums over the weights of each row, or of each output, and how many weights it has."""

    signal: Any
    noise: Any
    prior: Any
    num_weights: Any


def measure_layers(networks: Networks, threshold: float) -> dict[str, LayerRelevance]:
    """What the rule says of each layer of one part of the networks, by name.

    A layer has the name of its site. Of layers that are stacked, each has its number besides.
    """
    sums = _sums(networks.model.site_priors, networks.weight_moments())
    sums = jax.tree.map(lambda values: np.asarray(values, np.float64), sums)
    measured = {}
    for prior in networks.model.site_priors:
        for place, name in layers_of(prior.site).items():
            mine = jax.tree.map(lambda values, place=place: values[place], sums[prior.name])
            measured[name] = _measure_layer(prior, place, mine, threshold)
    return measured


def layers_of(site: Site) -> dict[tuple[int, ...], str]:
    """The names of the layers that a site holds, by their places in it."""
    return {place: ".".join(map(str, (site.name, *place))) for place in np.ndindex(site.stack)}


def _measure_layer(
    site_prior: SitePrior, place: tuple[int, ...], sums: dict[str, Sums], threshold: float
) -> LayerRelevance:
    lines = {group: _measure_lines(of_group, threshold) for group, of_group in sums.items()}
    # Every weight is in one row.
    signal, noise, prior, count = (
        float(np.sum(values, dtype=np.float64)) for values in sums["unit"]
    )
    ratio = float(_ratio(signal, noise))
    own = [lines[group].on.any() for group in lines if group in site_prior.groups]
    return LayerRelevance(
        site=site_prior.name,
        place=place,
        lines=lines,
        variance=prior / count,
        ratio=ratio,
        on=bool(all(own) if own else ratio >= threshold and signal + noise > 0),
    )


def _measure_lines(sums: Sums, threshold: float) -> Lines:
    signal, noise, prior, counts = sums
    per_weight, ratio = (signal + noise) / counts, _ratio(signal, noise)
    typical = np.average(per_weight, weights=counts)
    on = (ratio >= threshold) & (per_weight > NEGLIGIBLE * typical)
    return Lines(prior / counts, ratio, on)


@eqx.filter_jit
def _sums(
    site_priors: Sequence[SitePrior], moments: dict[str, WeightMoments]
) -> dict[str, dict[str, Sums]]:
    """The sums over each row of each site, and over each output with a scale, as one program."""

    def sums(prior: SitePrior, of: WeightMoments, group: str) -> Sums:
        ones = jnp.ones(prior.site.shape)
        values = of.mean**2, of.variance, of.prior_variance, ones
        kind, site = GROUPS[group], prior.site
        return Sums(*(kind.sum_weights(site, jnp.asarray(each, float)) for each in values))

    return {
        prior.name: {
            group: sums(prior, moments[prior.name], group)
            for group in ("unit", *(g for g in prior.groups if g in LISTED))
        }
        for prior in site_priors
    }


def _ratio(signal: Any, noise: Any) -> np.ndarray:
    # No noise at all is certainty; nothing at all is no signal.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(signal) > 0, np.divide(signal, noise), 0.0)
