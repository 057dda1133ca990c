"""The loop of Markov chains: many chains of many fits, chunk by chunk."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PRNGKeyArray

from scalemix._mesh import over_members, over_rows
from scalemix._random import noise_keys, split_all, split_each
from scalemix._types import PyTree
from scalemix.data.batches import Data
from scalemix.inference.chains.chain import Chain
from scalemix.inference.chains.sampler import Transition
from scalemix.inference.driver import Control, Run, drive
from scalemix.inference.fingerprints import fingerprint
from scalemix.inference.groups import Groups
from scalemix.inference.layout import Layout
from scalemix.inference.side_by_side import SideBySide
from scalemix.inference.training.engine import DivergenceError


class ChainsMemory(NamedTuple):
    """All that chains carry from chunk to chunk, and so all that a checkpoint holds.

    Arrays have the leading axes (fits, chains). They are filled in place; nothing counts beyond
    `done` steps. The order of the fields is the order of the arrays in a checkpoint.
    """

    done: np.ndarray
    state: PyTree
    positions: np.ndarray
    """(fits, chains, samples, unknowns)"""
    bits: np.ndarray
    """(fits, chains, samples, inclusion variables)"""
    transitions: Transition
    """(fits, chains, steps), those of the warm-up included."""


def run(
    method: Chain,
    models: PyTree,
    data: Data,
    num_rows: np.ndarray,
    keys: PRNGKeyArray,
    control: Control,
    find_starts: Callable[[], PyTree] | None = None,
) -> ChainsMemory:
    """Run the chains of models stacked on a leading axis, each with the data set of its place.

    `find_starts` gives models with two leading axes, fits and chains, whose values the chains begin
    with. A run that is resumed does not need them and does not ask.
    """
    layout = _layout(control.mesh, len(num_rows), method.num_chains)
    return drive(_ChainsRun(method, models, data, num_rows, keys, find_starts, layout), control)


def _layout(mesh: Mesh | None, num_fits: int, num_chains: int) -> Layout:
    """Fits spread over devices, or the chains of each: whichever leaves less to one device.

    On a single one, whichever leaves less to one of its cores.
    """
    fits, chains = Layout.over(mesh, num_fits, 0), Layout.over(mesh, num_chains, 1)

    def left_to_one(layout: Layout) -> int:
        work = Groups.of(layout).most_of_a_core if mesh is None else layout.work
        return work * (num_fits if layout.axis else num_chains)

    return min(fits, chains, key=left_to_one)


class _ChainsRun(Run[ChainsMemory]):
    """Chains as the driver sees them."""

    def __init__(
        self,
        method: Chain,
        models: PyTree,
        data: Data,
        num_rows: np.ndarray,
        keys: PRNGKeyArray,
        find_starts: Callable[[], PyTree] | None,
        layout: Layout,
    ):
        self.layout, self.groups = layout, Groups.of(layout)
        self.method, self.num_steps, self.chunk_steps = method, method.num_steps, method.chunk_steps
        self.stepping = method.stepping
        sets = np.arange(len(num_rows))
        arrays = [*jax.tree.leaves(data), num_rows, sets]
        self.identity = SideBySide(method, models), arrays, None, keys
        arrays, self.static = eqx.partition(models, eqx.is_array)
        # Where chains are spread, each device has all fits.
        place = layout.whole if layout.axis else layout.place
        self.arrays, self.data = place((arrays, data))
        self.find_starts = find_starts
        self.num_data = float(np.asarray(data.weight).sum(axis=1).mean())
        self.start_keys, self.step_keys = layout.place(_split_keys(keys, method.num_chains))

    def fingerprint(self) -> dict[str, str]:
        return fingerprint(*self.identity)

    def begin(self, resuming: bool) -> ChainsMemory:
        if resuming:
            state = self.groups.shapes(_init, self._start(None))
        else:
            starts = None if self.find_starts is None else self.find_starts()
            begins = self._start(starts)
            # The steps, which are compiled meanwhile, need to know how large the state is.
            blank = jax.tree.map(
                lambda leaf: np.zeros(leaf.shape, leaf.dtype), self.groups.shapes(_init, begins)
            )
            with self.groups.compiling(_run_chunk, self._steps(blank, 0, 0)[0]):
                state = self.groups.run(_init, begins)
            _check_starts(self.layout.cut(state.sampler.chain.logdensity))
        position, bits = state.sampler.chain.position, state.bits
        kept, leading = (self.method.num_samples,), self.layout.cut(position).shape[:2]

        def zeros(dtype) -> np.ndarray:
            return np.zeros((*leading, self.num_steps), dtype)

        real = position.dtype
        return ChainsMemory(
            done=np.zeros((), np.int64),
            state=state,
            positions=np.zeros(leading + kept + position.shape[2:], real),
            bits=np.zeros(leading + kept + bits.shape[2:], bool),
            transitions=Transition(
                zeros(real), zeros(real), zeros(real), zeros(bool), zeros(np.int32)
            ),
        )

    def _start(self, starts: PyTree | None) -> list[tuple]:
        """The arguments of `_init` for each group."""
        begun = None if starts is None else eqx.filter(starts, eqx.is_array)
        num_fits, num_chains = self.identity[1][0].shape[0], self.method.num_chains
        # One model for all chains: the first has its values as they are.
        first = np.arange(num_chains) == 0
        as_it_is = np.broadcast_to(first if starts is None else True, (num_fits, num_chains))
        begun, as_it_is = self.layout.place((begun, as_it_is))
        parts = self.groups.split((begun, self.start_keys, as_it_is))
        return [
            (
                self.layout.mesh, self.layout.axis, self.method, self.static, arrays, begun, data,
                keys, as_it_is,
            )
            for (arrays, data), (begun, keys, as_it_is) in zip(self._fits(), parts, strict=True)
        ]  # fmt: skip

    def _fits(self) -> list[tuple[PyTree, PyTree]]:
        """Models and data of each group, which chains of the same fits have in common."""
        fits = self.arrays, self.data
        return [fits] * self.groups.num if self.groups.axis else self.groups.split(fits)

    def saved(self, memory: ChainsMemory) -> ChainsMemory:
        return memory._replace(state=self.layout.cut(memory.state))

    def restored(self, saved: ChainsMemory) -> ChainsMemory:
        return saved._replace(state=self.layout.place(saved.state))

    def advance(self, memory: ChainsMemory) -> ChainsMemory:
        """The memory one chunk later. A chunk does not straddle the end of the warm-up."""
        method, done = self.method, int(memory.done)
        warming = done < method.num_warmup
        end = method.num_warmup if warming else method.num_steps
        count = min(method.chunk_length, end - done)
        state, *told = self.groups.run(_run_chunk, self._steps(memory.state, done, count))
        positions, bits, transitions = self.layout.cut(told)
        if not warming:
            first, num = (done - method.num_warmup) // method.thin, count // method.thin
            memory.positions[:, :, first : first + num] = np.asarray(positions)[:, :, :num]
            memory.bits[:, :, first : first + num] = np.asarray(bits)[:, :, :num]
        for kept, new in zip(memory.transitions, transitions, strict=True):
            kept[:, :, done : done + count] = np.asarray(new)[:, :, :count]
        return memory._replace(state=state, done=np.asarray(done + count))

    def _steps(self, state: PyTree, done: int, count: int) -> list[tuple]:
        """The arguments of `_run_chunk` for each group."""
        numbers = self.layout.whole((np.int32(done), np.int32(count)))
        parts = self.groups.split((state, self.step_keys))
        return [
            (
                self.layout.mesh, self.layout.axis, self.stepping, self.static, arrays, data, state,
                keys, *numbers,
            )
            for (arrays, data), (state, keys) in zip(self._fits(), parts, strict=True)
        ]  # fmt: skip

    def metrics(self, memory: ChainsMemory) -> dict[str, float]:
        done, steps = int(memory.done), memory.transitions
        recent = slice(max(0, done - self.chunk_steps), done)
        return {
            "acceptance": float(np.mean(steps.acceptance[..., recent])),
            "diverged": float(np.mean(steps.diverged[..., recent])),
        }

    def objective(self, memory: ChainsMemory) -> float:
        last = memory.transitions.log_density[..., int(memory.done) - 1]
        return float(last.mean() / self.num_data)


def _split_keys(keys: PRNGKeyArray, num_chains: int) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """For each chain of each fit, a key for its start and one for its steps."""
    start_keys, step_keys = split_each(keys, 2)
    of_starts, of_steps = (split_all(each, num_chains) for each in (start_keys, step_keys))
    # XLA takes longer to compile the default generator than what chains do with its numbers.
    return noise_keys(of_starts), noise_keys(of_steps)


def _axes(axis: int, num_of_fits: int, num_of_chains: int) -> list[int | None]:
    """Where members lie in arguments with an axis of fits, then in those with one of chains too."""
    return [None if axis else 0] * num_of_fits + [axis] * num_of_chains


@eqx.filter_jit
def _init(
    mesh: Mesh | None, axis: int, method: Chain, static: PyTree, arrays: PyTree,
    starts: PyTree | None, data: Data, keys: PRNGKeyArray, as_it_is: Array,
) -> PyTree:  # fmt: skip
    def chain(arrays: PyTree, data: Data, key: PRNGKeyArray, as_it_is: Array) -> PyTree:
        return method.init(eqx.combine(arrays, static), over_rows(mesh, data), key, as_it_is)

    def fits(arrays, data, starts, keys, as_it_is):
        of_chains = jax.vmap(chain, in_axes=(None if starts is None else 0, None, 0, 0))
        return jax.vmap(of_chains)(arrays if starts is None else starts, data, keys, as_it_is)

    spread = over_members(fits, mesh, _axes(axis, 2, 3), axis)
    return spread(arrays, data, starts, keys, as_it_is)


@eqx.filter_jit
def _run_chunk(
    mesh: Mesh | None, axis: int, method: Chain, static: PyTree, *arguments: PyTree
) -> tuple[PyTree, Array, Array, Transition]:
    """Steps of each chain. Every device has a loop of its own, and waits for no other."""
    steps = functools.partial(_steps, mesh, method, static)
    return over_members(steps, mesh, [*_axes(axis, 2, 2), None, None], axis)(*arguments)


def _steps(
    mesh: Mesh | None, method: Chain, static: PyTree, arrays: PyTree, data: Data, state: PyTree,
    keys: PRNGKeyArray, start: Array, count: Array,
) -> tuple[PyTree, Array, Array, Transition]:  # fmt: skip
    """`count` steps from `start` on. The count is data, so that every chunk is one program."""

    def fit(arrays, data, state, keys, index):
        model, data = eqx.combine(arrays, static), over_rows(mesh, data)

        def chain(state, key):
            return method.step(state, model, data, index, jax.random.fold_in(key, index))

        return jax.vmap(chain)(state, keys)

    def body(i: Array, carry):
        state, positions, bits, transitions = carry
        index = start + i
        state, transition = jax.vmap(fit, in_axes=(0, 0, 0, 0, None))(
            arrays, data, state, keys, index
        )
        # The last step of each slot stays: that is thinning.
        slot = i // method.thin
        positions = positions.at[:, :, slot].set(state.sampler.chain.position)
        bits = bits.at[:, :, slot].set(state.bits)
        transitions = jax.tree.map(
            lambda all, one: all.at[:, :, i].set(one), transitions, transition
        )
        return state, positions, bits, transitions

    length = method.chunk_length
    position, leading = state.sampler.chain.position, keys.shape
    slots = (*leading, length // method.thin)
    real = jnp.zeros((*leading, length), position.dtype)
    blank = Transition(real, real, real, real.astype(bool), real.astype(jnp.int32))
    carry = (
        state,
        jnp.zeros((*slots, position.shape[2]), position.dtype),
        jnp.zeros((*slots, state.bits.shape[2]), bool),
        blank,
    )
    return jax.lax.fori_loop(0, count, body, carry)


def _check_starts(log_density: Array) -> None:
    finite = np.isfinite(np.asarray(log_density))
    if not finite.all():
        which, chain = (int(i) for i in np.argwhere(~finite)[0])
        fit = f" of model {which}" if len(finite) > 1 else ""
        raise DivergenceError(
            f"The log density is not finite where chain {chain}{fit} starts. Try warm_start=True, "
            f"a smaller learning_rate, a smaller prior scale, or a higher noise floor."
        )
