"""The compiled loop of Markov chains: many chains of many fits, chunk by chunk.

As in the loop of the other engines, a step depends on the key and its number, not on where chunks
begin, so that a run that was cut off and resumed is the run that was not.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from scalemix.data.batches import Data
from scalemix.inference import checkpoint as checkpoints
from scalemix.inference.chains.mcmc import MCMC
from scalemix.inference.chains.sampler import Transition
from scalemix.inference.fingerprints import fingerprint
from scalemix.inference.training.engine import DivergenceError
from scalemix.inference.training.loop import Progress


class Chains(NamedTuple):
    """All that a run carries from chunk to chunk, and what it returns.

    Arrays have the leading axes (fits, chains). They are filled in place; nothing counts beyond
    `done` steps.
    """

    done: np.ndarray
    state: PyTree
    positions: np.ndarray
    """(fits, chains, samples, unknowns)"""
    bits: np.ndarray
    """(fits, chains, samples, inclusion variables)"""
    transitions: Transition
    """(fits, chains, steps), warm-up and all."""


def run(
    method: MCMC,
    models: PyTree,
    data: Data,
    num_rows: np.ndarray,
    keys: PRNGKeyArray,
    *,
    starts: PyTree | None = None,
    report: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
) -> Chains:
    """Run the chains of models stacked on a leading axis, each with the data set of its place.

    `starts` are models with two leading axes, fits and chains, whose values the chains begin with.
    """
    arrays, static = eqx.partition(models, eqx.is_array)
    prints, resuming = {}, False
    if checkpoint is not None:
        sets = np.arange(len(num_rows))
        prints = fingerprint((method, models), data, None, num_rows, sets, keys)
        resuming = checkpoints.can_resume(checkpoint, resume)
    data = jax.tree.map(jnp.asarray, data)
    start_keys, step_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    chain_keys = jax.vmap(lambda key: jax.random.split(key, method.num_chains))
    start_keys, step_keys = chain_keys(start_keys), chain_keys(step_keys)
    begin = eqx.filter_eval_shape if resuming else lambda f, *arguments: f(*arguments)
    begun = None if starts is None else eqx.filter(starts, eqx.is_array)
    memory = _blank(method, begin(_init, method, static, arrays, begun, data, start_keys))
    if resuming:
        assert checkpoint is not None
        memory = checkpoints.read(checkpoint, memory, prints)
    else:
        _check_starts(memory.state)
    num_data = float(np.asarray(data.weight).sum(axis=1).mean())
    try:
        while memory.done < method.num_steps:
            # An interrupt may come at any point: what a chunk brings is taken over all at once.
            memory = _advance(method, static, arrays, data, memory, step_keys)
            if report is not None:
                last = memory.transitions.log_density[..., memory.done - 1].mean() / num_data
                report(Progress(int(memory.done), method.num_steps, float(last)))
            num_chunks = -(-int(memory.done) // method.chunk_steps)
            ended = memory.done == method.num_steps
            if checkpoint is not None and (num_chunks % checkpoint_every == 0 or ended):
                checkpoints.write(checkpoint, memory, prints)
    except KeyboardInterrupt:
        if checkpoint is not None:
            checkpoints.write(checkpoint, memory, prints)
        raise
    return memory


def _blank(method: MCMC, state: PyTree) -> Chains:
    position, bits = state.sampler.chain.position, state.bits
    kept, stepped = (method.num_samples,), (method.num_steps,)
    leading = position.shape[:2]

    def zeros(dtype) -> np.ndarray:
        return np.zeros(leading + stepped, dtype)

    real = position.dtype
    return Chains(
        done=np.zeros((), np.int64),
        state=state,
        positions=np.zeros(leading + kept + position.shape[2:], real),
        bits=np.zeros(leading + kept + bits.shape[2:], bool),
        transitions=Transition(zeros(real), zeros(real), zeros(real), zeros(bool), zeros(np.int32)),
    )


def _advance(
    method: MCMC, static: PyTree, arrays: PyTree, data: Data, memory: Chains, keys: PRNGKeyArray
) -> Chains:
    """The memory one chunk later. A chunk does not straddle the end of the warm-up."""
    done, thin = int(memory.done), method.thin
    warming = done < method.num_warmup
    end = method.num_warmup if warming else method.num_steps
    count = min(_chunk_length(method), end - done)
    state, positions, bits, transitions = _run_chunk(
        method, static, arrays, data, memory.state, keys, jnp.int32(done), jnp.int32(count)
    )
    if not warming:
        first, num = (done - method.num_warmup) // thin, count // thin
        memory.positions[:, :, first : first + num] = np.asarray(positions)[:, :, :num]
        memory.bits[:, :, first : first + num] = np.asarray(bits)[:, :, :num]
    for kept, new in zip(memory.transitions, transitions, strict=True):
        kept[:, :, done : done + count] = np.asarray(new)[:, :, :count]
    return memory._replace(state=state, done=np.asarray(done + count))


def _chunk_length(method: MCMC) -> int:
    # A whole number of samples.
    return method.thin * max(1, method.chunk_steps // method.thin)


@eqx.filter_jit
def _init(
    method: MCMC, static: PyTree, arrays: PyTree, starts: PyTree | None, data: Data,
    keys: PRNGKeyArray,
) -> PyTree:  # fmt: skip
    def chain(arrays: PyTree, data: Data, key: PRNGKeyArray, as_it_is: Array) -> PyTree:
        return method.init(eqx.combine(arrays, static), data, key, as_it_is)

    chains = jax.vmap(chain, in_axes=(None if starts is None else 0, None, 0, 0))
    # One model for all chains: the first has its values as they are.
    as_it_is = (
        jnp.arange(method.num_chains) == 0 if starts is None else jnp.ones(keys.shape[1], bool)
    )
    return jax.vmap(chains, in_axes=(0, 0, 0, None))(
        arrays if starts is None else starts, data, keys, as_it_is
    )


@eqx.filter_jit
def _run_chunk(
    method: MCMC, static: PyTree, arrays: PyTree, data: Data, state: PyTree, keys: PRNGKeyArray,
    start: Array, count: Array,
) -> tuple[PyTree, Array, Array, Transition]:  # fmt: skip
    """`count` steps from `start` on. The count is data, so that every chunk is one program."""

    def fit(arrays, data, state, keys, index):
        model = eqx.combine(arrays, static)

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

    length = _chunk_length(method)
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


def _check_starts(state: PyTree) -> None:
    finite = np.isfinite(np.asarray(state.sampler.chain.logdensity))
    if not finite.all():
        which, chain = (int(i) for i in np.argwhere(~finite)[0])
        fit = f" of model {which}" if len(finite) > 1 else ""
        raise DivergenceError(
            f"The log density is not finite where chain {chain}{fit} starts. Try warm_start=True, "
            f"a smaller learning_rate, a smaller prior scale, or a higher noise floor."
        )
