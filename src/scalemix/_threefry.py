"""JAX's default generator on the host, by NumPy: the same numbers without a compiled program.
And in programs, for several keys at once.

A fit derives some dozens of keys. Each way to do so would be a program of its own, and XLA takes
longer for the twenty rounds of the generator than for most of what else is small.
The generator is Threefry-2x32 (Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as
1, 2, 3, 2011), and which numbers it makes is what JAX has by default ("partitionable").
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.random import threefry2x32_p
from jaxtyping import Array, PRNGKeyArray

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)


def words_of(keys: Any) -> np.ndarray | None:
    """The words of keys of this generator, (..., 2); `None` if they are not known, or others."""
    if isinstance(keys, Tracer) or not is_default(keys) or not keys.is_fully_addressable:
        return None
    # Also while JAX traces a program.
    with jax.ensure_compile_time_eval():
        return np.asarray(jax.random.key_data(keys))


def is_default(keys: Any) -> bool:
    """Whether JAX makes of these keys what this module does."""
    settings: Any = jax.config
    return keys.dtype == _default_type() and settings.jax_threefry_partitionable


def keys_of(words: np.ndarray) -> PRNGKeyArray:
    """Keys of the default generator that have these words."""
    return jax.random.wrap_key_data(jax.device_put(words), impl="threefry2x32")


def split(words: np.ndarray, num: int) -> np.ndarray:
    """The words of `jax.random.split` of each key: (..., num, 2)."""
    return _hash(words[..., None, :], np.arange(num, dtype=np.uint32))


def fold_in(words: np.ndarray, data: int) -> np.ndarray:
    """The words of `jax.random.fold_in` of each key."""
    return _hash(words, np.uint32(data))


def bits(words: np.ndarray, num: int) -> np.ndarray:
    """What `jax.random.bits` makes of each key, `num` words of 32 bits: (..., num)."""
    return np.bitwise_xor.reduce(split(words, num), axis=-1)


def bits_of(words: Array, sizes: Sequence[int], num_bytes: int) -> Array:
    """What `jax.random.bits` makes of each key, in a program: so many numbers of 4 or 8 bytes of
    the first key, then those of the next.

    The program then has the generator in it once, and not once for each key.
    """
    repeated = [jax.lax.broadcast(words[i], (size,)) for i, size in enumerate(sizes)]
    counters = [jax.lax.iota(jnp.uint32, size) for size in sizes]
    of_key, counter = jnp.concatenate(repeated), jnp.concatenate(counters)
    zeros = jnp.zeros_like(counter)
    high, low = threefry2x32_p.bind(of_key[:, 0], of_key[:, 1], zeros, counter)
    if num_bytes == 4:
        return high ^ low
    return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)


@functools.cache
def _default_type() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32")).dtype


def _hash(words: np.ndarray, counter: Any) -> np.ndarray:
    """The generator at a counter below 2^32: two words, on a last axis."""
    first, second = words[..., 0], words[..., 1]
    schedule = first, second, first ^ second ^ _PARITY
    # Arrays, since NumPy warns of single numbers that wrap around.
    shape = (1, *np.broadcast_shapes(first.shape, np.shape(counter)))
    x = np.broadcast_to(first, shape).copy()
    y = np.broadcast_to(counter, shape) + second
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(distance)) | (y >> np.uint32(32 - distance))
            y = y ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return np.stack([x[0], y[0]], axis=-1)
