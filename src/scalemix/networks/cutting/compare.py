"""Whether a network that was cut does, step by step, what it did before at the sizes left."""

from collections.abc import Collection
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from scalemix.networks.cutting.graph import Graph, Node, Trace
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.rescaling import Rescaling
from scalemix.networks.cutting.running import resized

CHECKED = (
    "new_sizes", "shape", "sizes", "start_indices", "limit_indices", "slice_sizes",
    "feature_group_count", "dimension_numbers", "axes", "permutation", "dimensions", "dimension",
    "axis", "length",
)  # fmt: skip


class Difference(NamedTuple):
    """How a second trace is not the first at the sizes that are left."""

    problem: str | None
    """What makes it another network; `None` if nothing does."""
    factors: dict[int, float]
    """What to multiply arrays of the network by, so that it computes the same."""


def find_difference(keep: Keep, second: Trace, fixed: Collection[int] = ()) -> Difference:
    """What sets a second trace apart from the first. Arrays that are `fixed` have no factors."""
    comparison = _Comparison(keep, second, fixed)
    problem = comparison.graphs(keep.trace.graph, second.graph)
    return Difference(problem, comparison.factors)


class _Comparison:
    def __init__(self, keep: Keep, second: Trace, fixed: Collection[int]):
        self.keep, self.first, self.second = keep, keep.trace, second
        self.rescaling = Rescaling(keep.trace, fixed)
        self.twin: dict[int, int] = {}
        self.factors: dict[int, float] = {}

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
        for place, (number, twin) in enumerate(zip(one.inputs, other.inputs, strict=True)):
            problem = self.inputs(one, place, number, twin)
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

    def inputs(self, node: Node, place: int, number: int, twin: int) -> str | None:
        if self.first.is_given(number) != self.second.is_given(twin):
            return f"{node.name} reads a constant in place of something else"
        if not self.first.is_given(number):
            same = self.twin.get(number) == twin
            return None if same else f"{node.name} reads something else"
        if node.outputs[0] in self.first.computed:
            # What is computed of constants matters where it is read.
            return None
        if not jnp.issubdtype(self.first.dtypes[number], jnp.floating):
            return None
        was, is_now = (
            np.asarray(each, np.float64)
            for each in (self.first.constant(number), self.second.constant(twin))
        )
        if was.shape == is_now.shape and np.array_equal(was, is_now, equal_nan=True):
            return None
        problem = self.rescale(node, place, was, is_now)
        return problem if self.keep.is_live(node) else None

    def rescale(self, node: Node, place: int, was: np.ndarray, is_now: np.ndarray) -> str | None:
        """Let weights make up for another number, if it is a factor or a divisor."""
        if was.shape or is_now.shape:
            return f"{node.name} has the numbers {is_now} in place of {was}"
        problem = f"{node.name} has the number {is_now:.6g} in place of {was:.6g}"
        if node.name != "mul" and (node.name, place) != ("div", 1):
            return problem
        upper, lower = (was, is_now) if node.name == "mul" else (is_now, was)
        factor = float(upper / lower) if lower != 0 else 0.0
        leaves = self.rescaling.find(node.inputs[1 - place])
        if leaves is None or not 0 < factor < np.inf:
            return f"{problem}, and no weight before it can make up for that"
        for leaf in leaves:
            self.factors[leaf] = self.factors.get(leaf, 1.0) * factor
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return tuple(map(_plain, value))
    return int(value) if isinstance(value, int | np.integer) else str(value)
