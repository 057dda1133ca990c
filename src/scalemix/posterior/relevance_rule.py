"""The measures of relevance, and the rule of what is off, for the sites of some networks.

There are two measures of a row of weights (all that one unit sends out) or of a whole layer:

    share            its part of the prior variance, `v_r / sum_r v_r`, or of `E[w^2]` where the
                     posterior has no scales of its own
    signal to noise  `sum mu^2 / sum sigma^2`: what is known of the weights against what is not

The rule: a unit is **off** if its signal to noise is below a threshold, 0.01 by default, or if its
weights are all but zero compared with those of the others. A layer whose units have scales is off
if all its units are; any other layer is off if the rule says so of the layer as a whole.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix.model.site_prior import SitePrior
from scalemix.posterior.networks import Networks, WeightMoments

# A row whose E[w^2] is less than this share of its layer's mean carries nothing.
NEGLIGIBLE = 1e-6


class SiteRelevance(NamedTuple):
    """What the measures and the rule say of one site of one part of the networks."""

    row_variance: np.ndarray
    row_ratio: np.ndarray
    rows_on: np.ndarray
    variance: float
    ratio: float
    on: bool


class RowSums(NamedTuple):
    """Sums over the weights of each row, and how many weights it has."""

    signal: Array
    noise: Array
    prior: Array
    num_weights: Array


def measure_sites(networks: Networks, threshold: float) -> dict[str, SiteRelevance]:
    """What the rule says of each site of one part of the networks."""
    sums = _row_sums(networks.model.site_priors, networks.weight_moments())
    return {
        prior.name: _measure_site(prior, sums[prior.name], threshold)
        for prior in networks.model.site_priors
    }


def _measure_site(site_prior: SitePrior, sums: RowSums, threshold: float) -> SiteRelevance:
    signal, noise, prior, counts = (np.asarray(values, np.float64) for values in sums)
    per_weight = (signal + noise) / counts
    typical = np.average(per_weight, weights=counts)
    rows_on = (_ratio(signal, noise) >= threshold) & (per_weight > NEGLIGIBLE * typical)
    ratio = float(_ratio(signal.sum(), noise.sum()))
    by_unit = "unit" in site_prior.groups
    return SiteRelevance(
        row_variance=prior / counts,
        row_ratio=_ratio(signal, noise),
        rows_on=rows_on,
        variance=float(prior.sum() / counts.sum()),
        ratio=ratio,
        on=bool(rows_on.any() if by_unit else ratio >= threshold and typical > 0),
    )


@eqx.filter_jit
def _row_sums(
    site_priors: Sequence[SitePrior], moments: dict[str, WeightMoments]
) -> dict[str, RowSums]:
    """The sums over each row of each site, as one program."""

    def sums(prior: SitePrior, of: WeightMoments) -> RowSums:
        ones = jnp.ones(prior.site.shape)
        values = of.mean**2, of.variance, of.prior_variance, ones
        return RowSums(*(prior.sum_rows(jnp.asarray(each, float)) for each in values))

    return {prior.name: sums(prior, moments[prior.name]) for prior in site_priors}


def _ratio(signal: Any, noise: Any) -> np.ndarray:
    # No noise at all is certainty; nothing at all is no signal.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(signal) > 0, np.divide(signal, noise), 0.0)
