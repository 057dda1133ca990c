"""What a rule says about a layer type."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax


@dataclasses.dataclass(frozen=True)
class LayerRule:
    """Where a layer keeps a weight, and along which of its axes the rows and the outputs lie.

    A row holds the outgoing weights of one unit of what the weight is multiplied with. The weights
    of an output lead to one unit of the product. How the layer uses the weight need not be said:
    the network is traced.

    Parameters
    ----------
    row_axis : int, default 1
        The axis of the weight along which its rows lie. Negative axes count from the end.
    output_axis : int or None, default 0
        The axis along which its outputs lie. `None` where there are none, so that the layer cannot
        carry scales by output.
    weight : str or tuple, default "weight"
        The layer's attribute that holds the weight; or the path from the layer to it, as
        `jax.tree_util` has it.
    bias : str, default "bias"
        The layer's attribute that holds what is added to the product, if anything is.
    ndim : int or callable, default 2
        How many axes the weight of one layer has, or `layer -> int`. A weight with more of them
        holds several layers, stacked on its first axes.
    groups : callable, optional
        `layer -> int`, the number of groups of a grouped convolution: each group of outputs has
        rows of its own, and needs `output_axis`.
    token_axis : int, optional
        The axis along which the tokens of an embedding lie.
    columns, parts : callable, optional
        `layer -> tuple of int`, the number of the column of a table that each input was made of,
        and that of the part of a column.
    name : str, optional
        What tables and errors call the layer: the name of its class if there is none.

    Examples
    --------
    The rule of a dense layer that computes `x @ kernel`:

    >>> rule = sx.networks.LayerRule(row_axis=0, output_axis=1, weight="kernel")
    """

    row_axis: int = 1
    output_axis: int | None = 0
    weight: str | tuple[Any, ...] = "weight"
    bias: str = "bias"
    ndim: int | Callable[[Any], int] = 2
    groups: Callable[[Any], int] | None = None
    token_axis: int | None = None
    columns: Callable[[Any], tuple[int, ...]] | None = None
    parts: Callable[[Any], tuple[int, ...]] | None = None
    name: str | None = None

    @property
    def path(self) -> tuple[Any, ...]:
        """The path from the layer to the weight."""
        if isinstance(self.weight, str):
            return (jax.tree_util.GetAttrKey(self.weight),)
        return self.weight


class Ruled(eqx.Module):
    """A layer that brings the rules of its weights itself, instead of those of its type."""

    layer_rules: eqx.AbstractVar[tuple[LayerRule, ...]]
