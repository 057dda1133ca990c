"""Runs a graph: as it was traced, or at the sizes that are left."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from scalemix._jaxprs import bind, scan_counts
from scalemix.networks.cutting.graph import Graph, Node, Trace
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.primitives import PRIMITIVES

Resize = Callable[[Node], dict[str, Any]]
"""operation -> those of its parameters that have changed."""


def resized(keep: Keep, node: Node) -> dict[str, Any]:
    """Those parameters of an operation that are other numbers at the sizes that are left."""
    primitive = PRIMITIVES.get(node.name)
    return {} if primitive is None else primitive.resize(keep, node)


def run_graph(
    trace: Trace, graph: Graph, inputs: Sequence[Any], resize: Resize = lambda node: {}
) -> dict[int, Any]:
    """The values of all arrays of a graph, by number; those inside of bodies are not among them."""
    known = dict(zip(graph.inputs, inputs, strict=True))

    def read(number: int) -> Any:
        return known[number] if number in known else trace.constant(number)

    for node in graph.nodes:
        arguments = [read(number) for number in node.inputs]
        known.update(zip(node.outputs, _operate(trace, node, arguments, resize), strict=True))
    return known | {number: read(number) for number in graph.outputs}


def _operate(trace: Trace, node: Node, inputs: list[Any], resize: Resize) -> list[Any]:
    if not node.bodies:
        return bind(node.equation, inputs, **resize(node))

    def body(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        known = run_graph(trace, graph, inputs, resize)
        return [known[number] for number in graph.outputs]

    if node.name == "cond":
        which, *operands = inputs
        branches = [lambda *given, graph=graph: body(graph, given) for graph in node.bodies]
        return list(jax.lax.switch(which, branches, *operands))
    num_consts, num_carried = scan_counts(node.params, len(inputs))
    (graph,) = node.bodies
    consts, first = inputs[:num_consts], inputs[num_consts : num_consts + num_carried]

    def step(carried: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        outputs = body(graph, [*consts, *carried, *slices])
        return outputs[:num_carried], outputs[num_carried:]

    last, stacked = jax.lax.scan(
        step, first, inputs[num_consts + num_carried :],
        length=node.params["length"], reverse=node.params["reverse"],
    )  # fmt: skip
    return [*last, *stacked]
