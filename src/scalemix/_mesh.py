"""Which devices a run uses, and how its arrays lie on them.

A mesh has two axes. Along `members` lie things that have nothing to say to one another: splits,
seeds, candidates, members of ensembles, chains. Each device runs its own of them by itself
(`jax.shard_map`), and each process programs of its own. Along `data` lie the rows of a batch, whose
sums XLA adds up over devices, and over processes if a row of the mesh has several.

Random numbers come from keys, one for each member, so that they are the same wherever it runs.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from scalemix._types import PyTree

MEMBERS, DATA = "members", "data"
WHOLE = PartitionSpec()


def check_mesh(mesh: Any) -> Mesh | None:
    """The mesh with both axes, by default of all local devices along members; or a `ValueError`.

    `None` stands for JAX's default device, where nothing is spread out.
    """
    if mesh is None:
        devices = jax.local_devices()
        # Whoever names a default device wants that one.
        settings: Any = jax.config
        if len(devices) == 1 or settings.jax_default_device is not None:
            return None
        return mesh_over(np.array(devices))
    if not isinstance(mesh, Mesh):
        raise ValueError(
            f"mesh must be a jax.sharding.Mesh, such as jax.make_mesh((2, 2), ('members', "
            f"'data')); got {mesh!r}."
        )
    if not mesh.axis_names or not {*mesh.axis_names} <= {MEMBERS, DATA}:
        raise ValueError(
            f"The axes of mesh must be 'members', 'data' or both, got {mesh.axis_names}: members "
            f"are spread over the first, the rows of a batch over the second."
        )
    devices = mesh.devices
    mine = jax.process_index()
    if all(device.process_index != mine for device in devices.flat):
        raise ValueError("mesh has no device of this process: each process needs one in it.")
    if mesh.axis_names == (DATA, MEMBERS):
        devices = devices.T
    return mesh_over(devices.reshape((1, -1) if mesh.axis_names == (DATA,) else (len(devices), -1)))


def mesh_of(num_devices: int | None) -> Mesh | None:
    """So many local devices along members; `ValueError` if there are fewer.

    `None` stands for all of them, as it does in `check_mesh`.
    """
    devices = jax.local_devices()
    if num_devices is None:
        return None
    if num_devices > len(devices):
        # Processors have to be divided before JAX starts.
        remedy = ""
        if devices[0].platform == "cpu":
            remedy = f" JAX_NUM_CPU_DEVICES={num_devices} in the environment makes that many of it."
        there = "is only 1" if len(devices) == 1 else f"are only {len(devices)}"
        raise ValueError(f"there {there} here ({devices[0].device_kind}).{remedy}")
    return Mesh(np.array(devices[:num_devices]), (MEMBERS,))


def mesh_over(devices: np.ndarray) -> Mesh | None:
    """These devices, (members, data), as a mesh; `None` for the default device alone."""
    if devices.size == 1 and devices.flat[0] == default_device():
        return None
    # XLA decides what lies along `data`: `jax.make_mesh` would have types say so.
    return Mesh(devices.reshape(len(devices), -1), (MEMBERS, DATA))


def default_device() -> Any:
    """Where arrays go unless told otherwise."""
    return next(iter(jax.device_put(np.zeros(())).devices()))


def put(mesh: Mesh | None, tree: PyTree, spec: PartitionSpec = WHOLE) -> PyTree:
    """Arrays on the devices of a mesh. Each process has them whole, and gives its devices parts."""
    if mesh is None:
        return jax.device_put(tree)
    sharding = NamedSharding(mesh, spec)
    if not mesh.is_multi_process:
        return jax.device_put(tree, sharding)

    def put_parts(leaf: Any) -> Array:
        if is_key(leaf):
            words = put_parts(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    return jax.tree.map(put_parts, tree)


def own_places(mesh: Mesh) -> np.ndarray:
    """The places along members that this process runs, by itself or with others along `data`.

    Between these and the other places of the mesh nothing is sent.
    """
    processes = [{device.process_index for device in row} for row in mesh.devices]
    together = {jax.process_index()}
    while True:
        own = [place for place, row in enumerate(processes) if row & together]
        grown = together.union(*(processes[place] for place in own))
        if grown == together:
            return np.array(own)
        together = grown


def to_host(mesh: Mesh | None, tree: PyTree) -> PyTree:
    """Arrays of the host, whole in each process."""
    if mesh is not None and mesh.is_multi_process:
        # Each process has a part of them only.
        tree = _everywhere(mesh)(tree)
    return jax.tree.map(np.asarray, tree)


def exchange(mesh: Mesh, own: np.ndarray, tree: PyTree, axis: int) -> PyTree:
    """Arrays of the host with the members of all places, of those that each process has.

    `own` are its places along members, each with the same number of members along `axis`.
    """
    along = mesh.shape[MEMBERS]
    if len(own) == along:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    # In their own order in memory: else bytes cannot be told from numbers.
    first = [np.ascontiguousarray(np.moveaxis(leaf, axis, 0)) for leaf in leaves]
    rows = [leaf.reshape(len(own), leaf.size // len(own)).view(np.uint8) for leaf in first]
    # All at once, as bytes: each array that is sent by itself costs a round of messages.
    sent = np.concatenate(rows, axis=1)

    def share(index: Any) -> np.ndarray:
        return sent[np.searchsorted(own, np.arange(along)[index[0]])]

    sharding = NamedSharding(mesh, spec(0))
    placed = jax.make_array_from_callback((along, sent.shape[1]), sharding, share)
    ends = np.cumsum([row.shape[1] for row in rows])
    parts = np.split(np.asarray(_everywhere(mesh)(placed)), ends[:-1], axis=1)

    def restored(part: np.ndarray, like: np.ndarray) -> np.ndarray:
        values = np.ascontiguousarray(part).view(like.dtype)
        num = along * (len(like) // len(own))
        return np.moveaxis(values.reshape(num, *like.shape[1:]), 0, axis)

    return structure.unflatten(map(restored, parts, first))


@functools.cache
def connect(mesh: Mesh | None) -> None:
    """Have the processes of a mesh find one another, once, along rows as along members.

    They would when they first send anything, and Gloo waits for half a minute then. By that time
    one may be ahead of another that compiles for longer. At the start, all are about as far.
    """
    if mesh is None or not mesh.is_multi_process:
        return
    nothing = put(mesh, np.zeros(mesh.devices.shape, np.float32), PartitionSpec(MEMBERS, DATA))
    sums = jax.jit(lambda places: places.sum(1), out_shardings=NamedSharding(mesh, spec(0)))
    jax.block_until_ready(_everywhere(mesh)(sums(nothing)))


@functools.cache
def _everywhere(mesh: Mesh) -> Callable[[PyTree], PyTree]:
    """The program that brings all parts of arrays to all devices."""
    return jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, WHOLE))


def over_members(
    function: Callable[..., PyTree], mesh: Mesh | None, in_axes: Sequence[int | None], out_axis: int
) -> Callable[..., PyTree]:
    """The function on each device's members alone, which is the function itself on one device.

    `in_axes` are the axes of each argument's arrays along which members lie; `None` stands for
    arrays that every device has whole. Along `data` the function means what it says: rows may be
    spread (see `over_rows`), and sums are over all of them.
    """
    if mesh is None:
        return function
    # Were both axes named, arrays would carry the mesh in their types, and Equinox's states compare
    # types.
    return jax.shard_map(
        function, mesh=mesh, in_specs=tuple(map(spec, in_axes)), out_specs=spec(out_axis),
        axis_names={MEMBERS}, check_vma=False,
    )  # fmt: skip


def over_rows(mesh: Mesh | None, batch: PyTree) -> PyTree:
    """The batch of one member, its rows spread over the devices along `data`."""
    if mesh is None or mesh.shape[DATA] == 1:
        return batch
    return jax.lax.with_sharding_constraint(batch, PartitionSpec(DATA))


def spec(axis: int | None, rows_axis: int | None = None) -> PartitionSpec:
    """Members along one axis of an array, and rows of batches along another."""
    places = {
        place: name for place, name in ((rows_axis, DATA), (axis, MEMBERS)) if place is not None
    }
    return PartitionSpec(*[places.get(i) for i in range(max(places, default=-1) + 1)])


def is_key(leaf: Any) -> bool:
    """Whether it is an array of PRNG keys, which NumPy does not hold."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
