"""How the members of a run lie on devices: its models, or its chains."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array

from scalemix._mesh import (
    DATA,
    MEMBERS,
    exchange,
    is_key,
    mesh_over,
    own_places,
    put,
    spec,
    to_host,
)
from scalemix._types import PyTree


@dataclasses.dataclass(frozen=True)
class Layout:
    """How arrays with an axis of members lie on the devices of a mesh.

    Members have nothing to say to one another. So each process has the arrays of its own members,
    and runs programs of its own on them; where it shares the rows of batches with other processes,
    together with these. Where members do not divide evenly, copies of the last one fill up.
    """

    full: Mesh | None
    """The devices of all processes; `None` for the default device."""
    num: int
    """How many members there are."""
    axis: int = 0
    """Along which axis of arrays they lie."""

    @staticmethod
    def over(mesh: Mesh | None, num: int, axis: int = 0) -> "Layout":
        """The layout of so many members on the devices of this mesh that they keep busy."""
        if mesh is None:
            return Layout(None, num, axis)
        # As many members on each device as there must be, and no device for copies alone. Every
        # process takes part in every exchange, whether it has a member or not.
        if mesh.is_multi_process:
            return Layout(mesh, num, axis)
        used = -(-num // -(-num // mesh.shape[MEMBERS]))
        return Layout(mesh_over(mesh.devices[:used]), num, axis)

    @functools.cached_property
    def own(self) -> np.ndarray:
        """The places of the mesh, along members, that this process runs."""
        return np.zeros(1, int) if self.full is None else own_places(self.full)

    @functools.cached_property
    def mesh(self) -> Mesh | None:
        """The devices of this process's programs; `None` for the default device."""
        return None if self.full is None else mesh_over(self.full.devices[self.own])

    @property
    def work(self) -> int:
        """How many members one device has, copies included."""
        return -(-self.num // (1 if self.full is None else self.full.shape[MEMBERS]))

    @property
    def members(self) -> np.ndarray:
        """The members of this process, in the order of its devices, copies included."""
        places = self.own[:, None] * self.work + np.arange(self.work)
        return np.minimum(places.reshape(-1), self.num - 1)

    # To devices

    def place(self, tree: PyTree) -> PyTree:
        """Arrays with members, each where its member runs."""
        if self.full is None:
            return jax.device_put(tree)
        which = self.members

        def fill(leaf: Any) -> Any:
            if is_key(leaf):
                words = fill(jax.random.key_data(leaf))
                return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
            return np.take(np.asarray(leaf), which, axis=self.axis)

        return put(self.mesh, jax.tree.map(fill, tree), spec(self.axis))

    def whole(self, tree: PyTree) -> PyTree:
        """Arrays that every device has whole."""
        return put(self.mesh, tree)

    def place_sets(
        self, sets: PyTree, which: np.ndarray, rows_axis: int | None = None
    ) -> tuple[PyTree, Array]:
        """Data sets, on a leading axis, each on the devices whose members read it.

        `which` says which of them each member reads. It comes back as a number among those that
        its device has. Along `rows_axis` they are spread over `data`, if that comes out even.
        """
        which, mesh = which.astype(np.int32), self.mesh
        if self.full is None:
            return jax.device_put((sets, which))
        by_device = which[self.members].reshape(len(self.own), -1)
        read = [np.unique(numbers) for numbers in by_device]
        most = max(map(len, read))
        held = np.concatenate([np.resize(numbers, most) for numbers in read])
        local = [np.searchsorted(*pair) for pair in zip(read, by_device, strict=True)]

        def place(leaf: np.ndarray) -> Array:
            if mesh is None:
                return jax.device_put(leaf[held])
            even = rows_axis is not None and leaf.shape[rows_axis] % mesh.shape[DATA] == 0
            sharding = NamedSharding(mesh, spec(0, rows_axis if even else None))
            shape = (len(held), *leaf.shape[1:])

            def share(index: Any) -> np.ndarray:
                return leaf[held[index[0]]][(slice(None), *index[1:])]

            return jax.make_array_from_callback(shape, sharding, share)

        places = put(mesh, np.concatenate(local).astype(np.int32), spec(0))
        return jax.tree.map(place, sets), places

    # And back

    def cut(self, tree: PyTree) -> PyTree:
        """All members' arrays of the host, or shapes, without the copies.

        On one device, the tree as it is.
        """
        if self.full is None:
            return tree
        if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(tree)):
            tree = exchange(self.full, self.own, to_host(self.mesh, tree), self.axis)
        return jax.tree.map(self._cut, tree)

    def _cut(self, leaf: Any) -> Any:
        shape = (*leaf.shape[: self.axis], self.num, *leaf.shape[self.axis + 1 :])
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(shape, leaf.dtype)
        return leaf[tuple(map(slice, shape))]

    def gather(self, tree: PyTree) -> PyTree:
        """All members' arrays on the default device, without the copies."""
        return tree if self.full is None else jax.device_put(self.cut(tree))
