"""Constants that parts of a network add whatever the example, moved into its biases.

Where something is taken out that added a constant, the rest computes the same less an offset. The
offset goes through whatever is linear, up to the next bias, which takes it up.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scalemix._jaxprs import bind
from scalemix._types import PyTree
from scalemix.networks.cutting.flow import Flows
from scalemix.networks.cutting.graph import Node, Trace
from scalemix.networks.cutting.primitives import PRIMITIVES
from scalemix.networks.cutting.running import run_graph

# They put elements elsewhere, and change none of them.
MOVES = {
    "transpose", "broadcast_in_dim", "squeeze", "reshape", "rev", "slice", "convert_element_type",
    "copy",
}  # fmt: skip
SUMS = {"add", "sub"}
PRODUCTS = {"mul", "div", "dot_general", "conv_general_dilated"}


class Stuck(Exception):
    """A constant meets an operation that it cannot go through."""


class NoPathAround(Stuck):
    """What is taken out is all that leads to the output."""


@dataclasses.dataclass
class Changes:
    """What to change in the arrays of a network, by their numbers among them."""

    added: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)
    zeroed: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)
    passed: set[int] = dataclasses.field(default_factory=set)
    """Arrays inside of the network that have other values after the changes."""

    def add(self, leaf: int, values: np.ndarray) -> None:
        self.added[leaf] = self.added.get(leaf, np.zeros_like(values)) + values

    def zero(self, leaf: int, mask: np.ndarray) -> None:
        self.zeroed[leaf] = self.zeroed.get(leaf, np.zeros_like(mask)) | mask

    def update(self, other: "Changes") -> None:
        for leaf, values in other.added.items():
            self.add(leaf, values)
        for leaf, mask in other.zeroed.items():
            self.zero(leaf, mask)
        self.passed |= other.passed

    def apply(self, leaf: int, values: Any) -> Any:
        """An array of the network after the changes."""
        if leaf in self.zeroed:
            values = values * (~self.zeroed[leaf]).astype(values.dtype)
        if leaf in self.added:
            values = values + self.added[leaf].astype(values.dtype)
        return values


class Constants:
    """The values of all arrays of one network, and where constants among them can go."""

    trace: Trace
    flows: Flows

    def __init__(
        self, trace: Trace, flows: Flows, network: PyTree, example: Any, fixed: Sequence[int] = ()
    ):
        self.trace, self.flows = trace, flows
        leaves = jax.tree.leaves(eqx.filter(network, eqx.is_array))
        self._inputs = [*leaves, *jax.tree.leaves(example)]
        self._made_by = {n: node for node in trace.graph.nodes for n in node.outputs}
        self._uses: dict[int, int] = {}
        read = [n for node in trace.graph.nodes for n in node.inputs]
        for number in (*read, *trace.graph.outputs):
            self._uses[number] = self._uses.get(number, 0) + 1
        self._leaves = {number: leaf for leaf, number in enumerate(trace.leaves)}
        self._fixed = set(fixed)

    def has_value(self, number: int) -> bool:
        """Whether an array has one value for each example: those inside of bodies may not."""
        return number in self.trace.constants or number in self._values

    def value(self, number: int) -> Any:
        """The value of an array at the example."""
        if number in self.trace.constants:
            return self.trace.constant(number)
        return self._values[number]

    @functools.cached_property
    def _values(self) -> dict[int, Any]:
        return run_graph(self.trace, self.trace.graph, self._inputs)

    def places(self, number: int) -> tuple[int, np.ndarray] | None:
        """The leaf that an array is made of alone, and which of its elements are where.

        `None` if it is no such array, or if the leaf is used elsewhere too, or must not change.
        """
        chain: list[Node] = []
        while number not in self._leaves:
            node = self._made_by.get(number)
            if node is None or node.name not in MOVES or self._uses[number] != 1:
                return None
            chain.append(node)
            number = node.inputs[0]
        leaf = self._leaves[number]
        if self._uses[number] != 1 or leaf in self._fixed:
            return None
        shape = self.trace.shapes[number]
        places = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
        for node in reversed(chain):
            if node.name in ("convert_element_type", "copy"):
                continue
            places = np.asarray(bind(node.equation, [places])[0])
        return leaf, places

    def follow(self, sources: Mapping[int, Any], gone: "Gone | None" = None) -> Changes:
        """What lets biases take up these offsets of arrays; `Stuck` if none can."""
        gone = Gone() if gone is None else gone
        offsets: dict[int, Any] = {}
        changes = Changes()
        for node in self.trace.graph.nodes:
            if any(number in gone.arrays for number in node.outputs):
                continue
            made = self._pass_on(node, offsets, changes, gone)
            for number, offset in zip(node.outputs, made, strict=True):
                if number in sources:
                    offset = sources[number] if offset is None else offset + sources[number]
                if offset is not None and np.any(np.asarray(offset) != 0):
                    offsets[number] = offset
        if any(number in offsets for number in self.trace.graph.outputs):
            raise Stuck("the output")
        changes.passed.update(offsets)
        return changes

    def _pass_on(
        self, node: Node, offsets: dict[int, Any], changes: Changes, gone: "Gone"
    ) -> list[Any]:
        if node.outputs[0] in gone.joins:
            # The sum is no more: what was left of it goes on by itself.
            return [offsets.get(gone.joins[node.outputs[0]])]
        moved = [number for number in node.inputs if number in offsets]
        if not moved:
            return [None] * len(node.outputs)
        primitive = PRIMITIVES.get(node.name)
        if primitive is None or not primitive.linear or node.bodies:
            raise Stuck(f"{node.name} at {node.line}")
        if node.name in SUMS and self._absorb(node, offsets, changes):
            return [None]
        if node.name in PRODUCTS:
            others = [number for number in node.inputs if number not in offsets]
            fits = len(moved) == 1 and not any(map(self.flows.varies, others))
            if not fits or (node.name == "div" and moved[0] != node.inputs[0]):
                raise Stuck(f"{node.name} at {node.line}")
        inputs = [offsets[n] if n in offsets else self._beside(node, n) for n in node.inputs]
        return bind(node.equation, inputs)

    def _beside(self, node: Node, number: int) -> Any:
        """What goes with the offsets of other inputs: in a product a factor, else nothing."""
        if node.name in PRODUCTS:
            return self.value(number)
        return np.zeros(self.trace.shapes[number], self.trace.dtypes[number])

    def _absorb(self, node: Node, offsets: dict[int, Any], changes: Changes) -> bool:
        """Whether a bias that is added takes up the offset."""
        moved = [number for number in node.inputs if number in offsets]
        others = [number for number in node.inputs if number not in offsets]
        placed = self.places(others[0]) if len(moved) == len(others) == 1 else None
        if placed is None:
            return False
        leaf, places = placed
        offset = np.asarray(offsets[moved[0]], np.float64)
        values = _gather(places, offset, self.trace.shapes[self.trace.leaves[leaf]])
        if values is None:
            return False
        changes.add(leaf, -values if node.name == "sub" else values)
        return True


@dataclasses.dataclass(frozen=True)
class Gone:
    """A part of a graph that is taken out."""

    arrays: frozenset[int] = frozenset()
    """What it makes."""
    joins: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Sums that it was a term of, and their other terms."""


def _gather(places: np.ndarray, offset: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The values of a leaf whose elements, put into these places, are the offset."""
    places, offset = np.broadcast_arrays(places, offset)
    size = int(np.prod(shape))
    count = np.bincount(places.reshape(-1), minlength=size)
    total = np.bincount(places.reshape(-1), offset.reshape(-1), minlength=size)
    values = total / np.maximum(count, 1)
    near = 1e-6 * (1e-30 + np.abs(offset).max(initial=0.0))
    if np.abs(values[places] - offset).max(initial=0.0) > near:
        return None
    return values.reshape(shape)
