"""Places within the heads of attention, in an order in which the same places of all heads can go.

Within a head, places of queries and keys may change with each other, and so may those of values and
the columns that read them. With those that are on put first, all heads are off at their ends. A
place is off if one of the two that meet there is zero; then the other may as well be.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from scalemix.networks.cutting.constants import Changes
from scalemix.networks.cutting.flow import any_along
from scalemix.networks.cutting.member import Member, paths_of


class Line(NamedTuple):
    """An axis of an array along which the places of heads lie.

    It is counted from the end, as the first axes may be those of a stack.
    """

    leaf: int
    axis: int
    ndim: int
    """How many axes the array of a single layer has."""

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values by layer and place, to go with the array."""
        *stack, size = values.shape
        within = [1] * self.ndim
        within[self.axis] = size
        return values.reshape(*stack, *within)

    def on(self, member: Member, num_heads: int) -> np.ndarray:
        """Where in each head the array is not certainly zero."""
        others = tuple(axis for axis in range(-self.ndim, 0) if axis != self.axis)
        nonzero = any_along(member.nonzero[self.leaf], others)
        return nonzero.reshape(*nonzero.shape[:-1], num_heads, -1)


class Meeting(NamedTuple):
    """Places of heads at which two sides meet: queries and keys, or values and their readers."""

    lines: tuple[Line, ...]
    on: np.ndarray
    """Which places of each head matter, (stacked layers, heads, places)."""

    def put_first(self, member: Member) -> Member:
        """The network with these places first in each head, and zeros after them."""
        *stack, num_heads, size = self.on.shape
        start = size * np.arange(num_heads)[:, None]
        order = (start + np.argsort(~self.on, axis=-1, kind="stable")).reshape(*stack, -1)
        changes, orders = Changes(), {}
        off = ~self.on.reshape(*stack, -1)
        for line in self.lines:
            nonzero = member.nonzero[line.leaf]
            changes.zero(line.leaf, np.broadcast_to(line.spread(off), nonzero.shape))
            places = np.arange(nonzero.size).reshape(nonzero.shape)
            orders[line.leaf] = np.take_along_axis(places, line.spread(order), axis=line.axis)
        return member.changed(changes).ordered(orders)


def meetings_in_heads(member: Member) -> Iterator[Meeting]:
    """Those of all layers of attention of which more places can go, if they are put in order."""
    leaves = {path: leaf for leaf, path in enumerate(paths_of(member.network))}
    layers = jax.tree_util.tree_leaves_with_path(member.network, is_leaf=_is_attention)
    for path, layer in layers:
        if not _is_attention(layer):
            continue
        start = len(path)
        lines = _lines({_names(p[start:]): n for p, n in leaves.items() if p[:start] == path})
        if not all(lines.values()):
            # A projection that is tied to something else.
            continue
        query, key, value, output = (
            np.logical_or.reduce([line.on(member, layer.num_heads) for line in each])
            for each in lines.values()
        )
        read = value & output
        # Of a head whose values are off, queries and keys do not matter.
        met = query & key & read.any(axis=-1, keepdims=True)
        for on, one, other, sides in (
            (met, query, key, ("query_proj", "key_proj")),
            (read, value, output, ("value_proj", "output_proj")),
        ):
            seen = _any_head(one) & _any_head(other)
            if on.sum(axis=-1).max() < seen.sum():
                yield Meeting(tuple(line for side in sides for line in lines[side]), on)


def _is_attention(node: Any) -> bool:
    return isinstance(node, eqx.nn.MultiheadAttention)


def _names(path: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(getattr(key, "name", "") for key in path)


def _lines(leaves: dict[tuple[str, ...], int]) -> dict[str, list[Line]]:
    """By projection. That of the output reads heads, and its bias has nothing to do with them."""
    lines: dict[str, list[Line]] = {}
    for name in ("query_proj", "key_proj", "value_proj", "output_proj"):
        reads = name == "output_proj"
        weight, bias = leaves.get((name, "weight")), leaves.get((name, "bias"))
        lines[name] = [] if weight is None else [Line(weight, -1 if reads else -2, 2)]
        if bias is not None and not reads:
            lines[name].append(Line(bias, -1, 1))
    return lines


def _any_head(on: np.ndarray) -> np.ndarray:
    return any_along(on.reshape(-1, on.shape[-1]), (0,))
