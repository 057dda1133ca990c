"""Puts weights and scales into a network. The network given stays as it is; a new one is made."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike

from scalemix._types import PyTree
from scalemix.networks.deferred import Deferred, Factored, Term
from scalemix.networks.groups import GROUPS
from scalemix.networks.interpreter import run_deferred
from scalemix.networks.sites import Site

Scales = dict[str, dict[str, Array]]
"""One draw: for each site the scales of each group."""


def check_by_site(given: Any, shapes: dict[str, Any], what: str) -> None:
    """Raise `ValueError` unless `given` has these names and shapes, site by site."""
    if not isinstance(given, dict) or given.keys() != shapes.keys():
        got = ", ".join(map(str, given)) if isinstance(given, dict) else type(given).__name__
        raise ValueError(f"{what} are a dict of {', '.join(shapes)}; got {got}.")
    for name, shape in shapes.items():
        if isinstance(shape, dict):
            check_by_site(given[name], shape, f"{what} of {name!r}")
        elif jnp.shape(given[name]) != shape:
            raise ValueError(
                f"{what}: {name!r} must have the shape {shape}, got {jnp.shape(given[name])}. "
                f"Several at once go through jax.vmap."
            )


def get_weights(network: PyTree, sites: tuple[Site, ...]) -> dict[str, Array]:
    """The weights of all sites, by name."""
    return {site.name: site.weight(network) for site in sites}


def weight_leaves(network: PyTree, sites: tuple[Site, ...]) -> list[Any]:
    """What the network holds where the weights of these sites are, for `eqx.tree_at`."""
    return [part.weight(network) for site in sites for part in site.parts]


def put_weights(network: PyTree, sites: tuple[Site, ...], weights: dict[str, Array]) -> PyTree:
    """The network with these weights in place of its own."""
    leaves = [leaf for site in sites for leaf in site.split(weights[site.name])]
    return eqx.tree_at(lambda net: weight_leaves(net, sites), network, leaves)


def expand_scales(site: Site, scales: dict[str, Array], dtype: DTypeLike) -> Array:
    """The product of these groups of a site's scales, broadcastable against its weight."""
    product = jnp.ones((1,) * len(site.shape), dtype)
    for group, scale in scales.items():
        product = product * GROUPS[group].expand(site, scale)
    return product


def put_scales(network: PyTree, sites: tuple[Site, ...], scales: Scales) -> "ScaledNetwork":
    """The network in the expanded parametrization: each weight `z` acts as `xi * z`."""
    return ScaledNetwork(network, scales, sites)


class ScaledNetwork(eqx.Module):
    """A network whose weights are multiplied by scales.

    It is called as the network is. Wherever it can, the call multiplies what a weight meets or what
    comes of it, and not the weight itself: a batch in which every example has noise of its own is
    then still one matrix product. Attributes are those of the network with the scaled weights.
    """

    network: Any
    scales: Scales
    sites: tuple[Site, ...] = eqx.field(static=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        weights = {
            site.name: scaled_weight(site, site.weight(self.network), self.scales[site.name])
            for site in self.sites
        }
        return run_with_weights(self.network, self.sites, weights, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Reached only for names that are not fields of this class.
        if name.startswith("__") or name in ("network", "scales", "sites"):
            raise AttributeError(name)
        weights = {
            site.name: scaled_weight(
                site, site.weight(self.network), self.scales[site.name]
            ).value()
            for site in self.sites
        }
        return getattr(put_weights(self.network, self.sites, weights), name)


def scaled_weight(site: Site, weight: Array, scales: dict[str, Array]) -> Factored:
    """The weight times its scales, as factors along its axes where that is what they are."""
    factors: dict[int, Array] = {}
    for name, scale in scales.items():
        group = GROUPS[name]
        if group.along is None:
            weight = weight * group.expand(site, scale)
            continue
        axis, vector = site.axis(group.along), group.vector(site, scale)
        assert axis is not None
        factors[axis] = factors[axis] * vector if axis in factors else vector
    return Factored((Term(weight, factors, site.axis("output")),), site.num_stacked)


def run_with_weights(
    network: PyTree,
    sites: tuple[Site, ...],
    weights: Mapping[str, Deferred],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The network's output with these weights in place of its own."""
    # Whatever is no array, such as a flag, is part of the function.
    arrays, rest = eqx.partition((args, kwargs), eqx.is_array)

    def call(weights: Mapping[str, Any], arrays: Any) -> Any:
        args, kwargs = eqx.combine(arrays, rest)
        return put_weights(network, sites, dict(weights))(*args, **kwargs)

    return run_deferred(call, weights, arrays)
