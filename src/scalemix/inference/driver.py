"""The one driver of all long runs: chunks, reports, checkpoints, interrupts and resuming.

A run advances on the device in chunks. Between chunks, and only there, Python reports progress and
writes checkpoints. What a step does depends on the key, the number of the step and the data, but
not on where chunks begin and end. A run that was cut off and resumed is therefore bit for bit the
run that was not.
"""

import abc
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from scalemix._mesh import connect
from scalemix.inference import checkpoint as checkpoints


class Progress(NamedTuple):
    """How far a fit has come, as it is told to a `callback` after each chunk of steps.

    Attributes
    ----------
    step : int
        The number of steps taken.
    num_steps : int
        The number of steps there will be. A fit of several parts counts each by itself.
    objective : float
        What is being maximised, per datum, at the last step; of MCMC, the log density.
    metrics : dict of str to float
        Whatever else the method knows: parts of the objective, the score of held-out rows, the
        acceptance of proposals. Where several networks are fitted together these are means.

    Examples
    --------
    >>> told = []
    >>> _ = sx.fit(model, x, y, sx.VariationalEM(steps=20), key=key, callback=told.append)
    >>> told[-1].step, sorted(told[-1].metrics)
    (20, ['kl', 'log_hyperprior', 'log_likelihood'])
    """

    step: int
    num_steps: int
    objective: float
    metrics: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Control:
    """Who watches a run, where and how often its state is saved, and on which devices it runs."""

    report: Callable[[Progress], None] | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 10
    """The number of chunks between two checkpoints. There is always one at the end."""
    resume: bool = False
    """Whether to continue from the checkpoint, if the file exists."""
    mesh: Mesh | None = None
    """The devices, as `check_mesh` gives them; `None` for the default one."""


class Memory(Protocol):
    """All that a run carries from chunk to chunk: a pytree, and exactly what a checkpoint holds."""

    @property
    def done(self) -> np.ndarray:
        """The number of steps taken so far."""
        ...


MemoryT = TypeVar("MemoryT", bound=Memory)


class Run(abc.ABC, Generic[MemoryT]):
    """Something that can be driven: how it begins, how it advances, and what identifies it."""

    num_steps: int
    chunk_steps: int

    @abc.abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """A digest of each setting, by which a checkpoint is known to be of this run."""

    @abc.abstractmethod
    def begin(self, resuming: bool) -> MemoryT:
        """The memory before the first step.

        When resuming, only the shapes and types of its leaves matter.
        """

    @abc.abstractmethod
    def advance(self, memory: MemoryT) -> MemoryT:
        """The memory one chunk later.

        An interrupt may come at any point. Histories may be filled in place beyond `done`, but
        everything else must change at once, with the value that is returned.
        """

    @abc.abstractmethod
    def objective(self, memory: MemoryT) -> float:
        """The number that progress shows."""

    def saved(self, memory: MemoryT) -> MemoryT:
        """What a checkpoint holds: the same at any number of devices."""
        return memory

    def restored(self, saved: MemoryT) -> MemoryT:
        """The memory that a checkpoint was written of, on the devices of this run."""
        return saved

    def metrics(self, memory: MemoryT) -> dict[str, float]:
        """Further numbers for whoever watches."""
        return {}

    def has_ended(self, memory: MemoryT) -> bool:
        """Whether there is nothing left to do."""
        return int(memory.done) >= self.num_steps


def drive(run: Run[MemoryT], control: Control) -> MemoryT:
    """The memory of the run when it has ended."""
    path = control.checkpoint
    prints: dict[str, str] = {}
    resuming = False
    try:
        connect(control.mesh)
    except jax.errors.JaxRuntimeError as error:
        raise _of_several_processes(path) from error
    if path is not None:
        prints = run.fingerprint()
        resuming = checkpoints.can_resume(path, control.resume)
    memory = run.begin(resuming)
    if path is not None and resuming:
        memory = run.restored(checkpoints.read(path, run.saved(memory), prints))

    def save(path: Path) -> None:
        saved = run.saved(memory)
        # Every process has taken part in bringing it together.
        if jax.process_index() == 0:
            checkpoints.write(path, saved, prints)

    try:
        while not run.has_ended(memory):
            memory = run.advance(memory)
            done = int(memory.done)
            if control.report is not None:
                told = Progress(done, run.num_steps, run.objective(memory), run.metrics(memory))
                control.report(told)
            due = num_chunks(done, run.chunk_steps) % control.checkpoint_every == 0
            if path is not None and (due or run.has_ended(memory)):
                save(path)
    except KeyboardInterrupt as interrupt:
        # Of several processes each is interrupted by itself, and none can save without the others.
        if path is not None and jax.process_count() == 1:
            save(path)
            interrupt.add_note(
                f"The run is saved in {path} after {int(memory.done)} of {run.num_steps} steps. "
                f"Call again with the same arguments and resume=True to continue."
            )
        raise
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        raise _of_several_processes(path) from error
    return memory


def _of_several_processes(path: Path | None) -> RuntimeError:
    """The error for whoever waits for another process in vain."""
    saved = "checkpoint= would have let it go on." if path is None else (
        f"The last checkpoint is in {path}: start all processes again, in any number, with "
        f"the same arguments and resume=True."
    )  # fmt: skip
    return RuntimeError(
        f"What the {jax.process_count()} processes do together has failed in this "
        f"one, most likely because another has ended or cannot be reached. {saved}"
    )


def num_chunks(num_steps: int, chunk_steps: int) -> int:
    """How many chunks so many steps take."""
    return -(-num_steps // chunk_steps)
