"""Which rows go, in which order, and networks without them: still of the old size, with zeros."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.networks.sites import Site
from scalemix.posterior.networks import Ensemble, GaussianNetworks, Networks
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.relevance import SiteRelevance, measure_sites
from scalemix.structures import Structure


class Row(NamedTuple):
    """The outgoing weights of one unit, in one member of an ensemble."""

    member: int
    site: str
    row: int


def rows_off(members: Sequence[Networks], threshold: float) -> list[Row]:
    """The rows that are switched off, the least relevant first.

    A row is off by the rule of `relevance`; all rows of a layer that is off are. An infinite
    threshold takes in every row there is.
    """
    found: list[tuple[float, float, Row]] = []
    for index, networks in enumerate(members):
        sites = measure_sites(networks, threshold)
        for name, site in sites.items():
            off, ratio = _off(site, networks.model.structures[name], threshold)
            # What is equally uncertain goes by size, beside the others of its layer.
            size = site.row_variance / max(site.variance, np.finfo(float).tiny)
            found += [
                (float(ratio[row]), float(size[row]), Row(index, name, row))
                for row in np.flatnonzero(off).tolist()
            ]
    return [row for *_, row in sorted(found)]


def _off(
    site: SiteRelevance, structure: Structure, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    everything = math.isinf(threshold)
    ratio = site.row_ratio
    off = ~site.rows_on | everything
    # Rows of a layer that is off go with it, whatever each of them is alone.
    if structure.needs_path_around or not everything:
        whole = not site.on or everything
        off, ratio = off | whole, np.minimum(ratio, site.ratio) if whole else ratio
    return off, ratio


def mask(members: Sequence[Networks], off: Sequence[Row]) -> list[Networks]:
    """Networks in which these rows are zero, and certainly so."""
    masked = []
    for index, networks in enumerate(members):
        keep = {site.name: np.ones(site.num_rows, bool) for site in networks.model.sites}
        for row in off:
            if row.member == index:
                keep[row.site][row.row] = False
        masked.append(_mask_one(networks, keep))
    return masked


def _mask_one(networks: Networks, keep: dict[str, np.ndarray]) -> Networks:
    model = networks.model
    weights = {
        site.name: _keep_rows(networks, site, weight, keep[site.name])
        for site, weight in zip(model.sites, model.weights.values(), strict=True)
    }
    model = model.with_weights(weights)
    if not isinstance(networks, GaussianNetworks):
        return type(networks)(model)
    deviations = {
        site.name: _keep_rows(networks, site, networks.deviations[site.name], keep[site.name])
        for site in model.sites
    }
    return GaussianNetworks(model, deviations, networks.variances)


def _keep_rows(networks: Networks, site: Site, values: jnp.ndarray, keep: np.ndarray):
    rows = jnp.asarray(keep, values.dtype)
    return values * site.rule.expand(site.layer(networks.model.network), rows)


def with_members(
    posterior: Posterior, members: Sequence[Networks], inputs: Sequence[int] | None = None
) -> Posterior:
    """The posterior with these networks, that take these inputs, in place of its own."""
    scaling = posterior.scaling
    if inputs is not None and scaling.x_mean.size:
        kept = list(inputs)
        scaling = scaling._replace(x_mean=scaling.x_mean[kept], x_scale=scaling.x_scale[kept])
    networks: Networks | Ensemble = members[0]
    if isinstance(posterior.networks, Ensemble):
        parts = [eqx.partition(one, eqx.is_array) for one in members]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(arrays for arrays, _ in parts))
        networks = Ensemble(eqx.combine(stacked, parts[0][1]), len(members))
    return Posterior(networks, scaling, posterior.history, posterior.key, posterior.score_spread)
