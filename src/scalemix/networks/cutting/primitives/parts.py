"""Operations that take parts of arrays, or put arrays together."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalemix.networks.cutting.flow import Flow, Flows, any_along, anything, moved
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.primitives._rule import Primitive


def _segments(keep: Keep, whole: int, parts: Sequence[int], axis: int) -> None:
    """Arrays that lie one after the other along an axis of the whole."""
    start, size = 0, keep.trace.shapes[whole][axis]
    for part in parts:
        stop = start + keep.trace.shapes[part][axis]
        keep.grow(part, axis, keep.why(whole, axis)[start:stop])
        why = np.zeros(size, np.int32)
        why[start:stop] = keep.why(part, axis)
        keep.grow(whole, axis, why)
        start = stop
    for other in range(keep.trace.ndim(whole)):
        if other != axis:
            keep.link((whole, other), *[(part, other) for part in parts])


def _keep_concatenate(keep: Keep, node: Node) -> None:
    axis, output = int(node.params["dimension"]), node.outputs[0]
    loose = [(part, axis) for part in node.inputs if not keep.is_whole(part, axis)]
    keep.together([(output, axis), *loose])
    _segments(keep, output, node.inputs, axis)


def _concatenate(flows: Flows, node: Node) -> list[Flow]:
    parts = [flows[number] for number in node.inputs]
    return [Flow(*(np.concatenate(m, node.params["dimension"]) for m in zip(*parts, strict=True)))]


def _keep_split(keep: Keep, node: Node) -> None:
    axis, source = int(node.params["axis"]), node.inputs[0]
    dimensions = [(part, axis) for part in node.outputs]
    keep.together([(source, axis), *dimensions])
    if keep.tied and len(set(node.params["sizes"])) == 1:
        keep.link(*dimensions)
    _segments(keep, source, node.outputs, axis)


def _split(flows: Flows, node: Node) -> list[Flow]:
    axis, at = node.params["axis"], np.cumsum(node.params["sizes"])[:-1]
    flow = flows[node.inputs[0]]
    pairs = zip(np.split(flow.nonzero, at, axis), np.split(flow.varies, at, axis), strict=True)
    return [Flow(*pair) for pair in pairs]


def _new_split(keep: Keep, node: Node) -> dict[str, Any]:
    axis = int(node.params["axis"])
    return {"sizes": tuple(keep.shape(part)[axis] for part in node.outputs)}


def _slices(node: Node) -> tuple[slice, ...]:
    starts, limits = node.params["start_indices"], node.params["limit_indices"]
    strides = node.params["strides"] or [1] * len(starts)
    return tuple(slice(*map(int, each)) for each in zip(starts, limits, strides, strict=True))


def _keep_slice(keep: Keep, node: Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    for axis, part in enumerate(_slices(node)):
        if part.step != 1:
            keep.pin_for(node, source, axis)
            keep.pin_for(node, output, axis)
            continue
        keep.together([(source, axis), (output, axis)])
        keep.grow(output, axis, keep.why(source, axis)[part])
        why = np.zeros(keep.trace.shapes[source][axis], np.int32)
        why[part] = keep.why(output, axis)
        keep.grow(source, axis, why)


def _new_slice(keep: Keep, node: Node) -> dict[str, Any]:
    masks = keep.masks(node.inputs[0])
    return {
        name: tuple(int(m[: int(at)].sum()) for m, at in zip(masks, node.params[name], strict=True))
        for name in ("start_indices", "limit_indices")
    }


def _keep_pad(keep: Keep, node: Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    for axis, padding in enumerate(node.params["padding_config"]):
        if tuple(map(int, padding)) == (0, 0, 0):
            keep.link((source, axis), (output, axis))
        else:
            keep.pin_for(node, source, axis)
            keep.pin_for(node, output, axis)


def _pad(flows: Flows, node: Node) -> list[Flow]:
    source, filling = (flows[number] for number in node.inputs)
    config = node.params["padding_config"]
    axes = tuple(axis for axis, each in enumerate(config) if tuple(map(int, each)) != (0, 0, 0))
    shape = flows.trace.shapes[node.outputs[0]]
    along = [
        np.broadcast_to(mask.any(axis=axes, keepdims=True) | fill, shape)
        for mask, fill in zip(source, filling, strict=True)
    ]
    return [Flow(*along)]


def _whole_axes(keep_or_flows: Keep | Flows, node: Node) -> dict[int, int]:
    """The axes that are taken whole, and where they are in the output."""
    shape = keep_or_flows.trace.shapes[node.inputs[0]]
    sizes = node.params["slice_sizes"]
    if node.name == "dynamic_slice":
        window = {axis: axis for axis in range(len(shape))}
    else:
        numbers = node.params["dimension_numbers"]
        left = [
            axis
            for axis in range(len(shape))
            if axis not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        ]
        window = dict(zip(left, numbers.offset_dims, strict=True))
    return {axis: place for axis, place in window.items() if int(sizes[axis]) == shape[axis] > 1}


def _keep_lookup(keep: Keep, node: Node) -> None:
    """Axes that are taken whole go on; along all others any place may be asked for."""
    source, *where = node.inputs
    output, whole = node.outputs[0], _whole_axes(keep, node)
    for axis in range(keep.trace.ndim(source)):
        if axis in whole:
            keep.link((source, axis), (output, whole[axis]))
        else:
            keep.pin_for(node, source, axis)
    for axis in range(keep.trace.ndim(output)):
        if axis not in whole.values():
            keep.pin_for(node, output, axis)
    for number in where:
        keep.pin_for(node, number)


def _lookup(flows: Flows, node: Node) -> list[Flow]:
    source, whole = flows[node.inputs[0]], _whole_axes(flows, node)
    shape = flows.trace.shapes[node.outputs[0]]
    others = tuple(axis for axis in range(source.nonzero.ndim) if axis not in whole)
    spread = [1] * len(shape)
    for axis, place in whole.items():
        spread[place] = source.nonzero.shape[axis]
    # The axes that are left may have changed their order.
    order = np.argsort([whole[axis] for axis in sorted(whole)]).tolist()

    def along(mask: np.ndarray) -> np.ndarray:
        left = np.transpose(any_along(mask, others), order)
        return np.broadcast_to(left.reshape(spread), shape)

    nonzero = along(source.nonzero)
    places_vary = any(flows.varies(number) for number in node.inputs[1:])
    return [Flow(nonzero, nonzero if places_vary else along(source.varies))]


def _new_lookup(keep: Keep, node: Node) -> dict[str, Any]:
    source, whole = node.inputs[0], _whole_axes(keep, node)
    left = keep.shape(source)
    sizes = enumerate(node.params["slice_sizes"])
    return {"slice_sizes": tuple(left[axis] if axis in whole else int(s) for axis, s in sizes)}


def _keep_update(keep: Keep, node: Node) -> None:
    """Axes that are written whole go on; the others stay."""
    source, update, *where = node.inputs
    for axis, size in enumerate(keep.trace.shapes[source]):
        if keep.trace.shapes[update][axis] == size:
            keep.link((source, axis), (update, axis), (node.outputs[0], axis))
        else:
            for number in (source, update, node.outputs[0]):
                keep.pin_for(node, number, axis)
    for number in where:
        keep.pin_for(node, number)


def _cut_out(node: Node, mask: np.ndarray) -> np.ndarray:
    return mask[_slices(node)]


PRIMITIVES: dict[str, Primitive] = {
    "concatenate": Primitive(_keep_concatenate, _concatenate, linear=True),
    "split": Primitive(_keep_split, _split, _new_split, linear=True),
    "slice": Primitive(_keep_slice, moved(_cut_out), _new_slice, linear=True),
    "pad": Primitive(_keep_pad, _pad),
    "gather": Primitive(_keep_lookup, _lookup, _new_lookup),
    "dynamic_slice": Primitive(_keep_lookup, _lookup, _new_lookup),
    "dynamic_update_slice": Primitive(_keep_update, anything),
}
