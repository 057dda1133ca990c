"""Operations that put the elements of an array into another shape."""

from typing import Any

import numpy as np

from scalemix.networks.cutting.flow import moved
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.primitives._rule import Primitive


def _keep_transpose(keep: Keep, node: Node) -> None:
    for axis, source in enumerate(node.params["permutation"]):
        keep.link((node.outputs[0], axis), (node.inputs[0], int(source)))


def _keep_broadcast(keep: Keep, node: Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    for axis, place in enumerate(node.params["broadcast_dimensions"]):
        if keep.trace.shapes[source][axis] == keep.trace.shapes[output][int(place)]:
            keep.link((source, axis), (output, int(place)))
        else:
            # One place that is repeated.
            keep.pin_for(node, source, axis)


def _broadcast(node: Node, mask: np.ndarray) -> np.ndarray:
    shape = node.equation.outvars[0].aval.shape  # pyright: ignore[reportAttributeAccessIssue]
    places = [int(place) for place in node.params["broadcast_dimensions"]]
    spread = [1] * len(shape)
    for place, size in zip(places, mask.shape, strict=True):
        spread[place] = size
    return np.broadcast_to(mask.reshape(spread), shape)


def _squeezed(node: Node, ndim: int) -> set[int]:
    return {int(axis) % ndim for axis in node.params["dimensions"]}


def _keep_squeeze(keep: Keep, node: Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    gone = _squeezed(node, keep.trace.ndim(source))
    left = [axis for axis in range(keep.trace.ndim(source)) if axis not in gone]
    for place, axis in enumerate(left):
        keep.link((output, place), (source, axis))
    if keep.is_live(node):
        for axis in gone:
            keep.pin_for(node, source, axis)


def _keep_rev(keep: Keep, node: Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    for axis in range(keep.trace.ndim(source)):
        if axis in node.params["dimensions"]:
            keep.together([(source, axis), (output, axis)])
            keep.grow(output, axis, keep.why(source, axis)[::-1])
            keep.grow(source, axis, keep.why(output, axis)[::-1])
        else:
            keep.link((source, axis), (output, axis))


def _keep_reshape(keep: Keep, node: Node) -> None:
    """Within each run of axes, what stays is an outer product on both sides."""
    source, output = node.inputs[0], node.outputs[0]
    shapes = keep.trace.shapes
    if 0 in shapes[source]:
        keep.pin_for(node, source)
        keep.pin_for(node, output)
        return
    for old, new in runs_of_axes(shapes[source], shapes[output]):
        sides = [(source, old), (output, new)]
        if len(old) == len(new) == 1:
            keep.link((source, old[0]), (output, new[0]))
            continue
        loose = [(v, axis) for v, axes in sides for axis in axes if not keep.is_whole(v, axis)]
        keep.together(loose)
        # Once is enough: if an axis has grown by this, the operation is asked again.
        flat = np.maximum(*(_outer(keep, v, axes) for v, axes in sides))
        for v, axes in sides:
            whole = flat.reshape([shapes[v][axis] for axis in axes])
            for place, axis in enumerate(axes):
                others = tuple(k for k in range(len(axes)) if k != place)
                keep.grow(v, axis, whole.max(axis=others))


def _outer(keep: Keep, array: int, axes: list[int]) -> np.ndarray:
    """The reasons of all places of several axes together; a place stays if it does in each."""
    # Without axes there is one place, which stays.
    why = np.ones((), np.int32)
    for axis in axes:
        other = keep.why(array, axis)
        both = np.logical_and.outer(why > 0, other > 0)
        why = np.where(both, np.maximum.outer(why, other), 0)
    return why.reshape(-1)


def runs_of_axes(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The axes of two shapes, in the smallest runs that have as many elements."""
    runs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = ([i] if i < len(old) else []), ([j] if j < len(new) else [])
        size_left = old[i] if left else 1
        size_right = new[j] if right else 1
        i, j = i + len(left), j + len(right)
        while size_left != size_right:
            if size_left < size_right:
                size_left *= old[i]
                left.append(i)
                i += 1
            else:
                size_right *= new[j]
                right.append(j)
                j += 1
        runs.append((left, right))
    return runs


def _new_shape(name: str) -> Any:
    def resize(keep: Keep, node: Node) -> dict[str, Any]:
        return {name: keep.shape(node.outputs[0])}

    return resize


def _keep_iota(keep: Keep, node: Node) -> None:
    keep.pin_for(node, node.outputs[0], int(node.params["dimension"]))


def _reshape(node: Node, mask: np.ndarray) -> np.ndarray:
    return mask.reshape(node.params["new_sizes"])


PRIMITIVES: dict[str, Primitive] = {
    "transpose": Primitive(
        _keep_transpose,
        moved(lambda node, mask: mask.transpose(node.params["permutation"])),
        linear=True,
    ),
    "broadcast_in_dim": Primitive(
        _keep_broadcast, moved(_broadcast), _new_shape("shape"), linear=True
    ),
    "squeeze": Primitive(
        _keep_squeeze,
        moved(lambda node, mask: mask.squeeze(tuple(_squeezed(node, mask.ndim)))),
        linear=True,
    ),
    "rev": Primitive(
        _keep_rev,
        moved(lambda node, mask: np.flip(mask, tuple(node.params["dimensions"]))),
        linear=True,
    ),
    "reshape": Primitive(_keep_reshape, moved(_reshape), _new_shape("new_sizes"), linear=True),
    "iota": Primitive(_keep_iota, resize=_new_shape("shape")),
}
