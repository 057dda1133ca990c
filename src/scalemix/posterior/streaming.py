"""Outputs of many draws at many rows, block by block, so that memory is bounded."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from scalemix._mesh import DATA, MEMBERS, WHOLE, check_mesh, put, to_host
from scalemix._text import shortened
from scalemix._types import PyTree
from scalemix.data.rows import Inputs, num_rows
from scalemix.posterior.draws import AnyDraws, MadeDraws
from scalemix.posterior.noise_levels import KnownNoise, with_levels
from scalemix.posterior.statistics import DrawnLikelihoods

# Outputs held at a time, as a count of numbers: 32 MB in float32.
OUTPUTS_AT_A_TIME = 8 * 1024**2
ROWS_AT_A_TIME = 8192
# Up to how many rows go in blocks of which size, where draws are made already. A few sizes are few
# programs, whatever numbers of rows there are.
BLOCKS = {8: 8, 512: 64, 8192: 1024}
# Where draws are made for each block anew, there is one, of a power of two and no less than this.
LEAST_ROWS = 64
# Up to so many rows of a larger block are worth a program of their own.
FEW_ROWS = 1024
# Draws go through the network side by side until they make up this many rows.
ROWS_TOGETHER = 2048
# Fewer rows are not worth one more device, to which all networks have to be copied.
ROWS_A_DEVICE = 1024
# Rows over all devices.
BY_ROW = PartitionSpec((MEMBERS, DATA))


def stream(
    statistic: Callable[..., Any],
    draws: AnyDraws,
    num_outputs: int,
    x: Inputs,
    *by_row: np.ndarray,
    mesh: Mesh | None = None,
    noise: KnownNoise | None = None,
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """A statistic of all draws' outputs at each row, in double precision, and which rows are lost.

    What the statistic is where an output overflowed, means nothing.

    `by_row` are further arguments of the statistic, with one entry for each row. On several devices
    draws are spread along `members`, and rows along `data`. Where `noise` is given, rows outside
    have no less of it than the nearest point inside.
    """
    total = num_rows(x)
    each = 1 if mesh is None else mesh.size
    cap = each * OUTPUTS_AT_A_TIME // (draws.num * num_outputs)
    most = min(cap, each * ROWS_AT_A_TIME)
    block = max(1, min(most, _block(total, made=isinstance(draws, MadeDraws))))
    block = each * -(-block // each)
    results, all_lost = [], []
    if mesh is not None:
        draws, statistic = _on_each(mesh, (draws, statistic))

    def draw(x: Inputs) -> tuple[DrawnLikelihoods, Array, Array]:
        x = x if mesh is None else put(mesh, x, PartitionSpec(DATA))
        return draw_outputs(draws, num_outputs, x, mesh)

    for start in range(0, max(total, 1), block):
        rows = slice(start, start + block)
        fill = block - min(block, total - start)
        # All blocks have one shape: the last is filled up and cut again.
        inputs, *beside = jax.tree.map(
            lambda a, rows=rows, fill=fill: _filled(a[rows], fill), (x, *by_row)
        )
        if mesh is not None:
            beside = put(mesh, beside, BY_ROW)
        likelihoods, outputs, lost = draw(inputs)
        if noise is not None:
            outside, inside = noise.nearest(inputs)
            if len(outside):
                # As many rows as some program takes that there is already, or will be.
                few = each * FEW_ROWS
                more = (few if len(outside) <= few < block else block) - len(outside)
                outside, inside = _filled(outside, more), _filled(inside, more)
                outputs = with_levels(outputs, outside, draw(inside)[1], noise.places)
        all_lost.append(to_host(mesh, lost)[: block - fill])
        values = to_host(mesh, _summarise(statistic, likelihoods, outputs, *beside, mesh=mesh))
        # Double precision from here on, where targets are shifted back to their own units.
        results.append([_widen(value[: block - fill]) for value in values])
    values = tuple(np.concatenate(blocks) for blocks in zip(*results, strict=True))
    return values, np.concatenate(all_lost)


def _block(num: int, *, made: bool) -> int:
    """How many of so many rows go together, unless that is more than memory is there for."""
    if not made:
        return max(LEAST_ROWS, 1 << max(num - 1, 0).bit_length())
    return next((block for most, block in BLOCKS.items() if num <= most), ROWS_AT_A_TIME)


def _filled(rows: np.ndarray, num: int) -> np.ndarray:
    """The rows, and so many more like the last.

    A search takes as long as that of the row for which it takes longest. So these are like a row
    that there is: a quantile of the level zero, for example, would be looked for without end.
    """
    more = rows[-1:] if len(rows) else np.zeros((1, *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, np.repeat(more, num, axis=0)])


def devices_for(num_rows: int) -> Mesh | None:
    """The local devices that a prediction of so many rows is spread over."""
    most = max(1, min(jax.local_device_count(), num_rows // ROWS_A_DEVICE))
    mesh = check_mesh(None)
    if mesh is None or most == 1:
        return None
    return Mesh(mesh.devices[:most].T, mesh.axis_names)


def _on_each(mesh: Mesh, tree: PyTree) -> PyTree:
    """The tree with its arrays on every device."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(put(mesh, arrays), rest)


def any_by_row(flags: np.ndarray) -> np.ndarray:
    """For each row, whether any of its flags is set."""
    return np.asarray(flags.any(axis=tuple(range(1, flags.ndim))))


def too_far(what: str, is_far: np.ndarray, given: str = "") -> str:
    """What to say of rows at which a number overflows, and what is `given` in its place."""
    rows = np.flatnonzero(is_far)
    one = len(rows) == 1
    return (
        f"The {what} at {'row' if one else 'rows'} {shortened(map(str, rows), 5)} of x is beyond "
        f"what single precision holds{given and f' and given as {given}'}: "
        f"{'the row lies' if one else 'the rows lie'} too far from all that the network was "
        f"trained on. Look at the units of {'its' if one else 'their'} inputs, or remove "
        f"{'it' if one else 'them'}."
    )


def refuse_lost(lost: np.ndarray) -> None:
    """Raise `ValueError` if an output of any row overflowed."""
    if lost.any():
        raise ValueError(too_far("network's output", lost))


def _lost(outputs: Array) -> Array:
    """For each row, whether an output is not finite, or its square would not be."""
    return jnp.any(~(jnp.abs(outputs) <= jnp.sqrt(jnp.finfo(outputs.dtype).max)), axis=(0, 2))


def _widen(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if jnp.issubdtype(values.dtype, jnp.floating) else values


# Two programs and not one: that of the networks takes long to compile, and serves all statistics.


@eqx.filter_jit
def draw_outputs(
    draws: AnyDraws, num_outputs: int, x: Any, mesh: Mesh | None = None
) -> tuple[DrawnLikelihoods, Array, Array]:
    """The likelihoods of all draws, their outputs `(draws, rows, num_outputs)`, and lost rows.

    A row is lost where an output overflows. The draws are the same for every block of rows.
    """
    arrays, static = eqx.partition(draws, eqx.is_array)
    entries, rest = eqx.partition(draws.entries(), eqx.is_array)
    # What is no array in the likelihood is the same for all draws, and known once one is traced.
    fixed: list[Any] = []

    def draw(arrays: Any, entries: Any, x: Any) -> tuple[Array, Any]:
        draws = eqx.combine(arrays, static)

        def outputs_of(entry: Any) -> tuple[Array, Any]:
            network, likelihood = draws.one(eqx.combine(entry, rest))
            outputs = jax.vmap(network)(x).reshape(num_rows(x), num_outputs)
            varying, others = eqx.partition(likelihood, eqx.is_array)
            fixed.append(others)
            return outputs, varying

        together = _group(num_rows(entries), max(1, ROWS_TOGETHER // max(num_rows(x), 1)))
        return jax.lax.map(outputs_of, entries, batch_size=together)

    if mesh is None:
        outputs, varying = draw(arrays, entries, x)
    else:
        # Each device has as many draws: the last is repeated, and cut again.
        along = mesh.shape[MEMBERS]
        which = np.minimum(np.arange(along * -(-draws.num // along)), draws.num - 1)
        outputs, varying = jax.shard_map(
            draw, mesh=mesh, in_specs=(WHOLE, PartitionSpec(MEMBERS), PartitionSpec(DATA)),
            out_specs=(PartitionSpec(MEMBERS, DATA), PartitionSpec(MEMBERS)), check_vma=False,
        )(arrays, jax.tree.map(lambda leaf: leaf[which], entries), x)  # fmt: skip
        outputs, varying = jax.tree.map(lambda leaf: leaf[: draws.num], (outputs, varying))
    return DrawnLikelihoods(varying, fixed[0]), outputs, _lost(outputs)


def _group(num_draws: int, most: int) -> int:
    """How many draws go together: a remainder, if there is one, is compiled a second time."""
    most = min(num_draws, most)
    whole = next(size for size in range(most, 0, -1) if num_draws % size == 0)
    return whole if 2 * whole >= most else most


@eqx.filter_jit
def _summarise(
    statistic: Callable[..., Any],
    draws: DrawnLikelihoods,
    outputs: Array,
    *by_row: Any,
    mesh: Mesh | None = None,
) -> Any:
    """The statistic at each row of a block."""
    arrays, static = eqx.partition((statistic, draws), eqx.is_array)

    def summarise(arrays: Any, outputs: Array, *by_row: Any) -> Any:
        statistic, draws = eqx.combine(arrays, static)
        return jax.vmap(
            lambda out, *rest: statistic(draws, out, *rest), in_axes=(1, *[0] * len(by_row))
        )(outputs, *by_row)

    if mesh is not None:
        # All draws of a row come together on one device.
        specs = (WHOLE, PartitionSpec(None, *BY_ROW), *[BY_ROW] * len(by_row))
        summarise = jax.shard_map(
            summarise, mesh=mesh, in_specs=specs, out_specs=BY_ROW, check_vma=False
        )
    return summarise(arrays, outputs, *by_row)
