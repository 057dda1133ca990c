"""The one compiled loop that all engines share.

Steps run on the device in chunks, many models side by side. Between chunks, and only there, Python
looks at the objective, keeps the best state, writes checkpoints and reports progress. What a step
does depends on the key, the step's number and the data: not on where chunks begin and end, so a
run that was cut off and resumed is the run that was not.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from scalemix._random import noise_key
from scalemix.data.batches import Data
from scalemix.inference import checkpoint as checkpoints
from scalemix.inference.fingerprints import fingerprint
from scalemix.inference.training import compiled
from scalemix.inference.training.engine import DivergenceError, Schedule
from scalemix.inference.training.scoring import weighted_mean


class Progress(NamedTuple):
    """What is reported after each chunk."""

    step: int
    num_steps: int
    objective: float


class Outcome(NamedTuple):
    """The last state, or the best one where data were held out, and the run's history."""

    state: PyTree
    objective: np.ndarray
    """(models, steps)"""
    log_likelihood: np.ndarray
    """(models, steps): the part of the objective that is about the data."""
    score: np.ndarray
    """(models, chunks); empty where nothing was held out."""
    recorded: dict[str, np.ndarray]
    """(models, chunks, ...): the last step of each chunk."""


def run(
    programs: tuple[PyTree, PyTree],
    data: Data,
    held_out: Data | None,
    num_rows: np.ndarray,
    sets: np.ndarray,
    schedule: Schedule,
    keys: PRNGKeyArray,
    *,
    report: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
) -> Outcome:
    """Run engines on models, both stacked on a leading axis, each pair with a key of its own.

    `data` and `held_out` are data sets stacked on a leading axis, with their numbers of rows;
    `sets` says which of them each model has. What an engine holds as plain values is the same for
    all models; what it holds as arrays may differ.
    """
    arrays, static = eqx.partition(programs, eqx.is_array)
    state = compiled.init(arrays, static, schedule.num_steps)
    num_models = len(sets)
    memory = _Memory(
        done=np.zeros((), np.int64),
        stopped=np.zeros((), bool),
        state=state,
        best=state,
        best_score=np.full(num_models, -np.inf),
        stale=np.zeros(num_models, int),
        objective=np.zeros((num_models, schedule.num_steps), np.float32),
        score=np.zeros((num_models, _num_chunks(schedule)), np.float32),
        recorded={},
        log_likelihood=np.full((num_models, schedule.num_steps), np.nan, np.float32),
    )
    chunks = _Chunks(arrays, static, data, num_rows, sets, schedule, keys)
    for name, shape, dtype in chunks.recorded_arrays(state):
        memory.recorded[name] = np.zeros((num_models, _num_chunks(schedule), *shape), dtype)
    prints = {}
    if checkpoint is not None:
        prints = fingerprint(programs, data, held_out, num_rows, sets, keys)
        if checkpoints.can_resume(checkpoint, resume):
            memory = checkpoints.read(checkpoint, memory, prints)
    try:
        while memory.done < schedule.num_steps and not memory.stopped:
            # An interrupt may come at any point: what a chunk brings is taken over all at once.
            memory = _advance(chunks, memory, held_out)
            num_done = _num_chunks(schedule, int(memory.done))
            if report is not None:
                last = float(memory.objective[:, memory.done - 1].mean())
                report(Progress(int(memory.done), schedule.num_steps, last))
            ended = memory.stopped or memory.done == schedule.num_steps
            if checkpoint is not None and (num_done % checkpoint_every == 0 or ended):
                checkpoints.write(checkpoint, memory, prints)
    except KeyboardInterrupt:
        if checkpoint is not None:
            checkpoints.write(checkpoint, memory, prints)
        raise
    num_done = _num_chunks(schedule, int(memory.done))
    return Outcome(
        state=memory.state if held_out is None else memory.best,
        objective=memory.objective[:, : memory.done],
        log_likelihood=memory.log_likelihood[:, : memory.done],
        score=memory.score[:, : num_done if held_out is not None else 0],
        recorded={name: value[:, :num_done] for name, value in memory.recorded.items()},
    )


class _Memory(NamedTuple):
    """All that a run carries from chunk to chunk, and so all that a checkpoint holds.

    The histories are filled in place, but nothing counts beyond `done` steps.
    """

    done: np.ndarray
    stopped: np.ndarray
    state: PyTree
    best: PyTree
    best_score: np.ndarray
    stale: np.ndarray
    objective: np.ndarray
    score: np.ndarray
    recorded: dict[str, np.ndarray]
    log_likelihood: np.ndarray
    """Not a number for the steps of a run that an earlier version began, which kept none."""


def _advance(chunks: "_Chunks", memory: _Memory, held_out: Data | None) -> _Memory:
    """The memory one chunk later."""
    schedule, done = chunks.schedule, int(memory.done)
    count = min(schedule.chunk_steps, schedule.num_steps - done)
    state, objective, log_likelihood, recorded = chunks.run(memory.state, done, count)
    if not (np.isfinite(objective).all() and compiled.all_finite(state)):
        raise DivergenceError(chunks.explain(memory.state, done, count))
    index = done // schedule.chunk_steps
    memory.objective[:, done : done + count] = objective
    memory.log_likelihood[:, done : done + count] = log_likelihood
    for name, value in recorded.items():
        memory.recorded[name][:, index] = value
    memory = memory._replace(state=state, done=np.asarray(done + count))
    if held_out is None:
        return memory
    score = chunks.score(state, held_out)
    memory.score[:, index] = score
    memory = _keep_best(memory, score, schedule.patience)
    return memory._replace(stopped=np.all(memory.stale >= schedule.patience))


def _keep_best(memory: _Memory, score: np.ndarray, patience: int) -> _Memory:
    # A model that has run out of patience keeps what it has while the others go on.
    better = (score > memory.best_score) & (memory.stale < patience)

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape((-1,) + (1,) * (jnp.ndim(new) - 1)), new, old)

    return memory._replace(
        best=jax.tree.map(choose, memory.state, memory.best),
        best_score=np.where(better, score, memory.best_score),
        stale=np.where(better, 0, memory.stale + 1),
    )


class _Chunks:
    """The compiled programs of one run, and the data they read."""

    def __init__(self, arrays, static, data, num_rows, sets, schedule, keys):
        self.arrays, self.static = arrays, static
        self.schedule = schedule
        self.sets_on_host = sets
        self.sets = jnp.asarray(sets, jnp.int32)
        self.rows_on_host = [int(num_rows[which]) for which in sets]
        # In double precision, or the mean weight would not be one where all weights are.
        num_data = data.weight.sum(axis=1, dtype=np.float64)
        size = schedule.batch_size
        totals = num_data if size is None else num_data * size / num_rows
        self.num_data, self.totals = (
            jnp.asarray(a[sets].astype(data.weight.dtype)) for a in (num_data, totals)
        )
        self.num_rows = jnp.asarray(num_rows[sets], jnp.int32)
        self.longest = data.weight.shape[1]
        order_keys, step_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        self.order_keys, self.step_keys = order_keys, jax.vmap(noise_key)(step_keys)
        self.data = data if schedule.stream else jax.tree.map(jnp.asarray, data)
        self.orders: tuple[list[int], Array] | None = None

    def run(
        self, state: PyTree, start: int, count: int
    ) -> tuple[PyTree, np.ndarray, np.ndarray, dict]:
        """So many steps from this one on."""
        data, rows = self._batches(start)
        state, *by_step, recorded = compiled.run_chunk(
            self.schedule, self.static, state, self.arrays, data, self.sets, rows,
            self.num_data, self.totals, self.step_keys, jnp.int32(start), jnp.int32(count),
        )  # fmt: skip
        objective, log_likelihood = (np.asarray(values)[:, :count] for values in by_step)
        return state, objective, log_likelihood, jax.tree.map(np.asarray, recorded)

    def _batches(self, start: int) -> tuple[Data, Array | None]:
        size, steps = self.schedule.batch_size, self.schedule.chunk_steps
        if size is None:
            return self.data, None
        epochs = [start * size // n for n in self.rows_on_host]
        if self.orders is None or self.orders[0] != epochs:
            reach = steps * size // min(self.rows_on_host) + 2
            first = jnp.asarray(epochs, jnp.int32)
            orders = compiled.visits_of(self.order_keys, self.num_rows, first, self.longest, reach)
            self.orders = epochs, orders
        places = jnp.asarray([start * size % n for n in self.rows_on_host], jnp.int32)
        rows = compiled.rows_of(self.orders[1], places, self.num_rows, steps, size)
        if not self.schedule.stream:
            return self.data, rows
        # Only the rows of this chunk go to the device.
        on_host = np.asarray(rows)
        pairs = list(zip(self.sets_on_host, on_host, strict=True))
        gathered = [np.stack([a[which][chosen] for which, chosen in pairs]) for a in self.data]
        return Data(*map(jnp.asarray, gathered)), None

    def score(self, state: PyTree, held_out: Data) -> np.ndarray:
        """The score of each model on its held-out data, always under the same noise."""
        held_out = jax.tree.map(jnp.asarray, held_out)
        values = compiled.log_probs(
            self.static, state, self.arrays, held_out, self.sets, self.step_keys
        )
        weights = held_out.weight[self.sets]
        return np.asarray(jax.vmap(weighted_mean)(values, weights), float)

    def recorded_arrays(self, state: PyTree) -> list[tuple[str, tuple[int, ...], Any]]:
        """Name, shape and type of what one model's step records."""
        data, rows = self._batches(0)
        *_, recorded = eqx.filter_eval_shape(
            compiled.run_chunk, self.schedule, self.static, state, self.arrays, data, self.sets,
            rows, self.num_data, self.totals, self.step_keys, jnp.int32(0), jnp.int32(0),
        )  # fmt: skip
        return [(name, leaf.shape[1:], leaf.dtype) for name, leaf in recorded.items()]

    def explain(self, state: PyTree, start: int, count: int) -> str:
        """Where and when a chunk went wrong, found by running it again step by step."""
        low, high = 0, count
        while high - low > 1:
            # Once non-finite, always non-finite: halve the steps that are known to be good.
            middle = (low + high) // 2
            trial, objective, *_ = self.run(state, start, middle)
            good = np.isfinite(objective).all() and compiled.all_finite(trial)
            low, high = (middle, high) if good else (low, middle)
        before = self.run(state, start, low)[0] if low else state
        after, objective, *_ = self.run(state, start, low + 1)
        found = []
        for when in (before, after):
            values = compiled.magnitudes(
                self.static, when, self.arrays, self.step_keys, start + low
            )
            for name, value in values.items():
                bad = np.flatnonzero(~np.isfinite(np.asarray(value)))
                if bad.size and not found:
                    found = [int(bad[0]), name]
        if found:
            which, site = found
            where = f"the values at {site!r} are no longer finite"
        else:
            which = int(np.flatnonzero(~np.isfinite(objective[:, -1]))[0])
            where = "the likelihood of the targets is no longer finite"
        model = f" of model {which}" if len(self.rows_on_host) > 1 else ""
        return (
            f"Training{model} diverged at step {start + low}: {where}. Try a smaller learning "
            f"rate, a smaller prior scale, a higher noise floor of the likelihood, or a mixture "
            f"with lighter tails."
        )


def _num_chunks(schedule: Schedule, num_steps: int | None = None) -> int:
    return -(-(schedule.num_steps if num_steps is None else num_steps) // schedule.chunk_steps)
