"""Which arrays of a network learn, and which stay as they are."""

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from scalemix._types import PyTree
from scalemix.networks.calling import state_of, with_state
from scalemix.networks.sites import path_name

Frozen = str | Sequence[str] | Callable[[Any], bool] | PyTree
"""Name patterns, a function from a leaf to whether it is frozen, or a tree of such answers."""


def frozen_arrays(network: PyTree, frozen: Frozen | None) -> tuple[str, ...]:
    """The names of the arrays that `frozen` keeps as they are, in the network's order."""
    if frozen is None:
        return ()
    if isinstance(frozen, str):
        frozen = [frozen]
    if isinstance(frozen, list | tuple) and all(isinstance(part, str) for part in frozen):
        return _matched(network, frozen)
    try:
        kept, _ = eqx.partition(network, frozen)
    except Exception:
        # Whatever Equinox or JAX raises where two trees do not fit.
        raise ValueError(
            f"frozen must be patterns of names such as ['body.*'], a function from a leaf of the "
            f"network to True (frozen) or False, or a tree of these like the network; got "
            f"{type(frozen).__name__}."
        ) from None
    _arrays(network)
    return tuple(path_name(path) for path in _arrays(kept))


def learnable_leaves(network: PyTree, frozen: tuple[str, ...]) -> PyTree:
    """A network-shaped tree of truth values: which leaves are arrays that learn."""
    learnable = jax.tree_util.tree_map_with_path(
        lambda path, leaf: eqx.is_inexact_array(leaf) and path_name(path) not in frozen, network
    )
    # Passes change a state, and gradients do not.
    return with_state(learnable, jax.tree.map(lambda _: False, state_of(network)))


def check_types(network: PyTree, frozen: tuple[str, ...]) -> None:
    """Raise `ValueError` for an array that learns in a type whose range is too small for it."""
    learns = learnable_leaves(network, frozen)
    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(network, learns)):
        if jnp.finfo(leaf.dtype).minexp > jnp.finfo(jnp.bfloat16).minexp:
            raise ValueError(
                f"{path_name(tuple(path))!r} is of the type {leaf.dtype}, in which the squares "
                f"that training needs are zero or infinite. Let the network hold float32 or "
                f"bfloat16 (its layers take dtype=), and compute in {leaf.dtype} where it is "
                f"called: weight.astype({str(leaf.dtype)!r})."
            )


def _matched(network: PyTree, patterns: Sequence[str]) -> tuple[str, ...]:
    """The arrays whose names, or those of anything that holds them, match one of the patterns."""
    arrays = _arrays(network)
    # `body` stands for everything in it, and so does the name of the whole network.
    places = [[path_name(path[:end]) for end in range(len(path) + 1)] for path in arrays]
    matched: set[str] = set()
    for pattern in patterns:
        hits = {names[-1] for names in places if fnmatch.filter(names, pattern)}
        if not hits:
            raise ValueError(
                f"frozen={pattern!r} matches no array of the network. Arrays: "
                f"{', '.join(names[-1] for names in places)}."
            )
        matched |= hits
    return tuple(names[-1] for names in places if names[-1] in matched)


def _arrays(network: PyTree) -> list[tuple[Any, ...]]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(with_state(network, None))
    paths = [tuple(path) for path, leaf in leaves if eqx.is_inexact_array(leaf)]
    names = [path_name(path) for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"Two arrays of the network are called {name!r}, so that neither can be frozen by "
                f"its name. Rename one of them."
            )
    return paths
