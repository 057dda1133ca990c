"""Networks with zeros in them as smaller networks that compute the same.

A removed part may have added a constant, whatever the input: it goes into the biases that follow,
computed at the mean weights. So the smaller network is the same at these means, and lacks only what
the removed part added to the spread of draws.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scalemix._types import PyTree, Shaped
from scalemix.data.rows import are_several, is_table, take_rows
from scalemix.networks.cutting import Member, Shrinker, Shrunk
from scalemix.networks.cutting.agreement import outputs, same_numbers
from scalemix.posterior.networks import Networks
from scalemix.posterior.pruning.subjects import finish, frozen_leaves, sites_by_leaf, start

MOST_COMPARED = 512
TIED = "Layers that share their scales only have a mask: all shapes are as before."


@dataclasses.dataclass(frozen=True)
class Compacted:
    """Smaller networks, all of one shape, and what was taken out of them."""

    members: list[Networks]
    units: dict[str, tuple[int, int]]
    """Hidden units before and after, by the layer that puts them out."""
    dropped: dict[str, int]
    """From how many members each layer is gone."""
    inputs: tuple[int, ...]
    """Which inputs the networks take, by number."""
    inputs_off: tuple[int, ...]
    """Which inputs no member reads."""
    notes: tuple[str, ...]


def call(network: PyTree, x: Any) -> Any:
    """What a network makes of one example."""
    return network(x)


def compact(
    members: Sequence[Networks], rows: Any, *, drop_inputs: bool, as_function: bool = False
) -> Compacted:
    """The same networks without the parts that nothing passes through.

    `rows` are examples as the network sees them, at which the two are compared.
    """
    first, rows = members[0], take_rows(rows, slice(MOST_COMPARED))
    if any(len(site.parts) > 1 for site in first.model.sites):
        return Compacted(list(members), {}, {}, _all_inputs(rows), (), (TIED,))
    begun = [start(networks) for networks in members]
    structures: dict[int | None, Any] = {
        leaf: first.model.structures[s.name] for leaf, s in sites_by_leaf(first).items()
    }

    def alike(one: int | None, other: int | None) -> bool:
        # Arrays without a prior are all alike.
        return eqx.tree_equal(structures.get(one), structures.get(other)) is not False

    def shrunk(**options: bool) -> tuple[Shrunk, bool]:
        shrinker = Shrinker(begun, rows, call, fixed=frozen_leaves(first), alike=alike)
        made = shrinker.shrink(drop_inputs=drop_inputs, as_function=as_function, **options)
        return made, _agree(begun, made.members, rows, _inputs_taken(made, rows))

    made, agrees = shrunk()
    if not agrees and made.cut.factors:
        # Weights of few digits are other ones once they are multiplied.
        made, agrees = shrunk(whole_sums=True)
    notes, taken = list(made.notes), _inputs_taken(made, rows)
    if not agrees:
        notes.append("The smaller network does not compute the same, so all shapes are as before.")
        return dataclasses.replace(_untouched(members, made, rows), notes=tuple(notes))
    example = _example(first.model.example, taken if drop_inputs else None)
    units, unread = _units(first, made)
    notes += [f"Nothing reads the units of {name!r} any more; one is kept." for name in unread]
    off = _off(made)
    if drop_inputs and (stay := [number for number in off if number in taken]):
        notes.append(
            f"Inputs {', '.join(map(str, stay))} stay though nothing reads them: of what a network "
            f"takes from a row at once, one has to stay."
        )
    return Compacted(
        members=[finish(m, n, example) for m, n in zip(made.members, members, strict=True)],
        units=units,
        dropped=made.dropped,
        inputs=tuple(taken.tolist()),
        inputs_off=off,
        notes=tuple(notes),
    )


def _untouched(members: Sequence[Networks], made: Shrunk, rows: Any) -> Compacted:
    return Compacted(list(members), {}, {}, _all_inputs(rows), _off(made), ())


def _all_inputs(rows: Any) -> tuple[int, ...]:
    return tuple(range(rows.shape[1] if is_table(rows) else 1))


def _off(made: Shrunk) -> tuple[int, ...]:
    return () if made.read is None else tuple(np.flatnonzero(~made.read).tolist())


def _inputs_taken(made: Shrunk, rows: Any) -> np.ndarray:
    trace = made.cut.keeps[0].trace
    if is_table(rows):
        return np.flatnonzero(made.cut.keeps[0].mask(trace.example[0], 0))
    return np.arange(1 if not are_several(rows) and rows.ndim == 1 else 0)


def _example(example: Shaped | None, inputs: np.ndarray | None) -> Shaped | None:
    if inputs is None or not isinstance(example, jax.ShapeDtypeStruct) or len(example.shape) != 1:
        return example
    return jax.ShapeDtypeStruct((len(inputs),), example.dtype)


def _agree(
    before: Sequence[Member], after: Sequence[Member], rows: Any, inputs: np.ndarray
) -> bool:
    left = rows[:, inputs] if is_table(rows) else rows
    return all(
        same_numbers(outputs(call, old.network, rows), outputs(call, new.network, left))
        for old, new in zip(before, after, strict=True)
    )


def _units(first: Networks, made: Shrunk) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """By the first layer that puts them out, of all that share them; and those nothing reads."""
    keep = made.cut.keeps[0]
    trace, old_sites = keep.trace, sites_by_leaf(first)
    ends = {
        keep.class_of((number, axis))
        for number in trace.graph.outputs
        for axis in range(trace.ndim(number))
    }
    units: dict[str, tuple[int, int]] = {}
    unread = []
    for number, (leaf, site) in zip(trace.leaves, _before_cut(made, old_sites), strict=True):
        if site is None or leaf is None:
            continue
        axis = site.axis("row" if site.rule.output_axis is None else "output")
        assert axis is not None
        axis += site.num_stacked
        shared = keep.class_of((number, axis))
        size = trace.shapes[number][axis]
        if shared not in ends and size > 1:
            ends.add(shared)
            units[site.name] = size, keep.shape(number)[axis]
            if not any(each.is_read(number, axis).any() for each in made.cut.keeps):
                unread.append(site.name)
    return units, unread


def _before_cut(made: Shrunk, old_sites: dict[int, Any]) -> list[tuple[int | None, Any]]:
    # The cut moves no array to another place.
    leaves = [origin.leaf for origin in made.cut.members[0].origins]
    return [(leaf, None if leaf is None else old_sites.get(leaf)) for leaf in leaves]
