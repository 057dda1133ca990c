"""A network's outputs for a batch under noise that was drawn beforehand."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix._types import PyTree
from scalemix.networks.placing import Scales
from scalemix.networks.rows import row_keys, train_rows

NoiseSharing = Literal["example", "batch", "sequence"]


def noisy_outputs(
    with_scales: Callable[[Scales], Any], x: PyTree, scales: Scales, noise_sharing: NoiseSharing
) -> Array:
    """One output for each input; `with_scales` gives the network under one draw."""
    x = _check_batch(x, scales, noise_sharing)

    def one(scales: Scales, x: PyTree) -> Array:
        network = with_scales(scales)
        return jax.vmap(network)(x) if noise_sharing == "sequence" else network(x)

    with _refusals(x):
        return jax.vmap(one, in_axes=(None if noise_sharing == "batch" else 0, 0))(scales, x)


def training_outputs(
    network: PyTree,
    under: Callable[[Scales], Any] | None,
    x: PyTree,
    scales: Scales | None,
    key: PRNGKeyArray,
    noise_sharing: NoiseSharing,
) -> tuple[Array, PyTree]:
    """One output for each input, and the network's state after them.

    `under` gives the network, which is in training, under one draw; without it there is no noise.
    """
    if noise_sharing == "sequence":
        raise ValueError("In training a sequence is an example: use noise_sharing='example'.")
    x = _check_batch(x, scales, noise_sharing)
    keys = row_keys(network, key, jax.tree.leaves(x)[0].shape[:1])

    def one(pass_one: Callable[..., Any], scales: Scales | None) -> Any:
        return pass_one(network if under is None or scales is None else under(scales))

    by_row = None if noise_sharing == "batch" else 0
    with _refusals(x):
        return train_rows(one, network, x, keys, scales, in_axes=(by_row,))


def _check_batch(x: PyTree, scales: Scales | None, noise_sharing: NoiseSharing) -> PyTree:
    if noise_sharing not in get_args(NoiseSharing):
        raise ValueError(
            f"noise_sharing must be one of {get_args(NoiseSharing)}, got {noise_sharing!r}."
        )
    x = jax.tree.map(jnp.asarray, x)
    if any(part.ndim == 0 for part in jax.tree.leaves(x)):
        raise ValueError("outputs takes a batch of inputs, got a single number.")
    lengths = jax.tree.leaves(x)[0].shape[:1]
    wrong = any(leaf.shape[:1] != lengths for leaf in jax.tree.leaves(scales))
    if noise_sharing != "batch" and wrong:
        raise ValueError(
            f"noise_sharing={noise_sharing!r} takes one draw for each of the {lengths[0]} "
            f"{noise_sharing}s: scales from model.draw({lengths[0]}, key=key)."
        )
    return x


@contextlib.contextmanager
def _refusals(x: PyTree) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        # What JAX raises where shapes do not fit.
        shapes = ", ".join(str(part.shape[1:]) for part in jax.tree.leaves(x))
        raise ValueError(
            f"The network cannot be called on inputs of shape {shapes}, one for each entry of the "
            f"batch's first axis: {str(error).splitlines()[0]}"
        ) from error
