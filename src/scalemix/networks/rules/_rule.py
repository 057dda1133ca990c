"""What a rule says about a layer type."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxtyping import Array


def along_first_axis(scales: Array, x: Array) -> Array:
    """Multiply each unit, or channel, of a layer's input by its scale."""
    if x.ndim and x.shape[0] != scales.shape[0]:
        raise ValueError(
            f"A layer of {scales.shape[0]} input units got an input of shape {x.shape}. A network "
            f"takes one example, without a batch axis."
        )
    return times_first_axis(scales, x)


def times_first_axis(scales: Array, x: Array) -> Array:
    """Each entry of the first axis times its scale; of a number, the number times the only one."""
    return x * scales.reshape(x.shape[:1] + (1,) * (x.ndim - 1))


@dataclasses.dataclass(frozen=True)
class LayerRule:
    """Where a layer keeps a weight, and how the scales of its rows and its outputs act on it.

    A row holds the outgoing weights of one unit of the layer's input. Its scale may multiply the
    row, or the unit itself, which is the same and far cheaper when examples differ in their noise.
    The weights of an output are those that lead to one unit, or channel, of the layer's output.
    Their scale may multiply the weights, or what the layer puts out before it adds its bias.

    Parameters
    ----------
    num_rows : callable
        `layer -> int`, the number of rows.
    expand : callable
        `(layer, scales of the rows) -> Array`, the same scales, broadcastable against the weight.
    scale_input : callable or None, default along the first axis
        `(scales of the rows, the layer's first argument) -> Array`, the scaled argument. `None`
        where the layer uses its input for more than the product with this weight; the weight is
        scaled then.
    weight : str, default "weight"
        The layer's attribute that holds the weight.
    bias : str, default "bias"
        The layer's attribute that holds what is added to the product, if anything is.
    num_outputs : callable, optional
        `layer -> int`, the number of outputs. Without this and `expand_outputs` the layer cannot
        carry scales by output.
    expand_outputs : callable, optional
        `(layer, scales of the outputs) -> Array`, the same scales, broadcastable against the
        weight.
    scale_output : callable, optional
        `(layer, scales of the outputs, product) -> Array`, the layer's output with each product
        scaled and the bias added; `product` is what the layer puts out with a bias of zero. Without
        it the weight is scaled. A subclass that has a `__call__` of its own does without it.

    Examples
    --------
    The rule of a dense layer that computes `x @ kernel`:

    >>> rule = sx.networks.LayerRule(
    ...     num_rows=lambda layer: layer.kernel.shape[0],
    ...     expand=lambda layer, scales: scales[:, None],
    ...     weight="kernel",
    ... )
    """

    num_rows: Callable[[Any], int]
    expand: Callable[[Any, Array], Array]
    scale_input: Callable[[Array, Array], Array] | None = along_first_axis
    weight: str = "weight"
    bias: str = "bias"
    num_outputs: Callable[[Any], int] | None = None
    expand_outputs: Callable[[Any, Array], Array] | None = None
    scale_output: Callable[[Any, Array, Array], Array] | None = None
