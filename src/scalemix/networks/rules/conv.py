"""`eqx.nn.Conv` in any number of dimensions, grouped or not: a row is an input channel."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from scalemix.networks.rules._rule import LayerRule


def _num_rows(layer: eqx.nn.Conv) -> int:
    return layer.in_channels


def _expand(layer: eqx.nn.Conv, scales: Array) -> Array:
    # The weight is (out, in / groups, ...); an output channel sees the inputs of its own group.
    by_group = scales.reshape(layer.groups, layer.in_channels // layer.groups)
    by_output = jnp.repeat(by_group, layer.out_channels // layer.groups, axis=0)
    return by_output.reshape(by_output.shape + (1,) * layer.num_spatial_dims)


CONV = LayerRule(_num_rows, _expand)
