"""A plain multilayer perceptron."""

import itertools
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray

Size = int | Literal["scalar"]


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
    in_size : int or "scalar"
        The number of inputs; "scalar" takes one number without an axis.
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

    layers: tuple[eqx.nn.Linear, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        in_size: Size,
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
        sizes = [in_size, *widths, out_size]
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            eqx.nn.Linear(*pair, key=k)
            for pair, k in zip(itertools.pairwise(sizes), keys, strict=True)
        )
        self.activation = activation

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)
