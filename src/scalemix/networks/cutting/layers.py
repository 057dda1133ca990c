"""Whole layers that do nothing, taken out of the lists and the stacks that hold them."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._jaxprs import scan_counts
from scalemix._types import PyTree
from scalemix.networks.cutting.constants import (
    SUMS,
    Changes,
    Constants,
    Gone,
    NoPathAround,
    Stuck,
)
from scalemix.networks.cutting.graph import Trace
from scalemix.networks.sites import at_path, path_name

Path = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """Layers that the network runs one after the other: a list of them, or a stack."""

    path: Path
    """Of the list, or of the first array of the stack."""
    leaves: tuple[tuple[int, ...], ...]
    """The arrays of each layer in a list; those that are stacked, as often as there are layers."""
    stacked: bool = False

    def __len__(self) -> int:
        return len(self.leaves)


def find_rows(network: PyTree, trace: Trace) -> Iterator[Row]:
    """The lists and stacks of layers in a network."""
    paths = [tuple(path) for path, _ in _leaves(network)]
    for path, node in _nodes(network):
        if isinstance(node, tuple | list) and len(node) and not hasattr(node, "_fields"):
            start = len(path)
            held = [
                tuple(i for i, p in enumerate(paths) if p[:start] == path and p[start].idx == place)
                for place in range(len(node))
            ]
            if all(held):
                yield Row(path, tuple(held))
    numbers = {number: leaf for leaf, number in enumerate(trace.leaves)}
    for node in trace.graph.nodes:
        if node.name == "scan":
            stacked = node.inputs[sum(scan_counts(node.params, len(node.inputs))) :]
            leaves = tuple(numbers[number] for number in stacked if number in numbers)
            if leaves and len(leaves) == len(stacked):
                yield Row(paths[leaves[0]], (leaves,) * node.params["length"], stacked=True)


def row_names(row: Row) -> list[str]:
    """What to call each layer."""
    path = row.path
    if row.stacked:
        # The layer that holds the arrays.
        path = path[:-1]
    return [f"{path_name(path)}.{place}" for place in range(len(row))]


def is_off(row: Row, place: int, nonzero: Sequence[np.ndarray]) -> bool:
    """Whether a matrix of this layer is all zero, so that nothing may come of it."""
    masks = [nonzero[leaf] for leaf in row.leaves[place]]
    masks = [mask[place] for mask in masks] if row.stacked else masks
    return any(mask.ndim > 1 and not mask.any() for mask in masks)


def constants_of(row: Row, places: Sequence[int], constants: Constants) -> Changes:
    """What lets biases add what layers of a list added, or raises `Stuck`."""
    trace, flows = constants.trace, constants.flows
    lost = {trace.leaves[leaf] for place in places for leaf in row.leaves[place]}
    made_of_example = _descendants(trace)
    joins: dict[int, int] = {}
    sources: dict[int, Any] = {}
    for node in trace.graph.nodes:
        terms = [number for number in node.inputs if number in lost]
        if not terms:
            continue
        rest = [number for number in node.inputs if number not in lost]
        output = node.outputs[0]
        # A path leads around what is lost, if the other term is made of the example.
        around = node.name in SUMS and len(rest) == 1 and rest[0] in made_of_example
        if around and not flows.varies(terms[0]):
            if node.name == "sub" and terms[0] == node.inputs[0]:
                raise Stuck(f"sub at {node.line}")
            value = np.broadcast_to(np.asarray(constants.value(terms[0])), trace.shapes[output])
            sources[output] = -value if node.name == "sub" else value
            joins[output] = rest[0]
        else:
            lost.update(node.outputs)
    if any(number in lost for number in trace.graph.outputs):
        raise NoPathAround
    return constants.follow(sources, Gone(frozenset(lost), joins))


def _descendants(trace: Trace) -> set[int]:
    """All arrays that are made of the example, whether they vary with it or not."""
    made = set(trace.example)
    for node in trace.graph.nodes:
        if any(number in made for number in node.inputs):
            made.update(node.outputs)
    return made


def without(network: PyTree, row: Row, places: Sequence[int]) -> PyTree:
    """The network without these layers."""
    kept = [place for place in range(len(row)) if place not in places]
    if not row.stacked:
        return eqx.tree_at(
            lambda net: at_path(net, row.path),
            network,
            replace_fn=lambda node: type(node)([node[place] for place in kept]),
        )
    arrays, static = eqx.partition(network, eqx.is_array)
    leaves, form = jax.tree.flatten(arrays)
    for leaf in row.leaves[0]:
        leaves[leaf] = jnp.take(leaves[leaf], np.asarray(kept, np.int32), axis=0)
    return eqx.combine(jax.tree.unflatten(form, leaves), static)


def left_of(row: Row, places: Sequence[int], leaf: int) -> Any:
    """What is left of an array after these layers are gone: nothing, or these entries of it."""
    if row.stacked:
        kept = [place for place in range(len(row)) if place not in places]
        return np.asarray(kept, np.int32) if leaf in row.leaves[0] else slice(None)
    return None if any(leaf in row.leaves[place] for place in places) else slice(None)


def _leaves(network: PyTree) -> list[tuple[Path, Any]]:
    return jax.tree_util.tree_leaves_with_path(eqx.filter(network, eqx.is_array))


def _nodes(network: PyTree) -> Iterator[tuple[Path, Any]]:
    """All lists and tuples of a network, the outer ones first."""
    seen: set[str] = set()
    for path, _ in _leaves(network):
        for end in range(len(path)):
            if isinstance(path[end], jax.tree_util.FlattenedIndexKey):
                # A node of a class that is no module: nobody knows its parts.
                break
            if isinstance(path[end], jax.tree_util.SequenceKey):
                name = jax.tree_util.keystr(path[:end])
                if name not in seen:
                    seen.add(name)
                    yield tuple(path[:end]), at_path(network, path[:end])
