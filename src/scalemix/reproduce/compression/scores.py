"""Errors on test images, in percent."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix.posterior.networks import Networks
from scalemix.reproduce.compression.images import Images
from scalemix.reproduce.compression.networks import Network

ROWS_AT_ONCE = 500


def error(network: Network, images: Images) -> float:
    """The error of one network."""
    return _share_wrong(_outputs(network, in_parts(images.x_test)), images)


def ensemble_error(networks: Sequence[Network], images: Images) -> float:
    """The error of the mean output of several networks."""
    return _share_wrong(np.mean([logits(n, images.x_test) for n in networks], axis=0), images)


def logits(network: Network, x: np.ndarray) -> np.ndarray:
    """What a network says of each image."""
    outputs = np.asarray(_outputs(network, in_parts(x)))
    return outputs.reshape(-1, outputs.shape[-1])[: len(x)]


def averaged_error(networks: Networks, images: Images, num_draws: int, seed: int = 0) -> float:
    """The error of the average over networks drawn from a posterior."""
    keys = jax.random.split(jax.random.key(seed), num_draws)
    return _share_wrong(_averaged(networks, in_parts(images.x_test), keys), images)


def in_parts(x: np.ndarray) -> Array:
    """Images in parts of equal length, the last one filled up with blank ones."""
    missing = -len(x) % ROWS_AT_ONCE
    padded = np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])
    return jnp.asarray(padded.reshape(-1, ROWS_AT_ONCE, *x.shape[1:]))


def _share_wrong(outputs: Array | np.ndarray, images: Images) -> float:
    said = np.asarray(outputs).reshape(-1, outputs.shape[-1])[: len(images.y_test)].argmax(axis=1)
    return round(100 * float(np.mean(said != images.y_test)), 3)


@eqx.filter_jit
def _outputs(network: Network, parts: Array) -> Array:
    return jax.lax.map(jax.vmap(network), parts)


@eqx.filter_jit
def _averaged(networks: Networks, parts: Array, keys: Array) -> Array:
    def add(total: Array, key: Array) -> tuple[Array, None]:
        network = networks(jnp.int32(0), key).network
        return total + jax.nn.softmax(jax.lax.map(jax.vmap(network), parts)), None

    shape = jax.eval_shape(lambda x: jax.lax.map(jax.vmap(networks.model.network), x), parts)
    return jax.lax.scan(add, jnp.zeros(shape.shape, shape.dtype), keys)[0]
