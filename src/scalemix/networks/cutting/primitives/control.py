"""Loops and choices, whose bodies are graphs of their own."""

import functools

import numpy as np

from scalemix._jaxprs import scan_counts
from scalemix.networks.cutting.flow import Flow, Flows, any_along
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.primitives._rule import Primitive


def _keep_scan(keep: Keep, node: Node) -> None:
    """Constants and what is carried go in and out as they are, all others step by step."""
    num_consts, num_carried = scan_counts(node.params, len(node.inputs))
    (body,) = node.bodies
    first_sliced = num_consts + num_carried
    for position, (outer, inner) in enumerate(zip(node.inputs, body.inputs, strict=True)):
        _link_step(keep, node, outer, inner, sliced=position >= first_sliced)
    for position, (outer, inner) in enumerate(zip(node.outputs, body.outputs, strict=True)):
        _link_step(keep, node, outer, inner, sliced=position >= num_carried)
        if position < num_carried:
            for axis in range(keep.trace.ndim(inner)):
                carried = num_consts + position
                keep.link((inner, axis), (body.inputs[carried], axis))


def _link_step(keep: Keep, node: Node, outer: int, inner: int, *, sliced: bool) -> None:
    if sliced:
        keep.pin_for(node, outer, 0)
    for axis in range(keep.trace.ndim(inner)):
        keep.link((outer, axis + sliced), (inner, axis))


def _scan(flows: Flows, node: Node) -> list[Flow]:
    num_consts, num_carried = scan_counts(node.params, len(node.inputs))
    (body,) = node.bodies
    for position, (outer, inner) in enumerate(zip(node.inputs, body.inputs, strict=True)):
        flow = flows[outer]
        if position >= num_consts + num_carried:
            flow = Flow(any_along(flow.nonzero, (0,)), any_along(flow.varies, (0,)))
        flows[inner] = flow
    carried = body.inputs[num_consts : num_consts + num_carried]
    while True:
        flows.run(body)
        before = [flows[inner] for inner in carried]
        after = [flows[inner] for inner in body.outputs[:num_carried]]
        grown = [_either(*pair) for pair in zip(before, after, strict=True)]
        if all(_equal(*pair) for pair in zip(before, grown, strict=True)):
            break
        for inner, flow in zip(carried, grown, strict=True):
            flows[inner] = flow
    stacked = [flows[inner] for inner in body.outputs[num_carried:]]
    return [*before, *(Flow(f.nonzero[None], f.varies[None]) for f in stacked)]


def _either(one: Flow, other: Flow) -> Flow:
    return Flow(one.nonzero | other.nonzero, one.varies | other.varies)


def _equal(one: Flow, other: Flow) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _keep_cond(keep: Keep, node: Node) -> None:
    which, *operands = node.inputs
    keep.pin_for(node, which)
    for body in node.bodies:
        outside = (*operands, *node.outputs)
        for outer, inner in zip(outside, (*body.inputs, *body.outputs), strict=True):
            for axis in range(keep.trace.ndim(inner)):
                keep.link((outer, axis), (inner, axis))


def _cond(flows: Flows, node: Node) -> list[Flow]:
    which, *operands = node.inputs
    branches = []
    for body in node.bodies:
        for outer, inner in zip(operands, body.inputs, strict=True):
            flows[inner] = flows[outer]
        flows.run(body)
        branches.append([flows[inner] for inner in body.outputs])
    outputs = [functools.reduce(_either, each) for each in zip(*branches, strict=True)]
    chosen = flows.varies(which)
    return [Flow(flow.nonzero, flow.varies | chosen) for flow in outputs]


PRIMITIVES: dict[str, Primitive] = {
    "scan": Primitive(_keep_scan, _scan),
    "cond": Primitive(_keep_cond, _cond),
}
