"""What can be other than zero, and what can change with the example, everywhere in a network.

Both are supersets, element by element: what is said to be zero or constant is so for certain.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scalemix.networks.cutting.graph import Graph, Node, Trace, is_numeric


class Flow(NamedTuple):
    """Of each element of an array: whether it can be nonzero, and whether it can vary."""

    nonzero: np.ndarray
    varies: np.ndarray


PRODUCTS = {"mul", "dot_general", "conv_general_dilated"}
"""Operations that make zero of zero, whatever the other input is."""
FlowRule = Callable[["Flows", Node], Sequence[Flow]]


class Flows:
    """The flow of every array of a trace, where the leaves are nonzero as told."""

    trace: Trace

    def __init__(self, trace: Trace, nonzero: Sequence[np.ndarray], rules: Mapping[str, FlowRule]):
        self.trace, self._rules = trace, rules
        self._known: dict[int, Flow] = {}
        for number, value in trace.constants.items():
            shape = trace.shapes[number]
            can_be = np.asarray(value) != 0 if is_numeric(value) else np.ones(shape, bool)
            self._known[number] = Flow(np.broadcast_to(can_be, shape), np.zeros(shape, bool))
        for number, each in zip(trace.leaves, nonzero, strict=True):
            self._known[number] = Flow(np.asarray(each), np.zeros(trace.shapes[number], bool))
        for number in trace.example:
            everywhere = np.ones(trace.shapes[number], bool)
            self._known[number] = Flow(everywhere, everywhere)
        self.run(trace.graph)

    def __getitem__(self, array: int) -> Flow:
        return self._known[array]

    def __setitem__(self, array: int, flow: Flow) -> None:
        shape = self.trace.shapes[array]
        nonzero = np.broadcast_to(flow.nonzero, shape)
        self._known[array] = Flow(nonzero, np.broadcast_to(flow.varies, shape) & nonzero)

    def varies(self, array: int) -> bool:
        """Whether anything of it can change with the example."""
        return bool(self._known[array].varies.any())

    @functools.cached_property
    def live(self) -> frozenset[int]:
        """The arrays whose values matter: those that lead to the output by more than zeros."""
        live = set(self.trace.graph.outputs)
        self._enliven(self.trace.graph, live)
        return frozenset(live)

    def _enliven(self, graph: Graph, live: set[int]) -> None:
        for node in reversed(graph.nodes):
            if not any(n in live and self[n].nonzero.any() for n in node.outputs):
                continue
            for body in node.bodies:
                # Any step of a loop may lead to any other.
                live.update(number for inner in body.walk() for number in inner.outputs)
                live.update((*body.inputs, *body.outputs))
            for number in node.inputs:
                others = [other for other in node.inputs if other != number]
                if node.name in PRODUCTS and not all(self[o].nonzero.any() for o in others):
                    continue
                live.add(number)

    def run(self, graph: Graph) -> None:
        """Follow the operations of a graph whose inputs are known."""
        for node in graph.nodes:
            outputs = self._rules.get(node.name, anything)(self, node)
            for number, flow in zip(node.outputs, outputs, strict=True):
                self[number] = flow


def any_along(mask: np.ndarray, axes: tuple[int, ...], *, keepdims: bool = False) -> np.ndarray:
    """Whether anything along these axes is true."""
    return np.asarray(np.any(mask, axis=axes, keepdims=keepdims))


def anything(flows: Flows, node: Node) -> list[Flow]:
    """Outputs of which nothing is known, but that they cannot vary if no input does."""
    varies = any(flows.varies(number) for number in node.inputs)
    shapes = [flows.trace.shapes[number] for number in node.outputs]
    return [Flow(np.ones(shape, bool), np.full(shape, varies)) for shape in shapes]


def moved(move: Callable[[Node, np.ndarray], np.ndarray]) -> FlowRule:
    """The flow of an operation that only puts the elements of its one input elsewhere."""

    def rule(flows: Flows, node: Node) -> list[Flow]:
        flow = flows[node.inputs[0]]
        return [Flow(move(node, flow.nonzero), move(node, flow.varies))]

    return rule


def product(multiply: Callable[[Node, np.ndarray, np.ndarray], np.ndarray]) -> FlowRule:
    """The flow of an operation that is linear in each of two inputs."""

    def rule(flows: Flows, node: Node) -> list[Flow]:
        left, right = (flows[number] for number in node.inputs)
        nonzero = multiply(node, left.nonzero, right.nonzero)
        varies = multiply(node, left.varies, right.nonzero)
        if right.varies.any():
            varies = varies | multiply(node, left.nonzero, right.varies)
        return [Flow(nonzero, varies)]

    return rule
