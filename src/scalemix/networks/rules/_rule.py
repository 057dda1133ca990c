"""What a rule says of a layer type."""

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
    return x * scales.reshape(x.shape[:1] + (1,) * (x.ndim - 1))


@dataclasses.dataclass(frozen=True)
class LayerRule:
    """Where a layer keeps a weight, and how the scales of the weight's rows act on it.

    A row holds the outgoing weights of one unit of the layer's input. Its scale may multiply the
    row, or the unit itself, which is the same and far cheaper when examples differ in their noise.
    """

    num_rows: Callable[[Any], int]
    """layer -> the number of rows."""
    expand: Callable[[Any, Array], Array]
    """(layer, scales of the rows) -> the same scales, broadcastable against the weight."""
    scale_input: Callable[[Array, Array], Array] | None = along_first_axis
    """(scales of the rows, the layer's first argument) -> the scaled argument. `None` where the
    layer uses its input for more than the product with this weight: the weight is scaled then."""
    weight: str = "weight"
    """The layer's attribute that holds the weight."""
    bias: str = "bias"
    """The layer's attribute that holds what is added to the product, if there is any."""
