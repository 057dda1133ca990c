"""Assigns structures to layers: a prior of the whole network becomes one for each site."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from scalemix.networks.groups import GROUPS
from scalemix.networks.sites import Site
from scalemix.networks.ties import JOINT
from scalemix.structures import ARD, ARDADD, Structure

Prior = Structure | Mapping[Any, Structure | None]
"""One structure for all layers, or structures by patterns of layer names.

A tuple of names ties layers together: their rows are the same units, and share their scales.
"""


def split_ties(prior: Prior) -> tuple[Any, list[tuple[str, ...]]]:
    """The prior by names alone, and which layers it ties together under one of these names."""
    if not isinstance(prior, Mapping):
        return prior, []
    ties = [name for name in prior if isinstance(name, tuple)]
    for names in ties:
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"A tuple in a prior has the names of layers to tie; got {names}.")
    by_name = {
        JOINT.join(name) if isinstance(name, tuple) else name: structure
        for name, structure in prior.items()
    }
    return by_name, ties


def assign(
    prior: Prior,
    sites: tuple[Site, ...],
    bypassed: Callable[[], set[str]],
    *,
    frozen: Sequence[str] = (),
) -> dict[str, Structure]:
    """The structure of each site; sites that no pattern names have none.

    `bypassed` gives the names of the sites that have a path around them, and is called only if that
    matters. `frozen` are the names of sites that do not learn, and so cannot carry a prior.
    """
    names = ", ".join(site.name for site in sites)
    if not sites:
        raise ValueError(
            f"All layers that a prior can be put on are frozen ({', '.join(frozen)}): there is "
            f"nothing to infer. Leave one of them out of frozen=."
        )
    if isinstance(prior, Mapping):
        assigned = _match(prior, [site.name for site in sites], frozen)
    elif isinstance(prior, Structure):
        assigned = {site.name: prior for site in sites}
        if prior.needs_path_around:
            # As in the paper: residual layers get the structure, the others ARD.
            around = bypassed()
            if not around:
                raise ValueError(
                    f"{type(prior).__name__} switches off whole layers, and no layer of this "
                    f"network has a path around it. Use ARD, or a network with skip connections. "
                    f"Layers: {names}."
                )
            by = prior.by if isinstance(prior, ARDADD) else "unit"
            ard = ARD(prior.mixture, scale=prior.scale, base=prior.base, by=by)
            assigned = {name: prior if name in around else ard for name in assigned}
    else:
        raise ValueError(
            f"prior must be a structure around a mixture, such as ARD(HalfCauchy(1.0)), or a "
            f"mapping from layer-name patterns to structures; got {prior!r}."
        )
    if not assigned:
        raise ValueError(f"The prior leaves every layer without one. Layers: {names}.")
    needing = [name for name, structure in assigned.items() if structure.needs_path_around]
    if needing and (blocked := [name for name in needing if name not in bypassed()]):
        raise ValueError(
            f"{type(assigned[blocked[0]]).__name__} on {', '.join(map(repr, blocked))}: no path "
            f"leads around this layer, so switching it off would cut the output off from the "
            f"input. Use ARD there, or add a skip connection. Layers: {names}."
        )
    return assigned


def check_groups(structures: dict[str, Structure], sites: tuple[Site, ...]) -> None:
    """Raise `ValueError` if a layer's rule does not know the scales that its structure has."""
    for site in sites:
        if site.name in structures:
            for group in structures[site.name].groups:
                try:
                    GROUPS[group].shape(site)
                except ValueError as error:
                    raise ValueError(f"{error} {_who_has(group, sites)}") from None


def _who_has(group: str, sites: tuple[Site, ...]) -> str:
    having = []
    for site in sites:
        try:
            GROUPS[group].shape(site)
            having.append(site.name)
        except ValueError:
            continue
    if not having:
        return f"No layer of this network has them: leave out by={group!r}."
    return (
        f"Give this prior by pattern to layers that have them ({', '.join(having)}): "
        f"{{{having[0]!r}: ARD(..., by={group!r}), ...}}."
    )


def check_parameters(structures: dict[str, Structure]) -> None:
    """Raise `ValueError` unless every parameter of every prior is one number."""
    for name, structure in structures.items():
        if any(jnp.ndim(leaf) for leaf in jax.tree.leaves(structure)):
            raise ValueError(
                f"A parameter of the prior on {name!r} is an array: {structure!r}. Each must be "
                f"one number; many priors at once go through jax.vmap."
            )


def _match(
    prior: Mapping[str, Structure | None], names: list[str], frozen: Sequence[str]
) -> dict[str, Structure]:
    if not prior:
        raise ValueError(f"The prior names no layer. Layers: {', '.join(names)}.")
    owner: dict[str, str] = {}
    for pattern, structure in prior.items():
        if not (structure is None or isinstance(structure, Structure)):
            raise ValueError(
                f"prior[{pattern!r}] must be a structure around a mixture, such as "
                f"ARD(HalfCauchy(1.0)), or None for no prior; got {structure!r}."
            )
        hits = fnmatch.filter(names, str(pattern))
        still = fnmatch.filter(frozen, str(pattern))
        if still and not hits and structure is not None:
            raise ValueError(
                f"prior[{pattern!r}] stands on what is frozen ({', '.join(still)}): a layer that "
                f"does not learn carries no prior. Take it out of the prior, or out of frozen=."
            )
        if not (hits or still):
            raise ValueError(
                f"The pattern {pattern!r} matches no layer. Layers: {', '.join(names)}."
            )
        for name in hits:
            if name in owner:
                raise ValueError(
                    f"Layer {name!r} is matched twice, by {owner[name]!r} and by {pattern!r}. "
                    f"Layers: {', '.join(names)}."
                )
            owner[name] = pattern
    given = {name: prior[owner[name]] for name in names if name in owner}
    return {name: structure for name, structure in given.items() if structure is not None}
