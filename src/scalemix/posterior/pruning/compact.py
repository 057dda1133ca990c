"""Networks with zeros in them as smaller networks that compute the same.

One layer writes a unit and other layers read it. In an MLP each hidden layer has units of its own.
In a ResNet all layers share the units of the residual stream, and one of them can go only when
nothing reads it any more. A removed part may have added a constant, whatever the input: it goes
into the biases that follow, computed at the mean weights. So the smaller network is the same at
these means, and lacks only what the removed part added to the spread of draws.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array

from scalemix.networks import ResNet
from scalemix.posterior.networks import Networks
from scalemix.posterior.pruning.parts import Part, Parts, put_together, take_apart

Activation = Callable[[Array], Array]


class Compacted(NamedTuple):
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


def compact(members: Sequence[Networks], *, drop_inputs: bool) -> Compacted:
    """The same networks without the parts that nothing passes through."""
    network = members[0].model.network
    parts = [take_apart(networks) for networks in members]
    dropped: dict[str, int] = {}
    if isinstance(network, ResNet):
        gone = _blocks_to_drop(parts)
        dropped = dict(Counter(name for g in gone for name in g))
        parts = [_drop_blocks(p, g, network.activation) for p, g in zip(parts, gone, strict=True)]
        names = [*parts[0]]
        spaces = [(names[:-1], names[1:])]
    else:
        parts = [_fold_constants(p, network.activation) for p in parts]
        names = [*parts[0]]
        spaces = [([writer], [reader]) for writer, reader in itertools.pairwise(names)]
    units, notes = {}, []
    # From the end, because a unit that nobody reads need not read others.
    for writers, readers in reversed(spaces):
        before = len(parts[0][writers[0]].weight)
        needed = [_read_by([p[name] for name in readers]) for p in parts]
        if not np.any(needed):
            notes.append(f"Nothing reads the units of {writers[0]!r} any more; one is kept.")
        kept = _alike(needed)
        for part, need, keep in zip(parts, needed, kept, strict=True):
            for name in readers:
                part[name] = part[name].take(rows=keep)
            for name in writers:
                # A unit that is kept only to fill its place need not read anything.
                part[name] = part[name].only(outputs=need).take(outputs=keep)
        units[writers[0]] = before, len(kept[0])
    # Members take the same inputs: one that any of them reads stays.
    read = _read_by([p[names[0]] for p in parts])
    inputs = np.arange(len(read))
    if drop_inputs:
        (inputs,) = _alike([read])
        parts = [p | {names[0]: p[names[0]].take(rows=inputs)} for p in parts]
    smaller = [put_together(p, m) for p, m in zip(_same_biases(parts), members, strict=True)]
    return Compacted(
        members=smaller,
        units=dict(reversed(units.items())),
        dropped=dropped,
        inputs=tuple(inputs.tolist()),
        inputs_off=tuple(np.flatnonzero(~read).tolist()),
        notes=tuple(notes),
    )


def _read_by(readers: list[Part]) -> np.ndarray:
    """Which units any of these layers reads."""
    return np.logical_or.reduce([reader.reaches.any(axis=0) for reader in readers])


def _alike(needed: list[np.ndarray]) -> list[np.ndarray]:
    """The places to keep of each member: those that it needs, filled up to the same number for all.

    At least one place stays. Those that only fill up hold zeros, so any will do.
    """
    size = max(1, *(int(one.sum()) for one in needed))
    return [np.sort(np.argsort(~one, kind="stable")[:size]) for one in needed]


def _fold_constants(parts: Parts, activation: Activation) -> Parts:
    """The layers of an MLP; units that nothing leads to become constants in the biases."""
    folded, names = dict(parts), [*parts]
    for writer, reader in itertools.pairwise(names):
        varies = np.asarray(folded[writer].reaches.any(axis=1))
        constants = np.where(varies, 0.0, folded[writer].response(activation))
        folded[reader] = folded[reader].fold(constants).only(rows=varies)
    return folded


def _blocks_to_drop(parts: list[Parts]) -> list[list[str]]:
    """The residual layers to drop from each member: some that are off, as many for each member."""
    off = [[n for n in [*p][1:-1] if not p[n].reaches.any()] for p in parts]
    if not all(_one_prior([p[n] for n in [*p][1:-1]]) for p in parts):
        # Layers that move up take their prior with them, so all members must drop the same ones.
        return [[n for n in off[0] if all(n in names for names in off)]] * len(parts)
    num = min(len(names) for names in off)
    return [names[:num] for names in off]


def _one_prior(blocks: list[Part]) -> bool:
    return all(eqx.tree_equal(block.structure, blocks[0].structure) for block in blocks)


def _drop_blocks(parts: Parts, gone: list[str], activation: Activation) -> Parts:
    """The layers without those gone, whose `f(b)` becomes a constant of the stream after them."""
    first, *blocks, last = parts
    constant = np.zeros(len(parts[first].weight))
    kept: list[Part] = []
    for name in blocks:
        if name in gone:
            constant = constant + parts[name].response(activation)
        else:
            kept.append(parts[name].fold(constant))
    named = {f"blocks.{i}": part for i, part in enumerate(kept)}
    return {first: parts[first], **named, last: parts[last].fold(constant)}


def _same_biases(parts: list[Parts]) -> list[Parts]:
    """The layers, with a bias in all members where any member has one."""
    biased = {name for p in parts for name, part in p.items() if part.bias is not None}

    def with_bias(part: Part) -> Part:
        nothing = np.zeros(len(part.weight), part.weight.dtype)
        return dataclasses.replace(part, bias=nothing) if part.bias is None else part

    return [{n: with_bias(part) if n in biased else part for n, part in p.items()} for p in parts]
