"""Lets masks grow until every operation has what it asks for."""

import heapq
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from scalemix.networks.cutting.flow import Flows
from scalemix.networks.cutting.graph import Node, Trace
from scalemix.networks.cutting.keep import FILLING, ONE_STAYS, OTHERS, READ, Dimension, Keep
from scalemix.networks.cutting.primitives import PRIMITIVES

FLOWS = {name: primitive.flow for name, primitive in PRIMITIVES.items()}
INPUT, OUTPUT, CONSTANT = "it is an input", "it is an output", "it is a constant of the code"
UNUSED = "the network does not use it"
NOT_FOLLOWED = "what reads it cannot be followed"


def find_flows(trace: Trace, nonzero: Sequence[np.ndarray]) -> Flows:
    """What can be nonzero and what can vary, where the leaves are nonzero as told."""
    return Flows(trace, nonzero, FLOWS)


def solve(
    trace: Trace,
    flows: Flows,
    *,
    pinned: Sequence[tuple[Dimension, str]] = (),
    inputs: bool = True,
    tied: bool = False,
    whole_sums: bool = False,
) -> Keep:
    """What stays of a network. Outputs do, and these dimensions, and inputs unless told."""
    keep = Keep(trace, flows, tied=tied, whole_sums=whole_sums)
    for number in trace.graph.outputs:
        keep.pin(number, None, OUTPUT)
    for number in trace.constants:
        keep.pin(number, None, CONSTANT)
    if inputs:
        for number in trace.example:
            keep.pin(number, None, INPUT)
    used = {number for node in trace.graph.nodes for number in node.inputs}
    for number in set(trace.leaves) - used:
        keep.pin(number, None, UNUSED)
    for (number, axis), reason in pinned:
        keep.pin(number, axis, reason)
    settle(keep)
    return keep


def settle(keep: Keep) -> None:
    """Grow to what all operations ask for. Of an axis that nothing asks for one place stays."""
    _propagate(keep, range(len(keep.trace.nodes)))
    for number, shape in enumerate(keep.trace.shapes):
        for axis, size in enumerate(shape):
            if size and not keep.why(number, axis).any():
                keep.touched.clear()
                keep.pin_first(number, axis, ONE_STAYS)
                _propagate(keep, _near(keep))


def _propagate(keep: Keep, start: Iterable[int]) -> None:
    """Ask operations what they need, the last first, and again those whose arrays have grown."""
    waiting = set(start)
    heap = [-index for index in waiting]
    heapq.heapify(heap)
    while heap:
        index = -heapq.heappop(heap)
        waiting.discard(index)
        node = keep.trace.nodes[index]
        primitive = PRIMITIVES.get(node.name)
        keep.touched.clear()
        (_keep_everything if primitive is None else primitive.keep)(keep, node)
        for near in _near(keep) - waiting:
            waiting.add(near)
            heapq.heappush(heap, -near)


def _near(keep: Keep) -> set[int]:
    return {index for number in keep.touched for index in keep.trace.neighbours.get(number, ())}


def _keep_everything(keep: Keep, node: Node) -> None:
    for number in (*node.inputs, *node.outputs):
        keep.pin_for(node, number)


def same_shape(
    keeps: Sequence[Keep],
    choose: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]],
    of: Sequence[int] | None = None,
) -> None:
    """Grow the masks of several networks of one form until they are as large.

    Of these arrays, by default those of the network.
    """
    trace = keeps[0].trace
    again = len(keeps) > 1
    while again:
        again = False
        for number in trace.leaves if of is None else of:
            for axis in range(trace.ndim(number)):
                masks = [keep.mask(number, axis) for keep in keeps]
                for keep, mask in zip(keeps, choose(masks), strict=True):
                    if not np.array_equal(mask, keep.mask(number, axis)):
                        keep.grow_for(number, axis, mask, OTHERS)
                        again = True
        for keep in keeps:
            settle(keep)


def as_many(masks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Masks of as many places as the largest has: its own first, then any."""
    largest = max(masks, key=np.sum)
    filled = []
    for mask in masks:
        order = np.argsort(~mask * 2 - (largest & ~mask), kind="stable")
        taken = np.zeros_like(mask)
        taken[order[: largest.sum()]] = True
        filled.append(taken)
    return filled


def all_alike(masks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The places that any mask has, for each of them."""
    return [np.logical_or.reduce(masks)] * len(masks)


def reasons_to_stay(keep: Keep, nonzero: Sequence[np.ndarray]) -> dict[Dimension, str]:
    """Why places that are all zero stay in the network's arrays, where that is someone's code."""
    reasons: dict[Dimension, str] = {}
    plain = {*FILLING, READ, INPUT, OUTPUT, UNUSED, NOT_FOLLOWED}
    for number, each in zip(keep.trace.leaves, nonzero, strict=True):
        if not each.any():
            # All of it is off, and what is left of it is left for the sake of others.
            continue
        for axis in [axis for axis, size in enumerate(each.shape) if each.ndim > 1 < size]:
            others = tuple(other for other in range(each.ndim) if other != axis)
            zero = ~each.any(axis=others) & keep.mask(number, axis)
            causes = {keep.reasons[code] for code in np.unique(keep.why(number, axis)[zero])}
            for reason in sorted(causes - plain):
                reasons.setdefault((number, axis), reason)
    return reasons
