"""A network's outputs for a batch under noise that was drawn beforehand."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array

from scalemix.networks.placing import Scales

NoiseSharing = Literal["example", "batch", "sequence"]


def noisy_outputs(
    with_scales: Callable[[Scales], Any], x: Array, scales: Scales, noise_sharing: NoiseSharing
) -> Array:
    """One output for each input; `with_scales` gives the network under one draw."""
    if noise_sharing not in get_args(NoiseSharing):
        raise ValueError(
            f"noise_sharing must be one of {get_args(NoiseSharing)}, got {noise_sharing!r}."
        )
    shared = noise_sharing == "batch"
    x = jnp.asarray(x)
    if x.ndim == 0:
        raise ValueError("outputs takes a batch of inputs, got a single number.")
    if not shared and any(leaf.shape[:1] != x.shape[:1] for leaf in jax.tree.leaves(scales)):
        raise ValueError(
            f"noise_sharing={noise_sharing!r} takes one draw for each of the {x.shape[0]} "
            f"{noise_sharing}s: scales from model.draw({x.shape[0]}, key=key)."
        )

    def one(scales: Scales, x: Array) -> Array:
        network = with_scales(scales)
        return jax.vmap(network)(x) if noise_sharing == "sequence" else network(x)

    try:
        return jax.vmap(one, in_axes=(None if shared else 0, 0))(scales, x)
    except TypeError as error:
        # What JAX raises where shapes do not fit.
        raise ValueError(
            f"The network cannot be called on inputs of shape {x.shape[1:]}, one for each entry "
            f"of the batch's first axis: {str(error).splitlines()[0]}"
        ) from error
