"""What the checks of data need to know of whoever reads the rows."""

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

    def frozen_readers(self, example: Shaped) -> list[str]:
        """The names of frozen layers that read such an example as it is."""
        ...
