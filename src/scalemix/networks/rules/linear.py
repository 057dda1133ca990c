"""`eqx.nn.Linear`: a row is an input."""

import equinox as eqx
from jaxtyping import Array

from scalemix.networks.rules._rule import LayerRule


def _num_rows(layer: eqx.nn.Linear) -> int:
    return layer.weight.shape[1]


def _expand(layer: eqx.nn.Linear, scales: Array) -> Array:
    return scales[None, :]


LINEAR = LayerRule(_num_rows, _expand)
