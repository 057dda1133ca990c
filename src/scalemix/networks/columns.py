"""Dense layers that keep the examples of a batch in columns.

Mapped over examples, `W x` gives units by examples; but adding a bias that is not mapped makes JAX
put the examples first, and every layer then turns its activations around twice. A bias that comes
as a product, `b [1]`, is laid out like `W x`. That is worth a factor of 1.5 on a small network.
"""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, PyTree


class ColumnLinear(eqx.nn.Linear):
    """A dense layer with the values of another: the same function, laid out for batches."""

    def __init__(self, layer: eqx.nn.Linear):
        for field in dataclasses.fields(layer):
            setattr(self, field.name, getattr(layer, field.name))

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        assert self.bias is not None
        # One, but mapped as the input is.
        one = 0 * x[:1] + 1
        return self.weight @ x + self.bias[:, None] @ one


def with_columns(network: PyTree) -> PyTree:
    """The same network, its dense layers laid out for batches."""

    def change(layer: PyTree) -> PyTree:
        return ColumnLinear(layer) if _is_dense(layer) else layer

    return jax.tree.map(change, network, is_leaf=_is_dense)


def _is_dense(layer: PyTree) -> bool:
    return (
        type(layer) is eqx.nn.Linear
        and layer.bias is not None
        and "scalar" not in (layer.in_features, layer.out_features)
    )
