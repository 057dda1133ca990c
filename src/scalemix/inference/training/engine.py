"""What an engine of training is: pure functions of one model, and how they end in networks."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxtyping import Array, PRNGKeyArray

from scalemix._types import PyTree
from scalemix.data.batches import Batch, Data
from scalemix.inference.training.scoring import RowScores
from scalemix.posterior.networks import Networks


class Step(NamedTuple):
    """What one step gives."""

    state: PyTree
    """The next state."""
    objective: Array
    log_likelihood: Array
    """The part of the objective that is about the data, per datum."""
    recorded: dict[str, Array]
    """Whatever is recorded on request."""


class Engine(abc.ABC):
    """How to train: pure functions of one model, which the loop maps over many.

    `state` is what the engine adjusts, `model` is what it started from. `num_data` is the number of
    training data, each counted as often as its weight says: the N of every mean.
    """

    @property
    @abc.abstractmethod
    def remedies(self) -> tuple[str, ...]:
        """What to try, beside a smaller rate, if a fit comes out no better than a constant."""

    @classmethod
    def side_by_side(cls, engines: Sequence[Any]) -> list[Any]:
        """Engines for one program: settings that may differ, and do, turned into arrays."""
        return list(engines)

    @abc.abstractmethod
    def init(self, model: PyTree, num_steps: int) -> PyTree:
        """The first state."""

    @abc.abstractmethod
    def step(
        self,
        state: PyTree,
        model: PyTree,
        batch: Batch,
        num_data: Array,
        num_steps: int,
        key: PRNGKeyArray,
    ) -> Step:
        """One step on one batch."""

    @abc.abstractmethod
    def score_rows(
        self,
        state: PyTree,
        model: PyTree,
        data: Data,
        key: PRNGKeyArray,
        num_draws: int | None = None,
    ) -> RowScores:
        """What the state says of each held-out row, by `num_draws` draws or the engine's own."""

    @abc.abstractmethod
    def magnitudes(self, state: PyTree, model: PyTree, key: PRNGKeyArray) -> dict[str, Array]:
        """The largest value at each site, non-finite if any is, to find where a run diverged."""

    @abc.abstractmethod
    def networks(self, state: PyTree, model: PyTree) -> Networks:
        """The distribution over networks that a final state stands for.

        It must also work, element by element, where the arrays of both have a leading axis: the
        members of an ensemble are kept like that.
        """


class DivergenceError(RuntimeError):
    """Training or sampling met a number that is not finite.

    The message says at which step, in which model and at which layer, and what to try.

    Examples
    --------
    >>> try:
    ...     sx.fit(model, x, y, sx.VariationalEM(steps=20, learning_rate=1e30), key=key)
    ... except sx.DivergenceError as error:
    ...     print(str(error).split(" at step")[0])
    Training diverged
    """


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long to train, on which batches, and what happens between chunks."""

    num_steps: int
    batch_size: int | None
    """`None` takes all data in every step."""
    chunk_steps: int
    patience: int
    """Chunks without a better score before a run with held-out data stops."""
    stream: bool
    """Whether data stay in host memory and go to the device chunk by chunk."""
