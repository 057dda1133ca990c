"""Operations that act on each element by itself."""

import functools

import numpy as np

from scalemix.networks.cutting.flow import Flow, FlowRule, Flows, anything
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.primitives._rule import Primitive

# They make zero of zero.
ZERO_TO_ZERO = (
    "neg", "tanh", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh", "sqrt", "cbrt",
    "abs", "sign", "square", "erf", "expm1", "log1p", "round", "floor", "ceil",
    "convert_element_type", "stop_gradient", "copy", "reduce_precision", "device_put",
    "optimization_barrier",
)  # fmt: skip
ANY_UNARY = (
    "exp", "exp2", "log", "logistic", "rsqrt", "cos", "acos", "cosh", "acosh", "erfc",
    "erf_inv", "lgamma", "digamma", "is_finite", "not",
)  # fmt: skip
SUMS = ("add", "sub", "max", "min", "or", "xor")
OTHERS = (
    "pow", "rem", "atan2", "eq", "ne", "lt", "le", "gt", "ge", "nextafter", "clamp",
    "shift_left", "shift_right_logical", "shift_right_arithmetic",
)  # fmt: skip


def keep_alike(keep: Keep, node: Node) -> None:
    """Inputs and outputs lose the same places; those of size one, or without axes, have none."""
    for output in node.outputs:
        shape = keep.trace.shapes[output]
        for axis, size in enumerate(shape):
            alike = [(output, axis)]
            for number in node.inputs:
                theirs = keep.trace.shapes[number]
                if len(theirs) == len(shape) and theirs[axis] == size:
                    alike.append((number, axis))
            keep.link(*alike)
        for number in node.inputs:
            if 0 < keep.trace.ndim(number) != len(shape):
                keep.pin_for(node, number)
                keep.pin_for(node, output)


def _unary(flows: Flows, node: Node) -> list[Flow]:
    return [flows[number] for number in node.inputs]


def _keeps_varying(flows: Flows, node: Node) -> list[Flow]:
    """Nothing stays zero, and elements vary one by one."""
    shape = flows.trace.shapes[node.outputs[0]]
    varies = [np.broadcast_to(flows[n].varies, shape) for n in node.inputs if _fits(flows, n, node)]
    if len(varies) < len(node.inputs):
        return anything(flows, node)
    return [Flow(np.ones(shape, bool), functools.reduce(np.logical_or, varies))]


def _sum(flows: Flows, node: Node) -> list[Flow]:
    if not all(_fits(flows, number, node) for number in node.inputs):
        return anything(flows, node)
    left, right = (flows[number] for number in node.inputs)
    return [Flow(left.nonzero | right.nonzero, left.varies | right.varies)]


def _multiply(flows: Flows, node: Node) -> list[Flow]:
    if not all(_fits(flows, number, node) for number in node.inputs):
        return anything(flows, node)
    left, right = (flows[number] for number in node.inputs)
    return [Flow(left.nonzero & right.nonzero, left.varies | right.varies)]


def _divide(flows: Flows, node: Node) -> list[Flow]:
    if not all(_fits(flows, number, node) for number in node.inputs):
        return anything(flows, node)
    left, right = (flows[number] for number in node.inputs)
    nonzero = left.nonzero | np.zeros_like(right.nonzero)
    return [Flow(nonzero, left.varies | right.varies)]


def _power(flows: Flows, node: Node) -> list[Flow]:
    return _unary(flows, node) if node.params["y"] > 0 else _keeps_varying(flows, node)


def _select(flows: Flows, node: Node) -> list[Flow]:
    if not all(_fits(flows, number, node) for number in node.inputs):
        return anything(flows, node)
    which, *cases = (flows[number] for number in node.inputs)
    shape = flows.trace.shapes[node.outputs[0]]
    nonzero = functools.reduce(np.logical_or, [case.nonzero for case in cases])
    varies = functools.reduce(np.logical_or, [case.varies for case in cases], which.varies)
    return [Flow(np.broadcast_to(nonzero, shape), np.broadcast_to(varies, shape))]


def _fits(flows: Flows, number: int, node: Node) -> bool:
    return flows.trace.ndim(number) in (0, flows.trace.ndim(node.outputs[0]))


def _table(flow: FlowRule, *names: str, linear: bool = False) -> dict[str, Primitive]:
    return {name: Primitive(keep_alike, flow, linear=linear) for name in names}


LINEAR = ("neg", "convert_element_type", "stop_gradient", "copy", "reduce_precision")

PRIMITIVES: dict[str, Primitive] = {
    **_table(_unary, *ZERO_TO_ZERO),
    **_table(_unary, *LINEAR, linear=True),
    **_table(_keeps_varying, *ANY_UNARY, *OTHERS),
    **_table(_sum, *SUMS),
    **_table(_sum, "add", "sub", linear=True),
    **_table(_multiply, "mul", linear=True),
    **_table(_multiply, "and"),
    **_table(_divide, "div", linear=True),
    **_table(_power, "integer_pow"),
    **_table(_select, "select_n"),
}
