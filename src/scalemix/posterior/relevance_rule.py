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

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from scalemix.model.site_prior import SitePrior
from scalemix.networks.groups import GROUPS
from scalemix.posterior.networks import Networks, WeightMoments

# A row whose E[w^2] is less than this share of its layer's mean carries nothing.
NEGLIGIBLE = 1e-6


class Lines(NamedTuple):
    """What the measures and the rule say of each row of a weight, or of each of its outputs."""

    variance: np.ndarray
    ratio: np.ndarray
    on: np.ndarray


class SiteRelevance(NamedTuple):
    """What the measures and the rule say of one site of one part of the networks."""

    lines: dict[str, Lines]
    """By the group that has a scale for each: `unit` for rows, and `output` where there are such
    scales."""
    variance: float
    ratio: float
    on: bool


def measure_sites(networks: Networks, threshold: float) -> dict[str, SiteRelevance]:
    """What the rule says of each site of one part of the networks."""
    moments = networks.weight_moments()
    return {
        prior.name: _measure_site(prior, moments[prior.name], threshold)
        for prior in networks.model.site_priors
    }


def _measure_site(site_prior: SitePrior, moments: WeightMoments, threshold: float) -> SiteRelevance:
    groups = ["unit", *(group for group in site_prior.groups if GROUPS[group].by_output)]
    lines = {group: _measure_lines(site_prior, group, moments, threshold) for group in groups}
    signal, noise, prior = (
        float(np.asarray(values, np.float64).sum())
        for values in (moments.mean**2, moments.variance, moments.prior_variance)
    )
    ratio = float(_ratio(signal, noise))
    own = [lines[group].on.any() for group in lines if group in site_prior.groups]
    return SiteRelevance(
        lines=lines,
        variance=prior / math.prod(site_prior.site.shape),
        ratio=ratio,
        on=bool(all(own) if own else ratio >= threshold and signal + noise > 0),
    )


def _measure_lines(
    site_prior: SitePrior, group: str, moments: WeightMoments, threshold: float
) -> Lines:
    site, layer = site_prior.site, site_prior.layer

    def total(values: Array | np.ndarray) -> np.ndarray:
        sums = GROUPS[group].sum_weights(site, layer, jax.numpy.asarray(values, float))
        return np.asarray(sums, np.float64)

    signal, noise, prior = (
        total(values) for values in (moments.mean**2, moments.variance, moments.prior_variance)
    )
    counts = total(np.ones(site.shape))
    per_weight, ratio = (signal + noise) / counts, _ratio(signal, noise)
    typical = np.average(per_weight, weights=counts)
    on = (ratio >= threshold) & (per_weight > NEGLIGIBLE * typical)
    return Lines(prior / counts, ratio, on)


def _ratio(signal: Any, noise: Any) -> np.ndarray:
    # No noise at all is certainty; nothing at all is no signal.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(signal) > 0, np.divide(signal, noise), 0.0)
