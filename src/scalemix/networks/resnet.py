"""The residual network of the paper."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix.networks.mlp import ColumnNumbers, Size, check_sizes, reading_layer


class ResNet(eqx.Module):
    """A residual network: `h = f(W x)`, then layers `h = f(W h) + h`, then a linear output.

    Sites are `first`, `blocks.0`, `blocks.1`, ... and `last`. The weights of the l-th residual
    layer start at `1 / l` of the usual size, so that a deep network starts much like a shallow one
    and learns with its first layers first. The biases of residual layers start at zero, so that a
    rectified layer whose weights are off adds nothing.

    Parameters
    ----------
    in_size : int, "scalar", or two or three sequences of int
        The number of inputs; "scalar" takes one number without an axis. Two sequences have for each
        input the number of the column of a table that it was made of, and that of the part of a
        column: see `ColumnLinear`. A third one has how many levels an input is the position of, or
        0 for a number: see `ColumnReader`.
    out_size : int or "scalar"
        The number of outputs.
    width : int, default 50
        The units of each hidden layer.
    depth : int, default 2
        The number of hidden layers: the first one and `depth - 1` residual ones.
    activation : callable, default jax.nn.relu
        The function `f`.
    key : PRNG key
        Where the first weights come from.

    Examples
    --------
    >>> network = sx.networks.ResNet(3, "scalar", width=8, depth=3, key=key)
    >>> [site.name for site in sx.networks.find_sites(network)]
    ['first', 'blocks.0', 'blocks.1', 'last']
    """

    summary: ClassVar[str] = "a residual network"
    """What the network is, for reports."""

    layer_fields: ClassVar[tuple[str, ...]] = ("first", "blocks", "last")
    """The fields that hold its layers, in the order in which they are passed."""

    first: Any
    blocks: tuple[eqx.nn.Linear, ...]
    last: eqx.nn.Linear
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        in_size: Size | ColumnNumbers,
        out_size: Size,
        width: int = 50,
        depth: int = 2,
        *,
        activation: Callable[[Array], Array] = jax.nn.relu,
        key: PRNGKeyArray,
    ):
        check_sizes("ResNet", width, depth, least_depth=1)
        keys = jax.random.split(key, depth + 1)
        self.first = reading_layer(in_size, width, key=keys[0])
        self.blocks = tuple(
            _residual(width, place, k) for place, k in enumerate(keys[1:-1], start=1)
        )
        self.last = eqx.nn.Linear(width, out_size, key=keys[-1])
        self.activation = activation

    @property
    def first_layer(self) -> Any:
        """The layer that reads the inputs."""
        return self.first

    def __call__(self, x: Array) -> Array:
        h = self.activation(self.first(x))
        for block in self.blocks:
            h = self.activation(block(h)) + h
        return self.last(h)


def _residual(width: int, place: int, key: PRNGKeyArray) -> eqx.nn.Linear:
    """The residual layer that comes `place`-th, counted from one.

    Branches of one size would make the stream grow exponentially with depth. Branches that shrink
    evenly with depth would share all work among them, and a prior could then remove none.
    """
    layer = eqx.nn.Linear(width, width, key=key)
    start = layer.weight / place, jnp.zeros(width, layer.weight.dtype)
    return eqx.tree_at(lambda node: (node.weight, node.bias), layer, start)
