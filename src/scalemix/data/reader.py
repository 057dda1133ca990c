"""What the checks of data need to know of whoever reads the rows."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from scalemix._types import Shaped
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

    def refusal(self, shape: tuple[int, ...], dtype: np.dtype) -> str | None:
        """What the network says against an example of this shape and type, if anything."""
        ...

    def lookups(self, shape: tuple[int, ...]) -> Sequence[tuple[str, int, np.ndarray]]:
        """The tables that whole numbers of such an example are looked up in.

        Each with its name, how many entries it has, and which numbers of the example they are.
        """
        ...

    def frozen_readers(self, example: Shaped) -> list[str]:
        """The names of frozen layers that read such an example as it is."""
        ...
