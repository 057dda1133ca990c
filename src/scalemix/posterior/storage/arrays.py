"""Arrays on their way to a file and back, by the names that the file's header calls them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


class Collected:
    """Arrays for a file. The header holds the name of each in its place."""

    def __init__(self):
        self.by_name: dict[str, np.ndarray] = {}

    def put(self, name: str, value: Any) -> Any:
        """Keep an array, or all arrays of a dict. What is returned goes into the header."""
        if isinstance(value, dict):
            return {key: self.put(f"{name}.{key}", part) for key, part in value.items()}
        if jnp.issubdtype(value.dtype, jax.dtypes.extended):
            raise ValueError(f"{name!r} is a PRNG key, which files do not hold.")
        self.by_name[name] = np.asarray(value)
        return name


class FileArrays:
    """The arrays of a file."""

    def __init__(self, by_name: dict[str, np.ndarray]):
        self.by_name = by_name

    def array(self, name: Any) -> np.ndarray:
        """The array of this name, for NumPy."""
        if not isinstance(name, str) or name not in self.by_name:
            raise ValueError(f"its header asks for an array {str(name)[:60]!r}, and has none.")
        return self.by_name[name]

    def tree(self, names: Any) -> Any:
        """The arrays in place of their names, for JAX."""
        if isinstance(names, dict):
            return {key: self.tree(part) for key, part in names.items()}
        return to_jax(self.array(names), names)


def to_jax(array: np.ndarray, name: str) -> Array:
    """The array on JAX's default device, and never in another precision than the file's."""
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ValueError(
            f"{name!r} holds {array.dtype} numbers, and JAX is set to 32 bits. Call "
            f'jax.config.update("jax_enable_x64", True) before loading.'
        )
    # A copy that nobody else has: JAX may take the memory of an array over as it is, where
    # `jnp.array` compiles a program of each shape to copy it.
    return jax.device_put(np.array(array))


def check_finite(name: str, value: Any, like: Any = None) -> None:
    """Raise `ValueError` for an array that is not finite, unless `like` has the same values there.

    A network of one's own may hold minus infinity as a mask.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite(f"{name}.{key}", part)
        return
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return
    array = np.asarray(value)
    odd = ~np.isfinite(array)
    if isinstance(like, np.ndarray | jax.Array):
        # `like` is of one member, and compared with those of all.
        odd &= array != np.asarray(like)
    if odd.any():
        place = tuple(int(i) for i in np.argwhere(odd)[0])
        where = f" at {list(place)}" if place else ""
        raise ValueError(
            f"the array {name!r} holds {float(array[place])}{where}, no finite number."
        )
