"""`eqx.nn.Linear`: a row is an input."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from scalemix.networks.rules._rule import LayerRule, times_first_axis


def _num_rows(layer: eqx.nn.Linear) -> int:
    return layer.weight.shape[1]


def _expand(layer: eqx.nn.Linear, scales: Array) -> Array:
    return scales[None, :]


def _num_outputs(layer: eqx.nn.Linear) -> int:
    return layer.weight.shape[0]


def _expand_outputs(layer: eqx.nn.Linear, scales: Array) -> Array:
    return scales[:, None]


def _scale_output(layer: eqx.nn.Linear, scales: Array, product: Array) -> Array:
    scaled = times_first_axis(scales, product)
    if layer.bias is None:
        return scaled
    return scaled + (jnp.squeeze(layer.bias) if layer.out_features == "scalar" else layer.bias)


LINEAR = LayerRule(
    _num_rows,
    _expand,
    num_outputs=_num_outputs,
    expand_outputs=_expand_outputs,
    scale_output=_scale_output,
)
