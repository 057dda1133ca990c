"""Finds the layers that have a path around them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.placing import get_weights, put_weights
from scalemix.networks.sites import Site, path_name

NUM_INPUTS = 8
NUM_TRIALS = 4


def bypassed_sites(
    network: PyTree, sites: tuple[Site, ...], example: PyTree, learnable: PyTree
) -> set[str]:
    """The names of the sites without whose weight the output still depends on the input.

    The network's own values of leaves that are `learnable` do not count: at the start a branch may
    be all zero, or every rectifier off. Random values take their place, several times over.
    """
    rng = np.random.default_rng(0)
    bypassed: set[str] = set()
    with jax.ensure_compile_time_eval():
        for _ in range(NUM_TRIALS):
            stand_in = _randomise(network, sites, learnable, rng)
            inputs = jax.tree.map(
                lambda like: _put(rng.normal(size=(NUM_INPUTS, *like.shape)), like.dtype), example
            )
            weights = get_weights(stand_in, sites)
            for site in sites:
                if site.name not in bypassed:
                    old = weights[site.name]
                    zeroed = weights | {site.name: _put(np.zeros(old.shape), old.dtype)}
                    if _depends(put_weights(stand_in, sites, zeroed), inputs):
                        bypassed.add(site.name)
    return bypassed


# Compiled once for all networks of the same shapes, of which there may be hundreds.
@eqx.filter_jit
def _depends(network: PyTree, inputs: PyTree) -> jax.Array:
    # Without a path, zeros make all outputs equal to the last bit.
    outputs = jax.vmap(network)(inputs)
    return jnp.any(outputs != outputs[:1]) & jnp.all(jnp.isfinite(outputs))


def _randomise(
    network: PyTree, sites: tuple[Site, ...], learnable: PyTree, rng: np.random.Generator
) -> PyTree:
    parts = [part for site in sites for part in site.parts]
    outputs = {path_name(part.weight_path): part.axis("output") for part in parts}

    def random(path, leaf, learns):
        if not learns:
            return leaf
        # Unit variance passes through a layer of any width.
        axis = outputs.get(path_name(path)) or 0
        fan_in = max(1, leaf.size // leaf.shape[axis]) if leaf.ndim > 1 else 4
        return _put(rng.normal(size=leaf.shape) / np.sqrt(fan_in), leaf.dtype)

    return jax.tree_util.tree_map_with_path(random, network, learnable)


def _put(values: np.ndarray, dtype: np.dtype) -> jax.Array:
    # Not `asarray`, which compiles a program for every shape.
    return jax.device_put(values.astype(dtype))
