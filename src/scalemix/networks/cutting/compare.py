"""Whether a network that was cut does, step by step, what it did before at the sizes left."""

from typing import Any

import numpy as np

from scalemix.networks.cutting.graph import Graph, Node, Trace
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.running import resized

CHECKED = (
    "new_sizes", "shape", "sizes", "start_indices", "limit_indices", "slice_sizes",
    "feature_group_count", "dimension_numbers", "axes", "permutation", "dimensions", "dimension",
    "axis", "length",
)  # fmt: skip


def find_difference(keep: Keep, second: Trace) -> str | None:
    """How a second trace is not the first at the sizes that are left; `None` if it is."""
    return _Comparison(keep, second).graphs(keep.trace.graph, second.graph)


class _Comparison:
    def __init__(self, keep: Keep, second: Trace):
        self.keep, self.first, self.second = keep, keep.trace, second
        self.twin: dict[int, int] = {}

    def graphs(self, before: Graph, after: Graph) -> str | None:
        if len(before.inputs) != len(after.inputs):
            return "it has other arrays"
        self.twin.update(zip(before.inputs, after.inputs, strict=True))
        for one, other in zip(before.nodes, after.nodes, strict=False):
            problem = self.nodes(one, other)
            if problem is not None:
                return f"at {other.line}, {problem}"
        if len(before.nodes) != len(after.nodes):
            return f"it takes {len(after.nodes)} steps in place of {len(before.nodes)}"
        return None

    def nodes(self, one: Node, other: Node) -> str | None:
        if one.name != other.name:
            return f"{one.name} becomes {other.name}"
        params = one.params | resized(self.keep, one)
        for name in CHECKED:
            if name in params and _plain(params[name]) != _plain(other.params[name]):
                was, is_now = _plain(params[name]), _plain(other.params[name])
                return f"{one.name} has {name} {is_now} where {was} would do the same"
        for number, twin in zip(one.inputs, other.inputs, strict=True):
            problem = self.inputs(one, number, twin)
            if problem is not None:
                return problem
        for number, twin in zip(one.outputs, other.outputs, strict=True):
            self.twin[number] = twin
            if self.keep.shape(number) != self.second.shapes[twin]:
                left, given = self.keep.shape(number), self.second.shapes[twin]
                return f"{one.name} gives the shape {given} where {left} is left"
        for body, twin in zip(one.bodies, other.bodies, strict=True):
            problem = self.graphs(body, twin)
            if problem is not None:
                return problem
        return None

    def inputs(self, node: Node, number: int, twin: int) -> str | None:
        first, second = self.first.constants, self.second.constants
        if (number in first) != (twin in second):
            return f"{node.name} reads a constant in place of something else"
        if number not in first:
            same = self.twin.get(number) == twin
            return None if same else f"{node.name} reads something else"
        if not self.keep.is_live(node):
            return None
        was, is_now = np.asarray(first[number]), np.asarray(second[twin])
        if was.dtype.kind == "f" and not (
            was.shape == is_now.shape and np.array_equal(was, is_now, equal_nan=True)
        ):
            return f"{node.name} has the number {is_now} in place of {was}"
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return tuple(map(_plain, value))
    return int(value) if isinstance(value, int | np.integer) else str(value)
