"""Types of annotations that type checkers understand."""

from typing import Any, Protocol, TypeAlias

import numpy as np

PyTree: TypeAlias = Any
"""Any pytree: a network, a model, the state of an engine. That of jaxtyping is unknown to type
checkers, which then know nothing of a function that takes one."""


class Shaped(Protocol):
    """An array, or as much of one as `jax.ShapeDtypeStruct` has, which is without annotations."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers."""
        ...
