"""Sizes that a network's own classes write down: which whole numbers to change, and to what.

Nothing says what a number of someone's class means. Where the cut network cannot be traced, the
error's own traceback names the module that it came from, and the new sizes are tried there.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx

from scalemix._types import PyTree
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.sizes import size_rule, with_fields

Path = tuple[Any, ...]
MOST_TRIALS = 100


@dataclasses.dataclass(frozen=True)
class Trial:
    """Why a network does not do, and the modules through which the error came."""

    problem: str | None
    blamed: tuple[Path, ...] = ()
    factors: dict[int, float] = dataclasses.field(default_factory=dict)
    """What to multiply the network's arrays by, if it does."""


def fit_whole_numbers(
    network: PyTree, keep: Keep, attempt: Callable[[PyTree], Trial]
) -> tuple[PyTree | None, Trial]:
    """The network, with whole numbers of its classes changed until an attempt succeeds; its trial.

    Where no change helps, `None` and the trial of the network as it was.
    """
    trial = first = attempt(network)
    sizes = _changed_sizes(keep)
    settled: set[Path] = set()
    while trial.problem is not None:
        places = [
            (path, [size, *sorted(sizes[size])])
            for path, size in _whole_numbers(network)
            if size in sizes and path not in settled
        ]
        places = _nearest(places, trial.blamed)
        step = _try(network, places, trial, attempt)
        if step is None:
            return None, first
        network, trial, changed = step
        settled |= changed
    return network, trial


def _try(
    network: PyTree, places: list[tuple[Path, list[int]]], before: Trial, attempt: Any
) -> tuple[PyTree, Trial, set[Path]] | None:
    choices = itertools.product(*(sizes for _, sizes in places))
    # The first choice changes nothing.
    for choice in itertools.islice(choices, 1, MOST_TRIALS):
        candidate, changed = network, set()
        for (path, sizes), size in zip(places, choice, strict=True):
            if size != sizes[0]:
                candidate = _put(candidate, path, size)
                changed.add(path)
        trial = attempt(candidate)
        if trial.problem is None or (trial.blamed and trial.blamed != before.blamed):
            return candidate, trial, changed
    return None


def _nearest(
    places: list[tuple[Path, list[int]]], blamed: tuple[Path, ...]
) -> list[tuple[Path, list[int]]]:
    """Those of the innermost module that was blamed and has any."""
    for owner in reversed(blamed):
        near = [place for place in places if place[0][:-1] == owner]
        if near:
            return near
    return places


def _changed_sizes(keep: Keep) -> dict[int, set[int]]:
    sizes: dict[int, set[int]] = {}
    for number, shape in enumerate(keep.trace.shapes):
        for before, after in zip(shape, keep.shape(number), strict=True):
            if 0 < after < before:
                sizes.setdefault(before, set()).add(after)
    return sizes


def _whole_numbers(node: Any, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """The plain numbers of classes that no rule knows."""
    if type(node) is int:
        yield path, node
    elif isinstance(node, eqx.Module):
        known = size_rule(node) is not None
        for name, value in _fields(node):
            if not (known and type(value) is int):
                yield from _whole_numbers(value, (*path, name))
    elif isinstance(node, tuple | list):
        for place, value in enumerate(node):
            yield from _whole_numbers(value, (*path, place))


def _fields(module: eqx.Module) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(module):
        if hasattr(module, field.name):
            yield field.name, getattr(module, field.name)


def _put(node: Any, path: Path, value: int) -> Any:
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        parts = [_put(v, tuple(rest), value) if i == first else v for i, v in enumerate(node)]
        return type(node)(*parts) if hasattr(node, "_fields") else type(node)(parts)
    return with_fields(node, **{first: _put(getattr(node, first), tuple(rest), value)})


def path_of(tree: Any, node: Any, path: Path = ()) -> Path | None:
    """Where in a tree a module is."""
    if tree is node:
        return path
    parts: Any = ()
    if isinstance(tree, eqx.Module):
        parts = _fields(tree)
    elif isinstance(tree, tuple | list):
        parts = enumerate(tree)
    for key, value in parts:
        inner = path_of(value, node, (*path, key))
        if inner is not None:
            return inner
    return None
