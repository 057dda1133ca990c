"""A plain multilayer perceptron."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray

from scalemix.networks.columns import ColumnLinear, ColumnReader

Size = int | Literal["scalar"]
ColumnNumbers = (
    tuple[Sequence[int], Sequence[int]] | tuple[Sequence[int], Sequence[int], Sequence[int]]
)
"""The column that each input was made of, and the part of a column; and, where some inputs are
positions of levels, how many levels each has."""


def reading_layer(in_size: Size | ColumnNumbers, width: Size, *, key: PRNGKeyArray) -> Any:
    """The layer that reads the inputs, and knows their columns where it is told."""
    if isinstance(in_size, int | str):
        return eqx.nn.Linear(in_size, width, key=key)
    columns, parts, *levels = in_size
    if levels and any(levels[0]):
        return ColumnReader(columns, parts, levels[0], width, key=key)
    return ColumnLinear(columns, width, parts, key=key)


def check_sizes(name: str, width: int, depth: int, least_depth: int) -> None:
    """Raise `ValueError` for a width or a depth that no network has."""
    if width < 1:
        raise ValueError(f"{name}: width must be at least 1, got {width}.")
    if depth < least_depth:
        raise ValueError(f"{name}: depth must be at least {least_depth}, got {depth}.")


class MLP(eqx.Module):
    """A multilayer perceptron: hidden layers, then a linear output. Sites `layers.0` and so on.

    Parameters
    ----------
    in_size : int, "scalar", or two or three sequences of int
        The number of inputs; "scalar" takes one number without an axis. Two sequences have for each
        input the number of the column of a table that it was made of, and that of the part of a
        column: see `ColumnLinear`. A third one has how many levels an input is the position of, or
        0 for a number: see `ColumnReader`.
    out_size : int or "scalar"
        The number of outputs.
    width : int or sequence of int, default 50
        The units of each hidden layer. Several numbers are those of each layer in turn, and `depth`
        is then not used.
    depth : int, default 1
        The number of hidden layers.
    activation : callable, default jax.nn.relu
        The function applied after each hidden layer.
    key : PRNG key
        Where the first weights come from.

    Examples
    --------
    >>> network = sx.networks.MLP(3, "scalar", width=8, depth=2, key=key)
    >>> [site.name for site in sx.networks.find_sites(network)]
    ['layers.0', 'layers.1', 'layers.2']
    """

    summary: ClassVar[str] = "a multilayer perceptron"
    """What the network is, for reports."""

    layer_fields: ClassVar[tuple[str, ...]] = ("layers",)
    """The fields that hold its layers, in the order in which they are passed."""

    layers: tuple[Any, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        in_size: Size | ColumnNumbers,
        out_size: Size,
        width: int | Sequence[int] = 50,
        depth: int = 1,
        *,
        activation: Callable[[Array], Array] = jax.nn.relu,
        key: PRNGKeyArray,
    ):
        widths = [width] * depth if isinstance(width, int) else list(width)
        for one in [width] if isinstance(width, int) else widths:
            check_sizes("MLP", one, depth, least_depth=0)
        sizes = [*widths, out_size]
        first, *keys = jax.random.split(key, len(sizes))
        self.layers = (
            reading_layer(in_size, sizes[0], key=first),
            *(
                eqx.nn.Linear(*pair, key=k)
                for pair, k in zip(itertools.pairwise(sizes), keys, strict=True)
            ),
        )
        self.activation = activation

    @property
    def first_layer(self) -> Any:
        """The layer that reads the inputs."""
        return self.layers[0]

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
