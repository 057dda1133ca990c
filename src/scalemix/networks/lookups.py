"""Finds the tables of tokens that a network looks up its input in."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.networks.deferred import Lookup, Probe
from scalemix.networks.origins import PASSES, ROUNDS, Origins
from scalemix.networks.placing import run_with_weights
from scalemix.networks.sites import Site


class Lookups(NamedTuple):
    """A table of tokens, and which numbers of an input are looked up in it."""

    site: str
    num_tokens: int
    places: list[np.ndarray]
    """Numbers of each part of the input, counted along all axes of the part."""


def find_lookups(network: PyTree, sites: tuple[Site, ...], example: PyTree) -> list[Lookups]:
    """The tables that numbers of such an input are looked up in as they are.

    These are whole numbers, or are made whole by the network. Lookups in loops, and those of
    numbers that the network computes, are not found.
    """
    tables = {site: axis for site in sites if (axis := site.axis("token")) is not None}
    met: list[Site] = []

    def run(x: PyTree) -> list[Array]:
        starts: list[Array] = []

        def note(site: Site, use: Any) -> None:
            axis = site.num_stacked + tables[site]
            if isinstance(use, Lookup) and axis in use.starts:
                met.append(site)
                starts.append(use.starts[axis])

        probes = {
            site.name: Probe(
                jnp.zeros_like(site.weight(network)), lambda use, site=site: note(site, use)
            )
            for site in tables
        }
        run_with_weights(network, tuple(tables), probes, x)
        return starts

    if not tables:
        return []
    try:
        closed = jax.make_jaxpr(run)(example)
    except Exception:
        # Whatever a network of someone else's raises at a type that it does not take.
        return []
    lookups, origins = [], Origins(closed, example, PASSES | ROUNDS)
    for number, site in enumerate(met):
        tokens = origins.of(number)
        if tokens is None:
            continue
        by_part = [
            np.array([token[1] for token in tokens if token and token[0] == part], int)
            for part in range(len(origins.parts))
        ]
        lookups.append(Lookups(site.name, site.layer_shape[tables[site]], by_part))
    return lookups
