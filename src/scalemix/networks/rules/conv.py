"""`eqx.nn.Conv` in any number of dimensions, grouped or not: a row is an input channel, an output a
filter."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from scalemix.networks.rules._rule import LayerRule, times_first_axis


def _num_rows(layer: eqx.nn.Conv) -> int:
    return layer.in_channels


def _expand(layer: eqx.nn.Conv, scales: Array) -> Array:
    # The weight is (out, in / groups, ...); an output channel sees the inputs of its own group.
    by_group = scales.reshape(layer.groups, layer.in_channels // layer.groups)
    by_output = jnp.repeat(by_group, layer.out_channels // layer.groups, axis=0)
    return by_output.reshape(by_output.shape + (1,) * layer.num_spatial_dims)


def _num_outputs(layer: eqx.nn.Conv) -> int:
    return layer.out_channels


def _expand_outputs(layer: eqx.nn.Conv, scales: Array) -> Array:
    return scales.reshape((-1,) + (1,) * (layer.num_spatial_dims + 1))


def _scale_output(layer: eqx.nn.Conv, scales: Array, product: Array) -> Array:
    scaled = times_first_axis(scales, product)
    return scaled if layer.bias is None else scaled + layer.bias


CONV = LayerRule(
    _num_rows,
    _expand,
    num_outputs=_num_outputs,
    expand_outputs=_expand_outputs,
    scale_output=_scale_output,
)
