"""Finds the layers that something leads around."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from scalemix.networks.placing import get_weights, put_weights
from scalemix.networks.sites import Site

NUM_INPUTS = 8
NUM_TRIALS = 4


def bypassed_sites(
    network: PyTree, sites: tuple[Site, ...], example: jax.ShapeDtypeStruct, learnable: PyTree
) -> set[str]:
    """The names of the sites whose weight can be zero and the output still depend on the input.

    Values that learn are not used: at the start a branch may be all zero and every rectifier off.
    Random ones stand in for them, several times over. `learnable` says which leaves those are.
    """
    rng = np.random.default_rng(0)
    found: set[str] = set()
    with jax.ensure_compile_time_eval():
        for _ in range(NUM_TRIALS):
            stand_in = _randomise(network, learnable, rng)
            inputs = jnp.asarray(rng.normal(size=(NUM_INPUTS, *example.shape)), example.dtype)
            weights = get_weights(stand_in, sites)
            for site in sites:
                if site.name not in found:
                    zeroed = weights | {site.name: jnp.zeros_like(weights[site.name])}
                    if _depends(put_weights(stand_in, sites, zeroed), inputs):
                        found.add(site.name)
    return found


# Compiled once for all networks of a kind, of which there may be hundreds.
@eqx.filter_jit
def _depends(network: PyTree, inputs: jax.Array) -> jax.Array:
    # Without a path the zeros make all outputs equal to the last bit.
    outputs = jax.vmap(network)(inputs)
    return jnp.any(outputs != outputs[:1]) & jnp.all(jnp.isfinite(outputs))


def _randomise(network: PyTree, learnable: PyTree, rng: np.random.Generator) -> PyTree:
    def random(leaf, learns):
        if not learns:
            return leaf
        # Unit variance passes through a layer of any width.
        fan_in = max(1, leaf.size // leaf.shape[0]) if leaf.ndim > 1 else 4
        return jnp.asarray(rng.normal(size=leaf.shape) / np.sqrt(fan_in), leaf.dtype)

    return jax.tree.map(random, network, learnable)
