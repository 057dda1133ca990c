"""What one Markov chain is to the loop that runs many: how it starts, and how it steps."""

import abc
from typing import Any, NamedTuple

from jaxtyping import Array, PRNGKeyArray

from scalemix.data.batches import Data
from scalemix.inference.chains.sampler import Transition
from scalemix.model.model import Model


class ChainState(NamedTuple):
    """Where one chain is: its sampler's state, and the inclusion variables."""

    sampler: Any
    bits: Array


class Chain(abc.ABC):
    """Pure functions of one chain of one model, which the loop maps over many."""

    num_chains: int
    num_warmup: int
    num_samples: int
    thin: int
    chunk_steps: int

    @property
    def num_steps(self) -> int:
        """The steps of one chain, the warm-up included."""
        return self.num_warmup + self.num_samples * self.thin

    @property
    def chunk_length(self) -> int:
        """The most steps that a chunk takes: a whole number of samples."""
        return self.thin * max(1, self.chunk_steps // self.thin)

    @property
    def stepping(self) -> "Chain":
        """A method with the same steps: methods that differ in nothing else have the same one."""
        return self

    @abc.abstractmethod
    def init(self, model: Model, data: Data, key: PRNGKeyArray, is_first: Array) -> ChainState:
        """The first state. The first chain starts from the network's values as they are."""

    @abc.abstractmethod
    def step(
        self, state: ChainState, model: Model, data: Data, index: Array, key: PRNGKeyArray
    ) -> tuple[ChainState, Transition]:
        """The next state, and what there is to know about the step."""
