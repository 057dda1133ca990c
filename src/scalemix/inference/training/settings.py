"""The settings that all engines of training share, and how they run."""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import as_plain_numbers
from scalemix._types import PyTree
from scalemix.data.batches import Batch, Data
from scalemix.data.preparation import hold_out
from scalemix.data.streams import BatchStream
from scalemix.data.values import is_number
from scalemix.inference.digests import SameCode, by_what_it_does
from scalemix.inference.driver import Control
from scalemix.inference.method import Method, Outcome, Problem, StreamProblem
from scalemix.inference.training.engine import Engine, Schedule, State, Terms
from scalemix.inference.training.jobs import ensemble_jobs, run_jobs, run_stream
from scalemix.model.model import Model

DEFAULT_STEPS = 5_000
# The settings that a schedule is made of.
SCHEDULED = (
    "steps", "epochs", "batch_size", "validation_fraction", "patience", "chunk_steps",
    "num_members", "stream_above",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(Engine, Method):
    """How long to train, on which batches, with which steps: what all engines of training share.

    Use `NoiseTraining` or `VariationalEM`, which take all of these settings by keyword.

    Parameters
    ----------
    steps : int, optional
        The number of gradient steps. Give this or `epochs`; with neither it is 5,000.
    epochs : float, optional
        The length of training in passes over the data.
    batch_size : int or None, default 32
        The number of rows in each step. `None` takes all rows in every step.
    learning_rate : float or optax.Schedule, default 1e-2
        Adam's rate, which falls to zero along a cosine. A schedule is taken as it is. Must be left
        alone where `optimizer` is given.
    optimizer : optax.GradientTransformation, optional
        An optimiser in place of Adam. It brings a learning rate of its own.
    validation_fraction : float, default 0.0
        The share of the rows to hold out. The state that scores best on them is kept, and training
        stops early when no better one comes.
    patience : int, default 10
        The number of chunks without a better score after which training stops. Counts only with
        `validation_fraction`.
    chunk_steps : int, default 200
        The number of steps that run on the device before Python looks in: to score held-out rows,
        report progress and write checkpoints. The weights that come out do not depend on it unless
        rows are held out.
    num_members : int, default 1
        The size of the ensemble. Its members run side by side and predictions mix them. The first
        starts from the network as given, the others from the same values in another order.
    stream_above : int, default 2 GiB
        Data of more bytes than this stay in host memory and go to the device chunk by chunk.

    See Also
    --------
    NoiseTraining : Train under noise drawn from the prior.
    VariationalEM : Learn a Gaussian for each weight, with scales in closed form.

    Examples
    --------
    >>> sx.VariationalEM(epochs=10, batch_size=20).num_steps(num_rows=40)
    20
    """

    steps: int | None = None
    epochs: float | None = None
    batch_size: int | None = 32
    learning_rate: float | optax.Schedule = 1e-2
    optimizer: optax.GradientTransformation | None = None
    validation_fraction: float = 0.0
    patience: int = 10
    chunk_steps: int = 200
    num_members: int = 1
    stream_above: int = 2 * 1024**3

    data: ClassVar[tuple[str, ...]] = ()
    """The settings in which fits of one program may differ."""

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        """The settings that are data, and the others by name: an engine is a pytree of these."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        functions = {
            name: by_what_it_does(value)
            for name, value in given.items()
            if callable(value) or (name == "optimizer" and value is not None)
        }
        children = tuple(None if name in functions else given[name] for name in self.data)
        plain = {name: value for name, value in given.items() if name not in self.data}
        return children, tuple((plain | functions).items())

    @classmethod
    def tree_unflatten(cls, settings: tuple[tuple[str, Any], ...], children: Any) -> Self:
        """An engine whose settings are not checked, since JAX puts tracers there."""
        values = {n: v.function if isinstance(v, SameCode) else v for n, v in settings}
        for name, child in zip(cls.data, children, strict=True):
            values.setdefault(name, child)
        new = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(new, name, value)
        return new

    def without_schedule(self) -> Self:
        bare = copy.copy(self)
        for name in SCHEDULED:
            object.__setattr__(bare, name, None)
        return bare

    def check(self) -> None:
        """Raise `ValueError` for settings that make no sense."""
        as_plain_numbers(self)
        if self.steps is not None and self.epochs is not None:
            raise ValueError("Give steps or epochs, not both.")
        for name in ("steps", "batch_size", "chunk_steps", "patience", "num_members"):
            value = getattr(self, name)
            missing = value is None and name in ("steps", "batch_size")
            if not missing and not (isinstance(value, int) and value > 0):
                raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
        for name in ("epochs", "learning_rate"):
            value = getattr(self, name)
            positive = isinstance(value, int | float) and value > 0
            if value is not None and not positive and not callable(value):
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        if self.optimizer is not None and self.learning_rate != Training.learning_rate:
            raise ValueError(
                "optimizer= brings its own learning rate, so that learning_rate= would do nothing. "
                "Give one of the two."
            )
        if not (is_number(self.validation_fraction) and 0 <= self.validation_fraction < 1):
            raise ValueError(
                f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}."
            )

    @classmethod
    def run(cls, problems: Sequence[Problem], control: Control) -> Outcome:
        first = problems[0].method
        train, held_out, which = _data_sets(problems, first.validation_fraction)
        jobs = [
            job
            for p, number in zip(problems, which, strict=True)
            for job in ensemble_jobs(p.model, p.method, number, p.key, p.method.num_members)
        ]
        trained = run_jobs(jobs, first.schedule(train), train, held_out, control)
        return trained.outcome(first.num_members)

    @classmethod
    def run_stream(cls, problem: StreamProblem, control: Control) -> Outcome:
        method, stream = problem.method, problem.stream
        if method.validation_fraction:
            raise ValueError(
                "validation_fraction holds out rows of a table. Batches that come one after the "
                "other have none: keep some of them apart, and look at post.predict(x).log_prob(y)."
            )
        jobs = ensemble_jobs(problem.model, method, 0, problem.key, method.num_members)
        schedule = method.stream_schedule(stream)
        return run_stream(jobs, schedule, stream, control).outcome(method.num_members)

    def stream_schedule(self, stream: BatchStream) -> Schedule:
        """The steps of fits to batches that come one after the other."""
        size = stream.batch_size
        whole = stream.num_rows // size if stream.whole_batches else -(-stream.num_rows // size)
        num_steps = dataclasses.replace(self, batch_size=size).num_steps(size * max(whole, 1))
        self.check_steps(num_steps)
        return Schedule(
            num_steps=num_steps,
            batch_size=size,
            chunk_steps=min(self.chunk_steps, num_steps),
            patience=self.patience,
            stream=True,
        )

    def schedule(self, train: Sequence[Data]) -> Schedule:
        """The steps and batches of fits to these data sets, which are the same for all of them."""
        num_rows = np.array([len(data.y) for data in train])
        batch_size = self.batch_size
        if batch_size is not None and batch_size >= num_rows.min():
            if batch_size < num_rows.max():
                raise ValueError(
                    f"batch_size={batch_size} is more than the {num_rows.min()} rows of data set "
                    f"{int(num_rows.argmin())} and less than those of others. Choose one below "
                    f"all, or None for all rows in every step."
                )
            batch_size = None
        num_steps = self.common_steps(num_rows.tolist())
        self.check_steps(num_steps)
        size = sum(part.nbytes for data in train for part in jax.tree.leaves(data.x))
        stream = batch_size is not None and size > self.stream_above
        # Short runs have room for more steps than they take, so that they share one program. Not
        # so where a chunk's batches are sent to the device.
        room = num_steps if stream else max(num_steps, Training.chunk_steps)
        return Schedule(
            num_steps=num_steps,
            batch_size=batch_size,
            chunk_steps=min(self.chunk_steps, room),
            patience=self.patience,
            stream=stream,
        )

    def check_steps(self, num_steps: int) -> None:
        """Raise `ValueError` for settings that do not go with so many steps."""

    def common_steps(self, num_rows: Sequence[int]) -> int:
        """The one number of steps that fits to data sets of these sizes take."""
        lengths = {self.num_steps(num) for num in num_rows}
        if len(lengths) > 1:
            raise ValueError(
                f"Fits that run together take the same number of steps, and so many epochs of "
                f"these data sets take {min(lengths)} to {max(lengths)}. Give steps instead of "
                f"epochs."
            )
        return lengths.pop()

    def num_steps(self, num_rows: int) -> int:
        """The number of steps for so many rows of data."""
        if self.epochs is not None:
            return max(
                1, round(self.epochs * num_rows / min(self.batch_size or num_rows, num_rows))
            )
        return DEFAULT_STEPS if self.steps is None else self.steps

    def step(
        self,
        state: State,
        model: Model,
        batch: Batch,
        num_data: Array,
        step: Array,
        num_steps: ArrayLike,
        key: PRNGKeyArray,
    ) -> tuple[State, Terms]:
        """One step on one batch: the next state, and what came of this one."""
        state = self.update_scales(state, model)
        temperature = self.temperature_at(step, num_steps)

        def loss(learned: PyTree) -> tuple[Array, Terms]:
            there = state._replace(learned=learned)
            terms = self.terms(there, model, batch, num_data, key, temperature)
            return -terms.objective, terms

        slope, terms = jax.grad(loss, has_aux=True)(state.learned)
        # Optax counts steps in integers and multiplies floats by them.
        with jax.numpy_dtype_promotion("standard"):
            updates, optimizer = self.optimizer_for(model, num_steps).update(
                slope, state.optimizer, state.learned
            )
            learned = optax.apply_updates(state.learned, updates)
        following = state._replace(
            learned=learned, optimizer=optimizer, network_state=terms.network_state
        )
        return following, terms._replace(network_state=None)

    def optimizer_for(self, model: Model, num_steps: ArrayLike) -> optax.GradientTransformation:
        """The optimiser of `fit`: Adam with a rate that falls to zero, or the one that was given.

        Parameters
        ----------
        model : Model
            The model to train. Layers that a prior may switch off take smaller steps under
            `VariationalEM`, which says how much smaller.
        num_steps : int
            The number of all steps. In the programs of `fit` it is an array, so that runs of any
            length share them: a method of your own that overrides this one must not ask for its
            value.

        Returns
        -------
        optax.GradientTransformation
            An optimiser of `state.learned`.

        Examples
        --------
        >>> method = sx.VariationalEM(learning_rate=3e-3)
        >>> state = method.init(model, method.optimizer_for(model, num_steps=1000))
        """
        rate = self.learning_rate
        if self.optimizer is not None:
            return self.optimizer
        return optax.adam(rate if callable(rate) else _falling(rate, num_steps))


def _falling(rate: ArrayLike, num_steps: ArrayLike) -> optax.Schedule:
    """A rate that falls to zero along a cosine.

    Optax has the same, but not for a number of steps that a program takes as data.
    """

    def at(step: ArrayLike) -> ArrayLike:
        return 0.5 * rate * (1 + jnp.cos(jnp.pi * jnp.minimum(step, num_steps) / num_steps))

    return at


def _data_sets(
    problems: Sequence[Problem], held_out: float
) -> tuple[list[Data], list[Data] | None, list[int]]:
    """The data sets to train on, the part held out of each, and which of them each problem has.

    Problems that share their data share a set, unless each holds out rows of its own.
    """
    if held_out:
        splits = [hold_out(p.data, held_out, p.split_key) for p in problems]
        train, held = zip(*splits, strict=True)
        return list(train), list(held), list(range(len(problems)))
    distinct = {id(p.data): p.data for p in problems}
    numbers = {name: number for number, name in enumerate(distinct)}
    return list(distinct.values()), None, [numbers[id(p.data)] for p in problems]
