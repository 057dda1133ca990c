"""The prior of a whole network: which structure stands on which site, its draws and its density."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PRNGKeyArray, PyTree

from scalemix._special import log_normal
from scalemix.networks.placing import Scales, expand_scales
from scalemix.networks.sites import Site
from scalemix.structures import ARD, Structure, group_shape

Prior = Structure | Mapping[str, Structure | None]
Parametrization = Literal["hierarchical", "expanded"]


class PriorSample(NamedTuple):
    """Weights and the scales they were drawn with, both by site."""

    weights: dict[str, Array]
    scales: Scales


def assign(
    prior: Prior,
    sites: tuple[Site, ...],
    bypassed: Callable[[], set[str]],
    *,
    frozen: Sequence[str] = (),
) -> dict[str, Structure]:
    """The structure of each site; sites that no pattern names have none.

    `bypassed` says which sites have a path around them. It is asked only if that matters. `frozen`
    are the names of sites that no prior can stand on.
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
            ard = ARD(prior.mixture, scale=prior.scale)
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
    found = {name: prior[owner[name]] for name in names if name in owner}
    return {name: structure for name, structure in found.items() if structure is not None}


def draw_scales(
    structures: dict[str, Structure],
    sites: tuple[Site, ...],
    network: PyTree,
    shape: tuple[int, ...],
    key: PRNGKeyArray,
) -> Scales:
    """Noise for all sites, with leading axes of this shape: independent draws."""
    wanted = [(site, group) for site in sites for group in structures[site.name].groups]
    scales: Scales = {site.name: {} for site in sites}
    for (site, group), subkey in zip(wanted, jax.random.split(key, len(wanted)), strict=True):
        scales[site.name][group] = (
            structures[site.name]
            .groups[group]
            .sample(
                shape + group_shape(group, site.shape, site.num_rows),
                key=subkey,
                dtype=site.weight(network).dtype,
            )
        )
    return scales


def sample_prior(
    structures: dict[str, Structure],
    sites: tuple[Site, ...],
    network: PyTree,
    parametrization: Parametrization,
    key: PRNGKeyArray,
) -> PriorSample:
    """Weights and scales from the prior, `z` or `w = xi * z` as the parametrization says."""
    scale_key, weight_key = jax.random.split(key)
    scales = draw_scales(structures, sites, network, (), scale_key)
    weights = {}
    for site, subkey in zip(sites, jax.random.split(weight_key, len(sites)), strict=True):
        structure = structures[site.name]
        _check_proper(site, structure)
        dtype = site.weight(network).dtype
        weight = structure.scale * jax.random.normal(subkey, site.shape, dtype)
        if parametrization == "hierarchical":
            weight = weight * expand_scales(site, site.layer(network), scales[site.name])
        weights[site.name] = weight
    return PriorSample(weights, scales)


def log_prior(
    structures: dict[str, Structure],
    sites: tuple[Site, ...],
    network: PyTree,
    weights: dict[str, Array],
    scales: Scales,
    parametrization: Parametrization,
) -> Array:
    """Log density of weights and scales together.

    expanded:      `sum log N(z; 0, s0^2)      + sum log p(xi)`, weights are `z`
    hierarchical:  `sum log N(w; 0, s0^2 xi^2) + sum log p(xi)`, weights are `w = xi z`
    """
    total = jnp.zeros(())
    for site in sites:
        structure = structures[site.name]
        _check_proper(site, structure)
        weight = weights[site.name]
        if parametrization == "hierarchical":
            noise = expand_scales(site, site.layer(network), scales[site.name])
            density = _log_normal_or_spike(weight, jnp.abs(noise) * structure.scale)
        else:
            density = log_normal(weight, structure.scale)
        total = total + jnp.sum(density)
        for group, mixture in structure.groups.items():
            total = total + jnp.sum(mixture.log_prob(scales[site.name][group]))
    return total


def _log_normal_or_spike(weight: Array, scale: Array) -> Array:
    # A scale of zero leaves no density but a point mass at zero, which counts as log 1.
    on = scale > 0
    slab = log_normal(weight, jnp.where(on, scale, 1.0))
    return jnp.where(on, slab, jnp.where(weight == 0, 0.0, -jnp.inf))


def _check_proper(site: Site, structure: Structure) -> None:
    if not isinstance(structure.scale, Tracer) and np.any(np.isinf(structure.scale)):
        raise ValueError(
            f"The prior on {site.name!r} is flat (scale = inf): it cannot be sampled and has no "
            f"density. Give {type(structure).__name__} a finite scale."
        )


def weight_penalty(
    structures: dict[str, Structure],
    sites: tuple[Site, ...],
    network: PyTree,
    parametrization: Parametrization,
) -> Array:
    """What the prior takes off the log-likelihood of all data together, up to a constant.

    expanded:      `sum w^2 / (2 s0^2)`, the marginal-MAP penalty; the noise is in the network
    hierarchical:  `sum_r E[xi_r^-2] sum_j w_rj^2 / (2 s0^2)`; the noise is in here
    """
    total = jnp.zeros(())
    for site in sites:
        structure = structures[site.name]
        strength = 0.5 / jnp.asarray(structure.scale) ** 2
        if parametrization == "hierarchical":
            for mixture in structure.groups.values():
                strength = strength * mixture.inverse_square_mean
        total = total + strength * jnp.sum(site.weight(network) ** 2)
    return total
