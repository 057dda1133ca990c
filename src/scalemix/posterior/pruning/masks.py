"""What goes, in which order, and networks of the old size with zeros in their place."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scalemix.networks.groups import GROUPS
from scalemix.posterior.networks import Networks
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.relevance_rule import LayerRelevance, Lines, measure_layers
from scalemix.structures import Structure


class Row(NamedTuple):
    """The outgoing weights of one unit, or those of one output, in one member of an ensemble."""

    member: int
    site: str
    row: int
    group: str = "unit"
    place: tuple[int, ...] = ()
    """Which of the layers that are stacked in the site has it."""


Piece = tuple[Row, ...]
"""Rows that go together: all of a layer where only the layer has a scale, else a single one."""


def pieces_off(members: Sequence[Networks], threshold: float) -> list[Piece]:
    """What is switched off, the least relevant first; outputs and heads too, if they have scales.

    A row is off by the rule of `relevance`, and all rows of a layer are off if the layer is. Rows
    of a layer without scales of their own stay as long as the layer is on: the prior said nothing
    of them. So do rows that are looked up, unless each has a scale: without one of them the network
    is no smaller, and would be sure of a level that nobody knows. An infinite threshold includes
    everything else there is.
    """
    candidates: list[tuple[float, float, Piece]] = []
    for index, networks in enumerate(members):
        layers = measure_layers(networks, threshold).values()
        looked_up = {s.name for s in networks.model.sites if s.axis("row") == s.axis("token")}
        mean = np.mean([layer.variance for layer in layers])
        for layer in layers:
            structure = networks.model.structures[layer.site]
            if [*structure.groups] == ["layer"]:
                if not layer.on or math.isinf(threshold):
                    num_rows = len(layer.lines["unit"].on)
                    rows = (
                        Row(index, layer.site, row, place=layer.place) for row in range(num_rows)
                    )
                    candidates.append((layer.ratio, _relative(layer.variance, mean), tuple(rows)))
                continue
            for group, lines in layer.lines.items():
                if group == "unit" and layer.site in looked_up and group not in structure.groups:
                    continue
                off, ratio = _off(layer, lines, structure, threshold)
                # Rows that are equally uncertain go by their size, relative to the rest.
                size = _relative(lines.variance, layer.variance)
                candidates += [
                    (
                        float(ratio[row]),
                        float(size[row]),
                        (Row(index, layer.site, row, group, layer.place),),
                    )
                    for row in np.flatnonzero(off).tolist()
                ]
    return [piece for *_, piece in sorted(candidates)]


def _relative(size: Any, typical: Any) -> Any:
    return size / max(typical, np.finfo(float).tiny)


def _off(
    layer: LayerRelevance, lines: Lines, structure: Structure, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    everything = math.isinf(threshold)
    ratio = lines.ratio
    off = ~lines.on | everything
    # Rows of a layer that is off go with it, whatever the rule says of each of them.
    if structure.needs_path_around or not everything:
        whole = not layer.on or everything
        off, ratio = off | whole, np.minimum(ratio, layer.ratio) if whole else ratio
    return off, ratio


def mask(members: Sequence[Networks], off: Sequence[Row]) -> list[Networks]:
    """Networks in which these rows are zero, and certainly so."""
    masked = []
    sites = {site.name: site for site in members[0].model.sites}
    for index, networks in enumerate(members):
        keep: dict[str, dict[str, np.ndarray]] = {site.name: {} for site in networks.model.sites}
        for row in off:
            if row.member == index:
                shape = GROUPS[row.group].full_shape(sites[row.site])
                kept = keep[row.site].setdefault(row.group, np.ones(shape, bool))
                kept[(*row.place, row.row)] = False
        masked.append(networks.masked(keep))
    return masked


def with_members(
    posterior: Posterior, members: Sequence[Networks], inputs: Sequence[int] | None = None
) -> Posterior:
    """The posterior with these networks in place of its own; they take these of its inputs."""
    scaling = posterior.scaling if inputs is None else posterior.scaling.keeping_inputs([*inputs])
    networks = posterior.networks.with_members(members)
    return Posterior(networks, scaling, posterior.history, posterior.key, posterior.score_spread)
