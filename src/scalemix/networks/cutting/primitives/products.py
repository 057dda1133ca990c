"""Products: of matrices, and convolutions."""

from typing import Any

import numpy as np

from scalemix.networks.cutting.flow import Flow, Flows, any_along, product
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.primitives._rule import Primitive


def _alive(keep: Keep, array: int, axis: int, summed: tuple[int, ...]) -> np.ndarray:
    """Where along an axis anything that is not zero leads to an output that is read."""
    alive = keep.flows[array].nonzero
    for other in range(alive.ndim):
        if other != axis and other not in summed:
            alive = alive & _along(keep.is_read(array, other), other, alive.ndim)
    return any_along(alive, tuple(other for other in range(alive.ndim) if other != axis))


def _along(mask: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    return mask.reshape([-1 if other == axis else 1 for other in range(ndim)])


def _keep_dot(keep: Keep, node: Node) -> None:
    (summed_left, summed_right), (shared_left, shared_right) = node.params["dimension_numbers"]
    (left, right), output = node.inputs, node.outputs[0]
    place = 0
    for a, b in zip(shared_left, shared_right, strict=True):
        keep.link((left, a), (right, b), (output, place))
        place += 1
    sides = ((left, summed_left, shared_left), (right, summed_right, shared_right))
    for array, summed, shared in sides:
        for axis in range(keep.trace.ndim(array)):
            if axis not in summed and axis not in shared:
                keep.link((array, axis), (output, place))
                place += 1
    # Such sums may have divisors that depend on their size, as in attention.
    whole = keep.whole_sums and keep.flows.varies(left) and keep.flows.varies(right)
    for a, b in zip(summed_left, summed_right, strict=True):
        keep.link((left, a), (right, b))
        if whole:
            keep.pin_for(node, left, a)
        else:
            needed = _alive(keep, left, a, summed_left) & _alive(keep, right, b, summed_right)
            keep.need(left, a, needed)
        keep.link((left, a), (right, b))


def contract(node: Node, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product that an operation `dot_general` makes of two arrays."""
    (summed_left, summed_right), (shared_left, shared_right) = node.params["dimension_numbers"]
    names = iter(range(left.ndim + right.ndim))
    ours = {axis: next(names) for axis in range(left.ndim)}
    theirs = {b: ours[a] for a, b in zip(summed_left, summed_right, strict=True)}
    theirs |= {b: ours[a] for a, b in zip(shared_left, shared_right, strict=True)}
    theirs |= {axis: next(names) for axis in range(right.ndim) if axis not in theirs}
    free_left = [ours[a] for a in ours if a not in (*summed_left, *shared_left)]
    free_right = [theirs[b] for b in range(right.ndim) if b not in (*summed_right, *shared_right)]
    return np.einsum(
        left, [ours[a] for a in range(left.ndim)],
        right, [theirs[b] for b in range(right.ndim)],
        [*(ours[a] for a in shared_left), *free_left, *free_right], optimize=True,
    )  # fmt: skip


def _dot(node: Node, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return contract(node, left.astype(np.float32), right.astype(np.float32)) > 0


def _keep_convolution(keep: Keep, node: Node) -> None:
    places, groups = node.params["dimension_numbers"], node.params["feature_group_count"]
    (data, weight), output = node.inputs, node.outputs[0]
    if node.params["batch_group_count"] != 1:
        for number in (data, weight, output):
            keep.pin_for(node, number)
        return
    specs = ((data, places.lhs_spec), (weight, places.rhs_spec), (output, places.out_spec))
    for number, spec in specs:
        for axis in spec[2:]:
            keep.pin_for(node, number, axis)
    keep.link((data, places.lhs_spec[0]), (output, places.out_spec[0]))
    channels, rows = places.lhs_spec[1], places.rhs_spec[1]
    filters, outputs = places.rhs_spec[0], places.out_spec[1]
    keep.link((output, outputs), (weight, filters))
    nonzero = keep.flows[data].nonzero
    read = nonzero.any(axis=tuple(axis for axis in range(nonzero.ndim) if axis != channels))
    if groups == 1:
        keep.link((data, channels), (weight, rows))
        keep.need(data, channels, read & _alive(keep, weight, rows, ()))
        keep.link((data, channels), (weight, rows))
        return
    # Whole groups go, and the same places inside each group.
    by_filter = np.moveaxis(keep.flows[weight].nonzero, (filters, rows), (0, 1))
    by_filter = by_filter.any(axis=tuple(range(2, by_filter.ndim)))
    by_filter = by_filter & keep.is_read(weight, filters)[:, None]
    in_group = by_filter.reshape(groups, -1, by_filter.shape[1]).any(axis=1)
    keep.need(data, channels, read & in_group.reshape(-1))
    keep.together([(data, channels), (output, outputs), (weight, rows)])
    ins = keep.why(data, channels).reshape(groups, -1)
    outs = keep.why(output, outputs).reshape(groups, -1)
    group = np.maximum(ins.max(axis=1), outs.max(axis=1))
    inside = np.maximum(ins.max(axis=0), keep.why(weight, rows))
    keep.grow(weight, rows, inside)
    keep.grow(data, channels, _outer(group, inside))
    keep.grow(output, outputs, _outer(group, outs.max(axis=0)))
    keep.link((output, outputs), (weight, filters))


def _outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    both = np.logical_and.outer(left > 0, right > 0)
    return np.where(both, np.maximum.outer(left, right), 0).reshape(-1)


def _convolution(flows: Flows, node: Node) -> list[Flow]:
    places, groups = node.params["dimension_numbers"], node.params["feature_group_count"]
    shape = flows.trace.shapes[node.outputs[0]]

    def multiply(node: Node, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        data = np.moveaxis(data, places.lhs_spec[:2], (0, 1))
        data = any_along(data, tuple(range(2, data.ndim)))
        weight = np.moveaxis(weight, places.rhs_spec[:2], (0, 1))
        weight = any_along(weight, tuple(range(2, weight.ndim)))
        if node.params["batch_group_count"] != 1:
            return np.broadcast_to(data.any() & weight.any(), shape)
        parts = zip(np.split(data, groups, axis=1), np.split(weight, groups), strict=True)
        made = [d.astype(np.float32) @ w.T.astype(np.float32) > 0 for d, w in parts]
        result = np.concatenate(made, axis=1)
        result = result.reshape(*result.shape, *[1] * (len(shape) - 2))
        return np.broadcast_to(np.moveaxis(result, (0, 1), places.out_spec[:2]), shape)

    return [*product(multiply)(flows, node)]


def _new_convolution(keep: Keep, node: Node) -> dict[str, Any]:
    groups = node.params["feature_group_count"]
    if groups == 1:
        return {}
    axis = node.params["dimension_numbers"].out_spec[1]
    left = keep.mask(node.outputs[0], axis).reshape(groups, -1).any(axis=1)
    return {"feature_group_count": int(left.sum())}


PRIMITIVES: dict[str, Primitive] = {
    "dot_general": Primitive(_keep_dot, product(_dot), linear=True),
    "conv_general_dilated": Primitive(
        _keep_convolution, _convolution, _new_convolution, linear=True
    ),
}
