"""The members of a run in groups of a few, on a processor.

XLA runs the steps of small networks on one core, and many side by side no faster than a few at a
time. So the programs of training and of chains are those of a few members, however many there are:
trials of settings and the final ensemble share them. And the groups run at the same time, each on a
core: there are as many of them as keep all cores busy. Each device of a mesh has as many of every
group.

Graphics processors want as many members at once as there are, and have one group. So have members
whose rows are spread over devices: these wait for one another, and had better do so once for all.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh

from scalemix._mesh import DATA, MEMBERS, default_device, is_key, put, spec
from scalemix._types import PyTree
from scalemix.inference.layout import Layout

# Members of a group, where other numbers are not a good deal quicker, and the most there may be.
GROUP_SIZE, LARGEST = 4, 8
QUICKER = 0.9
# What a step of a group takes besides its members, as a part of what one of them takes: a fifth to
# a quarter for networks of one or two hidden layers of 50 (benchmarks/group_sizes.py).
OVERHEAD = 0.25


def group_size(work: int, cores: int) -> int:
    """How many of so many members form a group, so that the last one ends soonest.

    Each core runs one group after the other. Groups are of one size.
    """

    def ends(size: int) -> float:
        return -(-work // size // cores) * (size + OVERHEAD)

    sizes = [size for size in range(1, LARGEST + 1) if work % size == 0]
    best = min(sizes, key=ends)
    usual = GROUP_SIZE in sizes and ends(best) > QUICKER * ends(GROUP_SIZE)
    return GROUP_SIZE if usual else best


@dataclasses.dataclass(frozen=True)
class Groups:
    """The groups of members that lie along an axis of arrays: all of one size."""

    num: int
    size: int
    """The members of a group on each device."""
    axis: int = 0
    mesh: Mesh | None = None
    """The devices of this process; `None` for the default one."""

    @staticmethod
    def of(layout: Layout) -> "Groups":
        """The groups of the members of a layout that this process has."""
        mesh, work = layout.mesh, layout.work
        device = default_device() if mesh is None else mesh.devices.flat[0]
        alone = mesh is None or mesh.shape[DATA] == 1
        if not (alone and device.platform == "cpu"):
            return Groups(1, work, layout.axis, mesh)
        size = group_size(work, _cores_of_each(mesh))
        return Groups(work // size, size, layout.axis, mesh)

    @property
    def num_devices(self) -> int:
        """Over how many devices each group is spread."""
        return 1 if self.mesh is None else self.mesh.shape[MEMBERS]

    @property
    def num_at_once(self) -> int:
        """How many groups run at the same time, so that each has a core to itself."""
        return min(self.num, _cores_of_each(self.mesh))

    @property
    def most_of_a_core(self) -> int:
        """How many members a core runs, one group after the other, that has the most of them."""
        return -(-self.num // self.num_at_once) * self.size

    def split(self, tree: PyTree) -> list[PyTree]:
        """The entries of each group, of arrays or shapes with an axis of members."""
        if self.num == 1:
            return [tree]
        plain = _without_keys(tree)
        parts = self._on_devices(
            [
                jax.tree.map(lambda leaf, i=number: self._part(leaf, i), plain)
                for number in range(self.num)
            ]
        )
        return [_with_keys(tree, part) for part in parts]

    def join(self, parts: Sequence[PyTree]) -> PyTree:
        """What `split` would take apart again."""
        if self.num == 1:
            return parts[0]
        plain = [_without_keys(part) for part in parts]
        whole = self._on_devices(jax.tree.map(lambda *leaves: self._whole(leaves), *plain))
        return _with_keys(parts[0], whole)

    def run(self, program: Any, arguments: Sequence[tuple[Any, ...]]) -> PyTree:
        """What a function of `eqx.filter_jit` makes of the arguments of each group, together."""
        return self.join(self.run_apart(program, arguments))

    def run_apart(self, program: Any, arguments: Sequence[tuple[Any, ...]]) -> list[PyTree]:
        """The same, group by group."""
        if self.num == 1:
            return [program(*arguments[0])]
        # Compiled here: settings of JAX such as `jax.enable_x64` are those of this thread alone.
        executable = program.lower(*arguments[0]).compile()

        def run_one(given: tuple[Any, ...]) -> PyTree:
            return jax.block_until_ready(executable(*given))

        # On Ctrl-C the threads end what they are at before anything else happens.
        with ThreadPoolExecutor(self.num_at_once) as pool:
            return list(pool.map(run_one, arguments))

    @contextlib.contextmanager
    def compiling(self, program: Any, arguments: tuple[Any, ...]) -> Iterator[None]:
        """While the body runs, another thread compiles a function that `run` will be given later.

        `arguments` are those of one group, of the right shapes. Over several devices nothing is
        compiled ahead, for there a program depends on where its arguments lie as well.
        """
        if self.mesh is not None:
            yield
            return
        # Traced here, under the settings of this thread. What fails will fail again in `run`.
        lowered = program.lower(*arguments)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lowered.compile)
            yield

    def shapes(self, program: Any, arguments: Sequence[tuple[Any, ...]]) -> PyTree:
        """The shapes of what `run` gives, without running anything."""
        return self.join([eqx.filter_eval_shape(program, *given) for given in arguments])

    def _part(self, leaf: Any, number: int) -> Any:
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return self._shape(leaf, self.size)
        # By NumPy, for which no program has to be compiled.
        by_device = self._by_device(leaf, self.num * self.size)
        first = number * self.size
        place = (slice(None),) * (self.axis + 1) + (slice(first, first + self.size),)
        return self._together(by_device[place])

    def _whole(self, leaves: Sequence[Any]) -> Any:
        if isinstance(leaves[0], jax.ShapeDtypeStruct):
            return self._shape(leaves[0], self.size * self.num)
        by_device = [self._by_device(leaf, self.size) for leaf in leaves]
        return self._together(np.concatenate(by_device, self.axis + 1))

    def _by_device(self, leaf: Any, work: int) -> np.ndarray:
        """The array with an axis of devices before that of the members, so many on each."""
        shape = np.shape(leaf)
        before, after = shape[: self.axis], shape[self.axis + 1 :]
        return np.asarray(leaf).reshape(*before, self.num_devices, work, *after)

    def _together(self, by_device: np.ndarray) -> np.ndarray:
        """The array without the axis of devices."""
        shape, axis = by_device.shape, self.axis
        together = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        return by_device.reshape(together)

    def _on_devices(self, tree: PyTree) -> PyTree:
        """Arrays of the host on the devices, all at once: one by one, they would take longer."""
        leaves, structure = jax.tree.flatten(tree)
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        placed = iter(put(self.mesh, arrays, spec(self.axis)))
        return structure.unflatten(
            next(placed) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves
        )

    def _shape(self, leaf: jax.ShapeDtypeStruct, work: int) -> jax.ShapeDtypeStruct:
        before, after = leaf.shape[: self.axis], leaf.shape[self.axis + 1 :]
        return jax.ShapeDtypeStruct((*before, self.num_devices * work, *after), leaf.dtype)


def _without_keys(tree: PyTree) -> PyTree:
    """The tree with the words of keys in their place, which NumPy can hold."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if is_key(leaf) else leaf, tree)


def _with_keys(like: PyTree, plain: PyTree) -> PyTree:
    """A tree of words, with keys where this one has them."""

    def as_in(one: Any, leaf: Any) -> Any:
        if not is_key(one):
            return leaf
        return jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(one))

    return jax.tree.map(as_in, like, plain)


def _cores_of_each(mesh: Mesh | None) -> int:
    """How many cores of this process there are for each of its devices.

    Other processes on the same cores do not count: XLA spreads the only program of a process over
    all cores that it may use, which costs more than several programs that share them.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, cores // (1 if mesh is None else mesh.shape[MEMBERS]))
