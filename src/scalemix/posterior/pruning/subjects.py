"""Distributions over networks, to be cut as networks are, and put together again."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix._types import PyTree, Shaped
from scalemix.model.assembly import assemble
from scalemix.networks import MLP, Site, find_sites
from scalemix.networks.cutting import Member, Origin
from scalemix.networks.cutting.graph import is_numeric
from scalemix.networks.cutting.member import arrays_of, paths_of
from scalemix.networks.cutting.norms import bookkeeping
from scalemix.networks.groups import GROUPS
from scalemix.networks.placing import put_weights
from scalemix.networks.sites import path_name
from scalemix.posterior.networks import Beside, Networks
from scalemix.structures import Structure


def start(networks: Networks) -> Member:
    """The network whose weights are the means, and where its arrays are not certainly zero."""
    means = {name: moments.mean for name, moments in networks.weight_moments().items()}
    network = networks.model.with_weights(means).network
    nonzero = [_nonzero(array) for array in arrays_of(networks.model.network)]
    beside = networks.beside()
    for leaf, site in sites_by_leaf(networks).items():
        deviation = beside[site.name].deviation
        if deviation is not None:
            nonzero[leaf] = nonzero[leaf] | (np.asarray(deviation) != 0)
    return Member.start(network, nonzero)


def _nonzero(array: Any) -> np.ndarray:
    return np.asarray(array) != 0 if is_numeric(array) else np.ones(array.shape, bool)


def sites_by_leaf(networks: Networks) -> dict[int, Site]:
    """The sites under the prior, by the numbers of their weights among all arrays."""
    leaves = {path: leaf for leaf, path in enumerate(paths_of(networks.model.network))}
    return {leaves[site.weight_path]: site for site in networks.model.sites}


def frozen_leaves(networks: Networks) -> list[int]:
    """The numbers of the frozen arrays, but for those that pruning itself keeps up to date."""
    frozen, ours = networks.model.frozen, bookkeeping(networks.model.network)
    paths = enumerate(paths_of(networks.model.network))
    return [leaf for leaf, path in paths if path_name(path) in frozen and path not in ours]


def finish(member: Member, like: Networks, example: Shaped | None) -> Networks:
    """Networks of the same kind as `like`, of which this is left."""
    model = like.model
    old_sites, old_beside = sites_by_leaf(like), like.beside()
    network = plain_mlp(member.network)
    known = dict(
        zip(paths_of(network), zip(member.origins, member.nonzero, strict=True), strict=True)
    )
    weights, structures, beside, sites = {}, {}, {}, []
    for site in find_sites(network):
        origin, nonzero = known[site.weight_path]
        if origin.leaf not in old_sites:
            continue
        old = old_sites[origin.leaf]
        each = old_beside[old.name]
        sites.append(site)
        structures[site.name] = _scaled(model.structures[old.name], origin.factor)
        weights[site.name] = _taken(model.weights[old.name], origin, nonzero)
        beside[site.name] = Beside(
            None if each.deviation is None else _taken(each.deviation, origin, nonzero),
            {g: _taken_scales(g, v, old, site, origin) for g, v in each.variances.items()},
        )
    frozen_before, ours = set(frozen_leaves(like)), bookkeeping(network)
    frozen = [
        path_name(path)
        for path, (origin, _) in known.items()
        if origin.leaf in frozen_before or path in ours
    ]
    network = put_weights(network, tuple(sites), weights)
    made = assemble(network, structures, model.likelihood, example=example, frozen=tuple(frozen))
    return like.rebuilt(made, beside)


def _taken(values: Array, origin: Origin, nonzero: np.ndarray) -> Array:
    """What is left of the values of a weight, or of their deviations."""
    taken = np.asarray(values).reshape(-1)[origin.places]
    taken = taken * np.asarray(origin.factor, taken.dtype)
    return jnp.asarray(np.where(nonzero, taken, np.zeros((), taken.dtype)))


def _scaled(structure: Structure, factor: float) -> Structure:
    """The prior of weights that were multiplied, which believes the same of each of them."""
    if factor == 1.0:
        return structure
    return eqx.tree_at(lambda s: s.scale, structure, structure.scale * factor)


def _taken_scales(group: str, scales: Array, old: Site, new: Site, origin: Origin) -> Array:
    """What is left of the scales of a weight: each weight keeps the scale that it had."""
    before = _scale_numbers(group, old).reshape(-1)[origin.places]
    after = _scale_numbers(group, new)
    shape = GROUPS[group].full_shape(new)
    taken = np.zeros(int(np.prod(shape)), np.int64)
    taken[after.reshape(-1)] = before.reshape(-1)
    return jnp.asarray(np.asarray(scales).reshape(-1)[taken].reshape(shape))


@functools.lru_cache
def _scale_numbers(group: str, site: Site) -> np.ndarray:
    """For each weight, the number of its scale."""
    shape = GROUPS[group].full_shape(site)
    numbers = jnp.arange(int(np.prod(shape)), dtype=jnp.int32).reshape(shape)
    return np.broadcast_to(np.asarray(GROUPS[group].expand(site, numbers)), site.shape)


def plain_mlp(network: PyTree) -> PyTree:
    """One of our MLPs in place of Equinox's, which has one width for all layers."""
    if type(network) is not eqx.nn.MLP or not isinstance(network.layers, tuple):
        return network
    plain = eqx.nn.MLP(1, 1, 1, 1, key=jax.random.key(0))
    has_arrays = any(map(eqx.is_array, jax.tree.leaves(network.activation)))
    if has_arrays or network.final_activation not in (plain.final_activation, jax.nn.identity):
        return network
    if network.scan or not all(type(layer) is eqx.nn.Linear for layer in network.layers):
        return network
    ours = eqx.filter_eval_shape(
        MLP, 1, 1, 1, 0, activation=network.activation, key=jax.random.key(0)
    )
    return eqx.tree_at(lambda net: net.layers, ours, network.layers)
