"""Operations that put several places of an array together: sums, pooling, sorting."""

import numpy as np

from scalemix.networks.cutting.flow import Flow, FlowRule, Flows, any_along, moved
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.primitives._rule import Primitive


def _axes(node: Node) -> tuple[int, ...]:
    return tuple(int(axis) for axis in node.params["axes"])


def _keep_reduction(keep: Keep, node: Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    gone = _axes(node)
    left = [axis for axis in range(keep.trace.ndim(source)) if axis not in gone]
    for place, axis in enumerate(left):
        keep.link((output, place), (source, axis))
    if keep.is_live(node):
        for axis in gone:
            # Even zeros count: the divisor of a mean is a number in the code.
            keep.pin_for(node, source, axis)


def _nothing_is_zero(rule: FlowRule) -> FlowRule:
    def flow(flows: Flows, node: Node) -> list[Flow]:
        return [Flow(np.ones_like(each.nonzero), each.varies) for each in rule(flows, node)]

    return flow


_reduction = moved(lambda node, mask: any_along(mask, _axes(node)))


def _keep_window(keep: Keep, node: Node) -> None:
    for axis in range(keep.trace.ndim(node.outputs[0])):
        if _is_pooled(node, axis):
            keep.pin_for(node, node.inputs[0], axis)
            keep.pin_for(node, node.outputs[0], axis)
        else:
            keep.link((node.inputs[0], axis), (node.outputs[0], axis))


def _is_pooled(node: Node, axis: int) -> bool:
    sizes = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    plain = all(int(node.params[name][axis]) == 1 for name in sizes if name in node.params)
    return not plain or tuple(map(int, node.params["padding"][axis])) != (0, 0)


def _window(flows: Flows, node: Node) -> list[Flow]:
    flow, shape = flows[node.inputs[0]], flows.trace.shapes[node.outputs[0]]
    axes = tuple(axis for axis in range(len(shape)) if _is_pooled(node, axis))
    along = [np.broadcast_to(mask.any(axis=axes, keepdims=True), shape) for mask in flow]
    return [Flow(*along)]


def _keep_along(axis_name: str):
    """Places along one axis act on each other; all others go through."""

    def keep_rule(keep: Keep, node: Node) -> None:
        along = int(node.params[axis_name])
        for axis in range(keep.trace.ndim(node.outputs[0])):
            alike = [(n, axis) for n in (*node.inputs, *node.outputs) if keep.trace.ndim(n) > axis]
            if axis == along:
                for number, _ in alike:
                    keep.pin_for(node, number, axis)
            else:
                keep.link(*alike)

    return keep_rule


def _along(axis_name: str) -> FlowRule:
    def flow(flows: Flows, node: Node) -> list[Flow]:
        axis = int(node.params[axis_name])
        inputs = [flows[number] for number in node.inputs]
        shape = inputs[0].nonzero.shape
        masks = [
            np.broadcast_to(np.any(each, axis=0).any(axis=axis, keepdims=True), shape)
            for each in zip(*inputs, strict=True)
        ]
        return [Flow(*masks)] * len(node.outputs)

    return flow


_REDUCTION = Primitive(_keep_reduction, _reduction)
_WINDOW = Primitive(_keep_window, _window)

PRIMITIVES: dict[str, Primitive] = {
    "reduce_sum": Primitive(_keep_reduction, _reduction, linear=True),
    "reduce_max": _REDUCTION,
    "reduce_min": _REDUCTION,
    "reduce_or": _REDUCTION,
    "reduce_prod": Primitive(_keep_reduction, _nothing_is_zero(_reduction)),
    "reduce_and": Primitive(_keep_reduction, _nothing_is_zero(_reduction)),
    "argmax": Primitive(_keep_reduction, _nothing_is_zero(_reduction)),
    "argmin": Primitive(_keep_reduction, _nothing_is_zero(_reduction)),
    "reduce_window_max": _WINDOW,
    "reduce_window_min": _WINDOW,
    "reduce_window_sum": _WINDOW,
    "cumsum": Primitive(_keep_along("axis"), _along("axis")),
    "cummax": Primitive(_keep_along("axis"), _along("axis")),
    "cummin": Primitive(_keep_along("axis"), _along("axis")),
    "cumprod": Primitive(_keep_along("axis"), _nothing_is_zero(_along("axis"))),
    "cumlogsumexp": Primitive(_keep_along("axis"), _nothing_is_zero(_along("axis"))),
    "sort": Primitive(_keep_along("dimension"), _along("dimension")),
}
