"""What goes, in which order, and networks of the old size with zeros in their place."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scalemix.posterior.networks import Networks
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.relevance_rule import SiteRelevance, measure_sites
from scalemix.structures import Structure


class Row(NamedTuple):
    """The outgoing weights of one unit, in one member of an ensemble."""

    member: int
    site: str
    row: int


Piece = tuple[Row, ...]
"""Rows that go together: all of a layer where only the layer has a scale, else a single one."""


def pieces_off(members: Sequence[Networks], threshold: float) -> list[Piece]:
    """What is switched off, the least relevant first.

    A row is off by the rule of `relevance`, and all rows of a layer are off if the layer is. Rows
    of a layer without scales of their own stay as long as the layer is on: the prior said nothing
    of them. An infinite threshold includes everything there is.
    """
    candidates: list[tuple[float, float, Piece]] = []
    for index, networks in enumerate(members):
        sites = measure_sites(networks, threshold)
        mean = np.mean([site.variance for site in sites.values()])
        for name, site in sites.items():
            structure = networks.model.structures[name]
            rows = [Row(index, name, row) for row in range(len(site.row_ratio))]
            if [*structure.groups] == ["layer"]:
                if not site.on or math.isinf(threshold):
                    candidates.append((site.ratio, _relative(site.variance, mean), tuple(rows)))
                continue
            off, ratio = _off(site, structure, threshold)
            # Rows that are equally uncertain go by their size, relative to the rest of the layer.
            size = _relative(site.row_variance, site.variance)
            candidates += [
                (float(ratio[row]), float(size[row]), (rows[row],))
                for row in np.flatnonzero(off).tolist()
            ]
    return [piece for *_, piece in sorted(candidates)]


def _relative(size: Any, typical: Any) -> Any:
    return size / max(typical, np.finfo(float).tiny)


def _off(
    site: SiteRelevance, structure: Structure, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    everything = math.isinf(threshold)
    ratio = site.row_ratio
    off = ~site.rows_on | everything
    # Rows of a layer that is off go with it, whatever the rule says of each of them.
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
        masked.append(networks.masked(keep))
    return masked


def with_members(
    posterior: Posterior, members: Sequence[Networks], inputs: Sequence[int] | None = None
) -> Posterior:
    """The posterior with these networks in place of its own; they take these of its inputs."""
    scaling = posterior.scaling
    if inputs is not None and scaling.x_mean.size:
        kept = list(inputs)
        scaling = scaling._replace(x_mean=scaling.x_mean[kept], x_scale=scaling.x_scale[kept])
    networks = posterior.networks.with_members(members)
    return Posterior(networks, scaling, posterior.history, posterior.key, posterior.score_spread)
