"""A cheap generator for noise.

Training draws one random number for each unit, example and draw, and on a CPU JAX's default
generator then costs more than the matrix products. Noise needs good statistics, not cryptography:
two rounds of a 32-bit integer hash of a counter suffice, at a tenth of the price.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, PRNGKeyArray

from scalemix import _threefry
from scalemix._types import PyTree


def _mix(x: Array) -> Array:
    """A bijection of 32-bit integers in which every input bit flips every output bit half the time.

    The multipliers are those of the two-round xorshift-multiply hash with the lowest known bias
    (C. Wellons' search of 2018).
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def _hash(key: Array, counter: Array) -> Array:
    # Each round uses one word of the key. Two streams that overlap after the first round, with
    # shifted counters, are separated by the second.
    return _mix(_mix(counter + key[0]) ^ key[1])


def _seed(seed: Array) -> Array:
    low = seed.astype(jnp.uint32)
    return jnp.stack([_mix(low ^ jnp.uint32(0x9E3779B9)), _mix(low + jnp.uint32(0x85EBCA6B))])


def _derive(key: Array, counter: Array) -> Array:
    # A key is two words of a stream from which no noise is drawn.
    away = jnp.stack([_mix(key[1] ^ jnp.uint32(0xC2B2AE35)), _mix(key[0] + jnp.uint32(0x27D4EB2F))])
    return jnp.stack([_hash(away, 2 * counter), _hash(away, 2 * counter + 1)], axis=-1)


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    counters = jax.lax.iota(jnp.uint32, math.prod(shape))
    return _derive(key, counters).reshape(*shape, 2)


def _fold_in(key: Array, data: int) -> Array:
    return _derive(key, jnp.asarray(data).astype(jnp.uint32))


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    if bit_width == 64:
        halves = _hash(key, jax.lax.iota(jnp.uint32, 2 * size)).astype(jnp.uint64)
        return (halves[:size] << 32 | halves[size:]).reshape(shape)
    bits = _hash(key, jax.lax.iota(jnp.uint32, size)).reshape(shape)
    return bits.astype(f"uint{bit_width}") if bit_width < 32 else bits


HASH = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="scalemix_hash",
    tag="smh",
)
_HASH_KEY = jax.eval_shape(lambda: jax.random.key(0, impl=HASH)).dtype


def check_key(key: Any, name: str) -> PRNGKeyArray:
    """One PRNG key, typed or of the older kind; `ValueError` for anything else."""
    dtype = getattr(key, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and key.ndim == 0:
        return key
    if dtype == jnp.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key)
    raise ValueError(f"{name} must be one PRNG key, such as jax.random.key(0); got {key!r}.")


def fold_in(key: PRNGKeyArray, data: int) -> PRNGKeyArray:
    """`jax.random.fold_in` of one key or several, on the host where it can be."""
    words = _threefry.words_of(key)
    if words is None:
        fold = jax.random.fold_in if key.ndim == 0 else jax.vmap(jax.random.fold_in, (0, None))
        return fold(key, data)
    return _threefry.keys_of(_threefry.fold_in(words, data))


def side_key(key: PRNGKeyArray, which: int = 0) -> PRNGKeyArray:
    """A key that differs from all that `split`, or `fold_in` of a count, derives from this one.

    Child `i` of `split(key, n)` is `fold_in(key, i)`, in JAX's default generator and in ours. Where
    one parent needs keys of both kinds, these are counted from the other end.
    """
    return fold_in(key, 2**32 - 1 - which)


def split_apart(key: PRNGKeyArray, num: int) -> tuple[PRNGKeyArray, ...]:
    """The keys of `jax.random.split(key, num)`, one by one."""
    words = _threefry.words_of(key)
    if words is None:
        return _split_apart(key, num)
    return tuple(_threefry.keys_of(own) for own in _threefry.split(words, num))


def split_each(keys: PRNGKeyArray, num: int) -> tuple[PRNGKeyArray, ...]:
    """The first keys of `jax.random.split(key, num)` of each key, the second ones, and so on."""
    words = _threefry.words_of(keys)
    if words is None:
        return _split_each(keys, num)
    children = _threefry.split(words, num)
    return tuple(_threefry.keys_of(children[:, i]) for i in range(num))


def split_all(keys: PRNGKeyArray, num: int) -> PRNGKeyArray:
    """`jax.random.split(key, num)` of each key: (keys, num)."""
    words = _threefry.words_of(keys)
    if words is None:
        return jnp.stack(_split_each(keys, num), axis=1)
    return _threefry.keys_of(_threefry.split(words, num))


def noise_keys(keys: PRNGKeyArray) -> PRNGKeyArray:
    """`noise_key` of each key."""
    words = None if keys.dtype == _HASH_KEY else _threefry.words_of(keys)
    if words is None:
        return _noise_keys(keys)
    return jax.random.wrap_key_data(jax.device_put(_threefry.bits(words, 2)), impl=HASH)


def stack_keys(keys: Sequence[PRNGKeyArray]) -> PRNGKeyArray:
    """Keys on a leading axis."""
    words = [own for key in keys if (own := _threefry.words_of(key)) is not None]
    return _threefry.keys_of(np.stack(words)) if len(words) == len(keys) else jnp.stack(keys)


# For keys of other kinds. Each of these is one program: step by step, to split, transpose and take
# keys apart would be several. Keys are taken one by one, since of several at once XLA's own
# generator ("rbg") draws by the first of them.


@functools.partial(jax.jit, static_argnums=1)
def _split_apart(key: PRNGKeyArray, num: int) -> tuple[PRNGKeyArray, ...]:
    return tuple(jax.random.split(key, num))


@functools.partial(jax.jit, static_argnums=1)
def _split_each(keys: PRNGKeyArray, num: int) -> tuple[PRNGKeyArray, ...]:
    children = jax.lax.map(lambda key: jax.random.split(key, num), keys)
    return tuple(children[:, i] for i in range(num))


@jax.jit
def _noise_keys(keys: PRNGKeyArray) -> PRNGKeyArray:
    return jax.lax.map(noise_key, keys.reshape(-1)).reshape(keys.shape)


def check_keys(keys: Any, num: int) -> PRNGKeyArray:
    """One key for each fit, or a `ValueError`."""
    if isinstance(keys, list | tuple):
        return stack_keys([check_key(key, "each of keys") for key in keys])
    dtype = getattr(keys, "dtype", None)
    if dtype == jnp.uint32 and keys.shape == (num, 2):
        return jax.random.wrap_key_data(keys)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key) or keys.ndim != 1:
        raise ValueError(
            f"keys must be one PRNG key for each fit, such as jax.random.split(key, {num}); "
            f"got {keys!r}."
        )
    return keys


def noise_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """A key of the cheap generator, derived from a key of any other kind."""
    if key.dtype == _HASH_KEY:
        return key
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl=HASH)


def generator_of(key: PRNGKeyArray) -> np.random.Generator:
    """NumPy's generator, started from a key: for orders of rows and the like, on the host.

    What it makes of the key's words has nothing in common with what JAX makes of them. JAX would
    compile a program for each number of rows.
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


# Two blocks are enough for the compiler to keep the loop.
_BLOCKS = 2
# sin(pi t / 2) / t and cos(pi t / 2) for t in [-1, 1], as polynomials in t^2 that err by 1e-6:
# least squares on Chebyshev nodes. The library's sine costs five times as much on a CPU.
_SINE = (1.5707951, -0.64592584, 0.079500329, -0.0043708004)
_COSINE = (0.99999995, -1.2336982, 0.25365071, -0.020810571, 0.00085816254)


def are_below(threshold: Array, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """`jax.random.bits(key, shape) < threshold`, computed once where many share a threshold."""
    if key.dtype != _HASH_KEY or jnp.ndim(threshold):
        return jax.random.bits(key, shape, jnp.uint32) < threshold
    size = math.prod(shape)
    words = jax.random.key_data(key)
    counters = jax.lax.iota(jnp.uint32, -(-size // _BLOCKS) * _BLOCKS).reshape(_BLOCKS, -1)
    drawn = _in_blocks(lambda block: _hash(words, block) < threshold, counters)
    return drawn.reshape(-1)[:size].reshape(shape)


def normals_of(keys: PRNGKeyArray, likes: Sequence[Array]) -> list[Array]:
    """`jax.random.normal(key, like.shape, like.dtype)` for each key and array.

    Drawn together, numbers of the default generator take a fraction of the time to compile.
    """
    (dtype, *others) = dict.fromkeys(like.dtype for like in likes)
    if others or dtype not in (jnp.float32, jnp.float64) or not _threefry.is_default(keys):
        return [
            jax.random.normal(key, like.shape, dtype=like.dtype)
            for key, like in zip(keys, likes, strict=True)
        ]
    sizes = [like.size for like in likes]
    bits = _threefry.bits_of(jax.random.key_data(keys), sizes, dtype.itemsize)
    # As JAX makes normal numbers of bits: from [1, 2), over (-1, 1).
    info = jnp.finfo(dtype)
    ones = np.ones((), dtype).view(bits.dtype)
    fraction = jax.lax.bitcast_convert_type((bits >> (info.bits - info.nmant)) | ones, dtype) - 1
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    uniform = jnp.maximum(low, fraction * (1 - low) + low)
    normal = np.array(np.sqrt(2), dtype) * jax.lax.erf_inv(uniform)
    parts = jnp.split(normal, np.cumsum(sizes)[:-1])
    return [part.reshape(like.shape) for part, like in zip(parts, likes, strict=True)]


def normals(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Standard normal numbers in single precision, each computed once."""
    size = math.prod(shape)
    num_pairs = -(-size // (2 * _BLOCKS))
    # Joined outside: inside XLA would check for each number which half it belongs to.
    halves = _kept(lambda key: _normal_pairs(key, num_pairs), key)
    return jnp.concatenate(halves).reshape(-1)[:size].reshape(shape)


def signs(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """One or minus one with equal probability, in single precision, each computed once."""
    size = math.prod(shape)
    drawn = _kept(lambda key: _signs(key, -(-size // _BLOCKS)), key)
    return drawn.reshape(-1)[:size].reshape(shape)


def _kept(draw: Callable[[PRNGKeyArray], PyTree], key: PRNGKeyArray) -> PyTree:
    """Blocks of random numbers, each with a key of its own, on a leading axis."""
    return _in_blocks(draw, jax.random.split(key, _BLOCKS))


def _in_blocks(draw: Callable[[Array], PyTree], blocks: Array) -> PyTree:
    """Random numbers made of each block, on a leading axis.

    XLA merges cheap arithmetic into whatever reads its result, and on a CPU it counts the generator
    as cheap: numbers that are read in several places are then computed several times. The result of
    a loop is kept. Other devices do not have this problem, and would be slowed down by a loop.
    """
    return jax.lax.platform_dependent(
        blocks,
        cpu=lambda blocks: jax.lax.map(draw, blocks),
        default=lambda blocks: jax.vmap(draw)(blocks),
    )


def _signs(key: PRNGKeyArray, num: int) -> Array:
    # All bits of a number are as good as any, and each is one sign.
    words = jax.random.bits(key, (-(-num // 32), 1), jnp.uint32)
    bits = (words >> jnp.arange(32, dtype=jnp.uint32)[None]) & 1
    return (1 - 2 * bits.astype(jnp.float32)).reshape(-1)[:num]


def _normal_pairs(key: PRNGKeyArray, num: int) -> tuple[Array, Array]:
    """The Box-Muller transform: a radius and an angle make two independent normal numbers."""
    of_radius, of_angle = jax.random.bits(key, (2, num), jnp.uint32)
    # In (0, 1], so that the logarithm is finite.
    uniform = ((of_radius >> 8).astype(jnp.float32) + 1) * jnp.float32(2**-24)
    radius = jnp.sqrt(-2 * jnp.log(uniform))
    # The angle is pi t.
    t = of_angle.astype(jnp.int32).astype(jnp.float32) * jnp.float32(2**-31)
    half_sine, half_cosine = t * _polynomial(_SINE, t * t), _polynomial(_COSINE, t * t)
    return radius * (1 - 2 * half_sine**2), radius * (2 * half_sine * half_cosine)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
