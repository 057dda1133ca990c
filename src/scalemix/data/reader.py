"""What the checks of data need to know of whoever reads the rows."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from scalemix._types import PyTree
from scalemix.likelihoods import Likelihood


class Reader(Protocol):
    """A network with a likelihood of its outputs, such as `scalemix.Model`."""

    @property
    def likelihood(self) -> Likelihood:
        """The distribution of a target."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The type of number that the network computes in."""
        ...

    @property
    def example(self) -> PyTree:
        """The shapes and types of one example, where they are known."""
        ...

    def refusal(self, example: PyTree) -> str | None:
        """What the network says against an example of these shapes and types, if anything."""
        ...

    def lookups(self, example: PyTree) -> Sequence[tuple[str, int, Sequence[np.ndarray]]]:
        """The tables that numbers of such an example are looked up in as they are.

        Each with its name, how many entries it has, and which numbers of each part of the example
        they are.
        """
        ...

    def frozen_readers(self, example: PyTree) -> list[str]:
        """The names of frozen layers that read such an example as it is."""
        ...
