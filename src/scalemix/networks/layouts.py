"""Dense layers laid out for batches: the same functions, quicker.

Mapped over examples, Equinox's `W x` gives units by examples, but adding a bias that is not mapped
makes JAX put the examples first: every layer transposes its activations, forward and backward. Here
the bias is added as a product `b [1]`, laid out like `W x`, which is quickest for small networks
without noise. Networks with noise have their products the other way round instead (`_dot` in
`networks/interpreter.py`).
"""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray

from scalemix._types import PyTree


class ColumnLinear(eqx.nn.Linear):
    """A dense layer with the values of another, the examples of a batch in columns."""

    def __init__(self, layer: eqx.nn.Linear):
        _copy(layer, self)

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        if not _is_vector(self, x):
            return super().__call__(x, key=key)
        assert self.bias is not None
        # The number one, mapped over examples as the input is.
        one = 0 * x[:1] + 1
        return self.weight @ x + self.bias[:, None] @ one


def _is_vector(layer: eqx.nn.Linear, x: Array) -> bool:
    # A weight multiplies a matrix from the left, whatever the layout.
    return x.ndim == (0 if layer.in_features == "scalar" else 1)


def _copy(layer: eqx.nn.Linear, new: eqx.nn.Linear) -> None:
    for field in dataclasses.fields(layer):
        setattr(new, field.name, getattr(layer, field.name))


def in_columns(network: PyTree) -> PyTree:
    """The same network, the examples of a batch in columns where a layer has a bias and a width."""

    def change(layer: eqx.nn.Linear) -> eqx.nn.Linear:
        scalar = "scalar" in (layer.in_features, layer.out_features)
        return layer if scalar or layer.bias is None else ColumnLinear(layer)

    return jax.tree.map(lambda n: change(n) if _is_dense(n) else n, network, is_leaf=_is_dense)


def _is_dense(node: PyTree) -> bool:
    # A subclass of the user's keeps its own way of calling.
    return type(node) is eqx.nn.Linear
