"""A network on its way to a smaller one, and where its numbers come from."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.cutting.constants import Changes
from scalemix.networks.cutting.graph import is_numeric


class Origin(NamedTuple):
    """Where the numbers of an array come from."""

    leaf: int | None
    """The number of the array among those of the first network; none if it is new."""
    places: np.ndarray
    """The places of its elements in that array, counted through it."""
    factor: float = 1.0
    """What they were multiplied by."""


@dataclasses.dataclass(frozen=True)
class Member:
    """A network, and what is known of each of its arrays, in their order."""

    network: PyTree
    nonzero: tuple[np.ndarray, ...]
    """Which elements are not certainly zero."""
    origins: tuple[Origin, ...]

    @classmethod
    def start(cls, network: PyTree, nonzero: Sequence[np.ndarray]) -> "Member":
        """A network as it came."""
        origins = [
            Origin(leaf, np.arange(mask.size).reshape(mask.shape))
            for leaf, mask in enumerate(nonzero)
        ]
        return cls(network, tuple(nonzero), tuple(origins))

    def changed(self, changes: Changes) -> "Member":
        """The network after these changes of its arrays."""
        leaves = [changes.apply(leaf, a) for leaf, a in enumerate(arrays_of(self.network))]
        nonzero = list(self.nonzero)
        for leaf, mask in changes.zeroed.items():
            nonzero[leaf] = nonzero[leaf] & ~mask
        for leaf, values in changes.added.items():
            nonzero[leaf] = nonzero[leaf] | (values != 0)
        return dataclasses.replace(
            self, network=with_arrays(self.network, leaves), nonzero=tuple(nonzero)
        )

    def moved(self, network: PyTree, move: Callable[[int, np.ndarray], Any]) -> "Member":
        """Another network whose arrays are what is left of these; `None` where one is gone."""
        left = [
            (move(leaf, mask), origin._replace(places=move(leaf, origin.places)))
            for leaf, (mask, origin) in enumerate(zip(self.nonzero, self.origins, strict=True))
        ]
        left = [(mask, origin) for mask, origin in left if mask is not None]
        nonzero, origins = zip(*left, strict=True)
        return Member(network, nonzero, origins)

    def ordered(self, orders: Mapping[int, np.ndarray]) -> "Member":
        """The network with the elements of these arrays in another order."""
        arrays = arrays_of(self.network)
        for leaf, order in orders.items():
            arrays[leaf] = arrays[leaf].reshape(-1)[order]

        def move(leaf: int, values: np.ndarray) -> np.ndarray:
            return values.reshape(-1)[orders[leaf]] if leaf in orders else values

        return self.moved(with_arrays(self.network, arrays), move)

    def scaled(self, factors: Mapping[int, float]) -> "Member":
        """The network with these arrays multiplied."""
        leaves, origins = arrays_of(self.network), list(self.origins)
        for leaf, factor in factors.items():
            leaves[leaf] = leaves[leaf] * jnp.asarray(factor, leaves[leaf].dtype)
            origins[leaf] = origins[leaf]._replace(factor=origins[leaf].factor * factor)
        network = with_arrays(self.network, leaves)
        return dataclasses.replace(self, network=network, origins=tuple(origins))

    def with_more(self, network: PyTree) -> "Member":
        """Another network that has these arrays, and more."""
        old = {path: known for path, *known in zip(
            paths_of(self.network), self.nonzero, self.origins, strict=True
        )}  # fmt: skip
        known = []
        for path, array in zip(paths_of(network), arrays_of(network), strict=True):
            new = np.asarray(array) != 0, Origin(None, np.zeros(array.shape, int))
            known.append(old.get(path, new))
        nonzero, origins = zip(*known, strict=True)
        return Member(network, nonzero, origins)

    def with_fewer(self, network: PyTree) -> "Member":
        """Another network that has some of these arrays."""
        left = set(paths_of(network))
        known = [
            each
            for path, *each in zip(paths_of(self.network), self.nonzero, self.origins, strict=True)
            if path in left
        ]
        nonzero, origins = zip(*known, strict=True)
        return Member(network, nonzero, origins)


def arrays_of(network: PyTree) -> list[Any]:
    """The arrays of a network, in the order of its trace."""
    return jax.tree.leaves(eqx.filter(network, eqx.is_array))


def paths_of(network: PyTree) -> list[tuple[Any, ...]]:
    """The paths of these arrays, as `jax.tree_util` has them."""
    entries = jax.tree_util.tree_leaves_with_path(eqx.filter(network, eqx.is_array))
    return [tuple(path) for path, _ in entries]


def with_arrays(network: PyTree, arrays: Sequence[Any]) -> PyTree:
    """The network with these arrays in place of its own."""
    old, static = eqx.partition(network, eqx.is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(old), arrays), static)


def take(values: Any, masks: Sequence[np.ndarray]) -> Any:
    """The places of an array that stay, axis by axis."""
    if all(mask.all() for mask in masks):
        return values
    if not is_numeric(values):
        return values[np.ix_(*masks)]
    taken = np.asarray(values)[np.ix_(*masks)]
    return taken if isinstance(values, np.ndarray) else jnp.asarray(taken)
