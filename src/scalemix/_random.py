"""A cheap generator for noise.

Training draws one random number for each unit, example and draw, and on a CPU the default
generator then costs more than the matrix products. Noise needs good statistics, not cryptography:
two rounds of a 32-bit integer hash of a counter do, at a tenth of the price.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl
from jaxtyping import Array, PRNGKeyArray


def _mix(x: Array) -> Array:
    """A bijection of 32-bit integers in which every input bit flips every output bit half the time.

    The multipliers are those of the two-round xorshift-multiply hash with the lowest known bias
    (C. Wellons' search of 2018).
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def _hash(key: Array, counter: Array) -> Array:
    # Two rounds, a word of the key before each: streams that overlap in one part in the other.
    return _mix(_mix(counter + key[0]) ^ key[1])


def _seed(seed: Array) -> Array:
    low = seed.astype(jnp.uint32)
    return jnp.stack([_mix(low ^ jnp.uint32(0x9E3779B9)), _mix(low + jnp.uint32(0x85EBCA6B))])


def _derive(key: Array, counter: Array) -> Array:
    # Two words of a stream that no noise is drawn from.
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


def check_key(key: Any, name: str) -> PRNGKeyArray:
    """One PRNG key, typed or of the older kind; `ValueError` for anything else."""
    dtype = getattr(key, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and key.ndim == 0:
        return key
    if dtype == jnp.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key)
    raise ValueError(f"{name} must be one PRNG key, such as jax.random.key(0); got {key!r}.")


def noise_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """A key of the cheap generator that a key of any other kind determines."""
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl=HASH)
