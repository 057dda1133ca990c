"""How much arithmetic a network does for one example."""

import math

from scalemix.networks.cutting.graph import Graph, Node, Trace


def multiply_adds(trace: Trace) -> int:
    """The multiplications, each with an addition, of all products and convolutions."""
    return _count(trace, trace.graph)


def _count(trace: Trace, graph: Graph) -> int:
    return sum(_count_node(trace, node) for node in graph.nodes)


def _count_node(trace: Trace, node: Node) -> int:
    if node.name == "scan":
        return node.params["length"] * _count(trace, node.bodies[0])
    if node.name == "cond":
        return max(_count(trace, body) for body in node.bodies)
    if node.name == "dot_general":
        (summed, _), _ = node.params["dimension_numbers"]
        shape = trace.shapes[node.inputs[0]]
        return math.prod(trace.shapes[node.outputs[0]]) * math.prod(shape[a] for a in summed)
    if node.name == "conv_general_dilated":
        weight, places = trace.shapes[node.inputs[1]], node.params["dimension_numbers"]
        taps = math.prod(weight[axis] for axis in places.rhs_spec[1:])
        return math.prod(trace.shapes[node.outputs[0]]) * taps
    return 0
