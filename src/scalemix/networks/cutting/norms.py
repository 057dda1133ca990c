"""Norms whose divisors count places that are constants, so that these can go.

Before a cut, norms with such places become ones that know which places are none (`present`), and
what the others are. What these sum up can be followed like anything else. After the cut, those that
have lost nothing become what they were.
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._jaxprs import scan_counts
from scalemix._types import PyTree
from scalemix.networks.cutting.constants import Constants
from scalemix.networks.cutting.flow import any_along
from scalemix.networks.cutting.graph import Node, Trace
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.member import Member, arrays_of, paths_of, with_arrays
from scalemix.networks.narrow import NarrowLayerNorm, NarrowRMSNorm

Path = tuple[Any, ...]
NARROW: dict[type, Any] = {eqx.nn.LayerNorm: NarrowLayerNorm, eqx.nn.RMSNorm: NarrowRMSNorm}
# The first is no real number, and so is never learned.
KNOWN = ("present", "centre", "spread", "squares")


class Constant(NamedTuple):
    """Of the places of a norm's input: which are constants, and what the norm sums up there.

    That is the input itself, or of an RMSNorm its square.
    """

    where: np.ndarray
    values: np.ndarray


def _is_norm(node: Any) -> bool:
    """Norms of Equinox itself: a class of one's own may do anything."""
    if isinstance(node, NarrowLayerNorm | NarrowRMSNorm):
        return True
    return type(node) in NARROW and len(node.shape) == 1 and eqx.is_array(node.weight)


def _norms(network: PyTree) -> Iterator[tuple[Path, Any]]:
    for path, node in jax.tree_util.tree_leaves_with_path(network, is_leaf=_is_norm):
        if _is_norm(node):
            yield tuple(path), node


def has_narrow(network: PyTree) -> bool:
    """Whether a network has norms that know which of their places are constants."""
    return any(type(node) not in NARROW for _, node in _norms(network))


def with_narrow(network: PyTree, which: Collection[Path] | None = None) -> PyTree:
    """The network with norms that know which places are present; these, or all."""

    def change(path: Path, node: Any) -> Any:
        chosen = which is None or tuple(path) in which
        return NARROW[type(node)](node) if chosen and type(node) in NARROW else node

    return _map_norms(network, change)


def _map_norms(network: PyTree, change: Any) -> PyTree:
    return jax.tree_util.tree_map_with_path(
        lambda path, node: change(path, node) if _is_norm(node) else node,
        network,
        is_leaf=_is_norm,
    )


def bookkeeping(network: PyTree) -> set[Path]:
    """The paths of what narrow norms know of their constants, which nobody should learn."""
    starts = [path for path, node in _norms(network) if type(node) not in NARROW]
    return {
        path
        for path in paths_of(network)
        if any(path[:-1] == start and path[-1].name in KNOWN[1:] for start in starts)
    }


def constant_places(member: Member, constants: Constants) -> dict[Path, Constant]:
    """By the path of a narrow norm, the places of its input that are constants, if there are."""
    leaves = {path: leaf for leaf, path in enumerate(paths_of(member.network))}
    some: dict[Path, Constant] = {}
    for path, _ in _norms(member.network):
        leaf = leaves[(*path, jax.tree_util.GetAttrKey("present"))]
        uses = [_seen(constants, *use) for use in _uses(constants.trace, leaf)]
        if not uses:
            continue
        alike = np.logical_and.reduce([each.values == uses[0].values for each in uses])
        constant = np.logical_and.reduce([each.where for each in uses]) & alike
        present = np.asarray(arrays_of(member.network)[leaf])
        # One must be left to tell what all others are constant beside.
        if (constant & present).any() and (present & ~constant).any(axis=-1).all():
            some[path] = Constant(constant, uses[0].values)
    return some


def _uses(trace: Trace, leaf: int) -> list[tuple[Node, int]]:
    """The operations by which a norm sums up its input: the first of each use, and its data.

    There are none if anything else reads which places are present, such as a choice between
    branches: what the norm sums up there is not known.
    """
    uses: list[tuple[Node, int]] = []
    stands_for, casts, summed = {trace.leaves[leaf]}, set(), set()
    handed_on = {*trace.graph.outputs}
    for node in trace.nodes:
        handed_on.update(number for body in node.bodies for number in body.outputs)
        if (stands_for | casts).isdisjoint(node.inputs):
            continue
        if node.name == "scan" and not (stands_for & {*_carried(node)} or casts & {*node.inputs}):
            pairs = zip(node.inputs, node.bodies[0].inputs, strict=True)
            stands_for |= {inner for outer, inner in pairs if outer in stands_for}
        elif node.name == "convert_element_type" and node.inputs[0] in stands_for:
            casts.add(node.outputs[0])
        elif node.name == "dot_general" and stands_for.isdisjoint(node.inputs):
            data = [place for place, number in enumerate(node.inputs) if number not in casts]
            if data and summed.isdisjoint(node.inputs):
                summed.add(node.inputs[1 - data[0]])
                uses.append((node, data[0]))
        else:
            return []
    return uses if handed_on.isdisjoint(stands_for | casts) else []


def _carried(node: Node) -> tuple[int, ...]:
    """What a loop begins with, and what is something else after its first step."""
    num_consts, num_carried = scan_counts(node.params, len(node.inputs))
    return node.inputs[num_consts : num_consts + num_carried]


def _seen(constants: Constants, node: Node, data: int) -> Constant:
    number = node.inputs[data]
    flow = constants.flows[number]
    (axis,) = node.params["dimension_numbers"][0][data]
    others = tuple(other for other in range(flow.nonzero.ndim) if other != int(axis))
    zero, still = (~any_along(mask, others) for mask in flow)
    # In a loop, nothing but zero is the same in all steps for certain.
    if not (still & ~zero).any() or not constants.has_value(number):
        return Constant(zero, np.zeros(zero.shape))
    values = np.asarray(constants.value(number), np.float64)
    least, most = values.min(axis=others), values.max(axis=others)
    return Constant(zero | (still & (least == most)), np.where(zero, 0.0, least))


def mark(member: Member, places: dict[Path, Constant]) -> Member:
    """The network with these constants known to its norms as such."""
    leaves, nonzero = arrays_of(member.network), list(member.nonzero)
    numbers = {path: leaf for leaf, path in enumerate(paths_of(member.network))}
    for path, (constant, values) in places.items():
        known = {
            name: numbers[where]
            for name in KNOWN
            if (where := (*path, jax.tree_util.GetAttrKey(name))) in numbers
        }
        before = {name: np.asarray(leaves[leaf]) for name, leaf in known.items()}
        after = _marked(_size(member.network, path), before, constant, values)
        for name, leaf in known.items():
            leaves[leaf] = jnp.asarray(after[name].astype(before[name].dtype))
            nonzero[leaf] = after[name] != 0
    network = with_arrays(member.network, leaves)
    return Member(network, tuple(nonzero), member.origins)


def _size(network: PyTree, path: Path) -> int:
    return next(node.size for at, node in _norms(network) if at == path)


def _marked(
    size: int, before: dict[str, np.ndarray], constant: np.ndarray, values: np.ndarray
) -> dict[str, np.ndarray]:
    """What a norm knows after more of its places are known to be constants."""
    new = before["present"] & constant
    present = before["present"] & ~constant
    values = np.where(new, values, 0.0)
    if "squares" in before:
        # An RMSNorm sums up squares.
        return {"present": present, "squares": before["squares"] + values.sum(axis=-1)}
    num_before = size - before["present"].sum(axis=-1)
    num = size - present.sum(axis=-1)
    centre = (num_before * before["centre"] + values.sum(axis=-1)) / np.maximum(num, 1)
    deviations = np.where(new, values - centre[..., None], 0.0)
    spread = (
        before["spread"]
        + num_before * (before["centre"] - centre) ** 2
        + np.square(deviations).sum(axis=-1)
    )
    return {"present": present, "centre": centre, "spread": spread}


def simplified(
    members: Sequence[Member], keeps: Sequence[Keep], fixed: Collection[int] = ()
) -> tuple[Member, ...]:
    """The networks after a cut with Equinox's own norms wherever these compute the same.

    Arrays that are `fixed` have the values that they had.
    """
    network = members[0].network
    numbers = {path: leaf for leaf, path in enumerate(paths_of(network))}
    plain: dict[Path, dict[str, Any]] = {}
    factors: dict[int, float] = {}
    for path, norm in _norms(network):
        if type(norm) in NARROW:
            continue
        left, present = norm.shape[0], numbers[(*path, jax.tree_util.GetAttrKey("present"))]
        weight = numbers.get((*path, jax.tree_util.GetAttrKey("weight")))
        if left == norm.size and all(_is_read(keep, present) for keep in keeps):
            plain[path] = {}
        elif weight not in (None, *fixed) and all(_gone_are_zero(m, path) for m in members):
            # Of fewer places the mean of the squares is larger, by size / left, and so is eps.
            plain[path] = {"eps": norm.eps * norm.size / left}
            factors[weight] = math.sqrt(norm.size / left)

    if not plain:
        return tuple(members)

    def change(path: Path, norm: Any) -> Any:
        return _as_plain(norm, plain[tuple(path)]) if tuple(path) in plain else norm

    scaled = [member.scaled(factors) for member in members]
    return tuple(member.with_fewer(_map_norms(member.network, change)) for member in scaled)


def _is_read(keep: Keep, leaf: int) -> bool:
    """Whether all places of an array are read; of others the values may be any."""
    number = keep.trace.leaves[leaf]
    return bool(keep.is_read(number, keep.trace.ndim(number) - 1).all())


def _gone_are_zero(member: Member, path: Path) -> bool:
    """Whether all that an RMSNorm has lost was zero, and so is nothing in a sum of squares."""
    norm = next(node for at, node in _norms(member.network) if at == path)
    if not isinstance(norm, NarrowRMSNorm):
        return False
    return bool(np.all(norm.present)) and not np.any(norm.squares)


def _as_plain(norm: Any, fields: dict[str, Any]) -> Any:
    """The norm of Equinox's own class that it was made of."""
    kind = next(base for base in type(norm).__mro__ if base in NARROW)
    plain = object.__new__(kind)
    for field in dataclasses.fields(kind):
        object.__setattr__(plain, field.name, fields.get(field.name, getattr(norm, field.name)))
    return plain
