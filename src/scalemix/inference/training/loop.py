"""The loop that all engines of training share.

Steps run on the device in chunks, many models side by side. Between chunks Python looks at the
objective and keeps the best state; the driver does the rest.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._threads import in_this_precision
from scalemix._types import PyTree
from scalemix.data.batches import Data
from scalemix.inference.driver import Control, Run, drive, num_chunks
from scalemix.inference.fingerprints import fingerprint
from scalemix.inference.layout import Layout
from scalemix.inference.side_by_side import SideBySide
from scalemix.inference.training import programs
from scalemix.inference.training.chunks import Chunks
from scalemix.inference.training.engine import DivergenceError, Schedule
from scalemix.inference.training.sources import Source


class Trained(NamedTuple):
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
    chunk_steps: int


def run(
    starts: SideBySide,
    source: Source,
    held_out: Data | None,
    sets: np.ndarray,
    schedule: Schedule,
    keys: PRNGKeyArray,
    control: Control,
    layout: Layout,
    ahead: Callable[[PyTree], None] | None = None,
) -> Trained:
    """Run engines on models, both stacked on a leading axis, each pair with a key of its own.

    `held_out` are data sets stacked on a leading axis; `sets` says which of them each model has.
    What an engine holds as plain values is the same for all models; what it holds as arrays may
    differ. `layout` says where the models run. `ahead` is given the first state, and runs in
    another thread while the program of the steps is compiled, which takes one core.
    """
    with ThreadPoolExecutor(1) as pool:
        begun = None if ahead is None else partial(pool.submit, in_this_precision(ahead))
        training = _TrainingRun(starts, source, held_out, sets, schedule, keys, layout, begun)
        memory = drive(training, control)
    done = int(memory.done)
    chunks_done = num_chunks(done, schedule.chunk_steps)
    return Trained(
        state=layout.gather(memory.state if held_out is None else memory.best),
        objective=memory.objective[:, :done],
        log_likelihood=memory.log_likelihood[:, :done],
        score=memory.score[:, : chunks_done if held_out is not None else 0],
        recorded={name: value[:, :chunks_done] for name, value in memory.recorded.items()},
        chunk_steps=schedule.chunk_steps,
    )


class TrainingMemory(NamedTuple):
    """All that training carries from chunk to chunk, and so all that a checkpoint holds.

    The histories are filled in place, but nothing counts beyond `done` steps. The order of the
    fields is the order of the arrays in a checkpoint.
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
    """Not a number for steps that were taken by an earlier version, which kept none."""


class _TrainingRun(Run[TrainingMemory]):
    """Training as the driver sees it."""

    def __init__(
        self,
        starts: SideBySide,
        source: Source,
        held_out: Data | None,
        sets: np.ndarray,
        schedule: Schedule,
        keys: PRNGKeyArray,
        layout: Layout,
        begun: Callable[[PyTree], object] | None,
    ):
        self.begun = begun
        self.num_steps, self.chunk_steps = schedule.num_steps, schedule.chunk_steps
        self.patience, self.layout = schedule.patience, layout
        self.identity = starts, source, held_out, keys
        bare = starts._replace(methods=starts.methods.without_schedule())
        arrays, self.static = eqx.partition(bare, eqx.is_array)
        self.arrays = layout.place(arrays)
        self.held_out = None if held_out is None else layout.place_sets(held_out, sets)
        _, step_keys = programs.split_keys(keys)
        self.chunks = Chunks(self.arrays, self.static, source, schedule, step_keys, layout)

    def fingerprint(self) -> dict[str, str]:
        starts, source, held_out, keys = self.identity
        return fingerprint(starts, source.identity(), held_out, keys)

    def begin(self, resuming: bool) -> TrainingMemory:
        groups, num_steps = self.chunks.groups, self.layout.whole(np.int32(self.num_steps))
        arguments = [
            (self.layout.mesh, self.static, arrays, num_steps)
            for arrays in groups.split(self.arrays)
        ]
        state = (groups.shapes if resuming else groups.run)(programs.init, arguments)
        num_models, chunks = self.chunks.num_models, num_chunks(self.num_steps, self.chunk_steps)
        memory = TrainingMemory(
            done=np.zeros((), np.int64),
            stopped=np.zeros((), bool),
            state=state,
            best=state,
            best_score=np.full(num_models, -np.inf),
            stale=np.zeros(num_models, int),
            objective=np.zeros((num_models, self.num_steps), np.float32),
            score=np.zeros((num_models, chunks), np.float32),
            recorded={
                name: np.zeros((num_models, chunks, *shape), dtype)
                for name, shape, dtype in self.chunks.recorded_arrays(state)
            },
            log_likelihood=np.full((num_models, self.num_steps), np.nan, np.float32),
        )
        # The steps have been traced by now.
        if self.begun is not None and not resuming:
            self.begun(state)
        return memory

    def advance(self, memory: TrainingMemory) -> TrainingMemory:
        done = int(memory.done)
        count = min(self.chunk_steps, self.num_steps - done)
        state, objective, log_likelihood, recorded, good = self.chunks.run(
            memory.state, done, count
        )
        if not good:
            raise DivergenceError(self.chunks.explain(memory.state, done, count))
        index = done // self.chunk_steps
        memory.objective[:, done : done + count] = objective
        memory.log_likelihood[:, done : done + count] = log_likelihood
        for name, value in recorded.items():
            memory.recorded[name][:, index] = value
        memory = memory._replace(state=state, done=np.asarray(done + count))
        if self.held_out is None:
            return memory
        score = self.chunks.score(state, *self.held_out)
        memory.score[:, index] = score
        memory = _keep_best(memory, score, self.patience, self.layout)
        return memory._replace(stopped=np.all(memory.stale >= self.patience))

    def saved(self, memory: TrainingMemory) -> TrainingMemory:
        state, best = self.layout.cut((memory.state, memory.best))
        return memory._replace(state=state, best=best)

    def restored(self, saved: TrainingMemory) -> TrainingMemory:
        state, best = self.layout.place((saved.state, saved.best))
        return saved._replace(state=state, best=best)

    def objective(self, memory: TrainingMemory) -> float:
        return float(memory.objective[:, int(memory.done) - 1].mean())

    def metrics(self, memory: TrainingMemory) -> dict[str, float]:
        done = int(memory.done)
        last = num_chunks(done, self.chunk_steps) - 1
        metrics = {"log_likelihood": float(memory.log_likelihood[:, done - 1].mean())}
        for name, values in memory.recorded.items():
            if values.ndim == 2:
                metrics[name] = float(values[:, last].mean())
        if self.held_out is not None:
            metrics["score"] = float(memory.score[:, last].mean())
        return metrics

    def has_ended(self, memory: TrainingMemory) -> bool:
        return bool(memory.stopped) or super().has_ended(memory)


def _keep_best(
    memory: TrainingMemory, score: np.ndarray, patience: int, layout: Layout
) -> TrainingMemory:
    # A model that has run out of patience keeps what it has while the others go on.
    better = (score > memory.best_score) & (memory.stale < patience)

    return memory._replace(
        best=_choose(layout.place(better), memory.state, memory.best),
        best_score=np.where(better, score, memory.best_score),
        stale=np.where(better, 0, memory.stale + 1),
    )


@jax.jit
def _choose(better: Array, new: PyTree, old: PyTree) -> PyTree:
    """The new state of models that are better, and the old one of the others."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape((-1,) + (1,) * (jnp.ndim(new) - 1)), new, old)

    return jax.tree.map(choose, new, old)
