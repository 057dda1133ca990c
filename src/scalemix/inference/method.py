"""What a method of inference is to `fit`: it turns models and data into distributions."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxtyping import PRNGKeyArray

from scalemix.data.batches import Data
from scalemix.data.streams import BatchStream
from scalemix.inference.driver import Control
from scalemix.model.model import Model
from scalemix.posterior.networks import Ensemble, Networks
from scalemix.posterior.posterior import History, Posterior


class Problem(NamedTuple):
    """What one fit is given."""

    model: Model
    method: Any
    """A `Method` with the settings of this fit."""
    data: Data
    key: PRNGKeyArray
    split_key: PRNGKeyArray
    """The key that decides which rows are held out, for methods that hold out some."""


class StreamProblem(NamedTuple):
    """What a fit to batches that come one after the other is given."""

    model: Model
    method: Any
    stream: BatchStream
    key: PRNGKeyArray


class Inferred(NamedTuple):
    """What one fit has inferred: a distribution over networks, and how the fit went."""

    networks: Networks | Ensemble
    history: History


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a method has made of several problems."""

    inferred: list[Inferred]
    warn: Callable[[Sequence[Posterior]], None]
    """Warns of what is wrong with these posteriors, which hold what was inferred."""


class Method(abc.ABC):
    """A way to infer the weights of a model from data.

    A method owns its outcome: it alone knows how its final state becomes a distribution over
    networks, and which warnings are due.
    """

    @property
    def weighs_batches(self) -> bool:
        """Whether rows of a batch are weighed as one, so that none of them may count for more."""
        return False

    @abc.abstractmethod
    def check_model(self, model: Model) -> None:
        """Raise `ValueError`, naming the layer, for a model that this method cannot fit."""

    @classmethod
    @abc.abstractmethod
    def run(cls, problems: Sequence[Problem], control: Control) -> Outcome:
        """Solve problems of one kind as one program.

        The methods of the problems are all of this class. `ValueError` says in which setting two
        of them differ that must not.
        """

    @classmethod
    def run_stream(cls, problem: StreamProblem, control: Control) -> Outcome:
        """Solve one problem whose data come as batches; `ValueError` if that cannot be."""
        raise ValueError(
            f"{cls.__name__} needs all rows at once. Fit batches by NoiseTraining or VariationalEM."
        )
