"""Keys that are derived on the host are those that JAX derives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix import _threefry
from scalemix._random import (
    HASH,
    fold_in,
    noise_key,
    noise_keys,
    normals_of,
    side_key,
    split_all,
    split_apart,
    split_each,
    stack_keys,
)

KEYS = jax.random.split(jax.random.key(7), 5)
# Those that JAX alone can derive from.
OTHERS = {
    "hash": jax.random.wrap_key_data(jax.random.key_data(KEYS), impl=HASH),
    "rbg": jax.random.split(jax.random.key(7, impl="rbg"), 5),
    "unsafe_rbg": jax.random.split(jax.random.key(7, impl="unsafe_rbg"), 5),
}


def data(keys):
    return np.asarray(jax.random.key_data(keys))


def all_of(keys):
    """Everything that is derived from keys."""
    return [
        *split_apart(keys[0], 3), *split_each(keys, 3), split_all(keys, 4), side_key(keys[1]),
        side_key(keys), fold_in(keys[2], 12), noise_keys(keys), stack_keys([keys[3], keys[1]]),
    ]  # fmt: skip


def expected_of(keys):
    # One by one: of several at once, JAX makes something else with some generators.
    each = lambda derive: jnp.stack([derive(key) for key in keys])  # noqa: E731
    split = lambda num: each(lambda key: jax.random.split(key, num))  # noqa: E731
    last = 2**32 - 1
    fold = lambda key: jax.random.fold_in(key, last)  # noqa: E731
    return [
        *jax.random.split(keys[0], 3), *[split(3)[:, i] for i in range(3)], split(4),
        fold(keys[1]), each(fold), jax.random.fold_in(keys[2], 12),
        each(noise_key), keys[jnp.array([3, 1])],
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["default", *OTHERS])
def test_they_are_those_of_jax(kind):
    keys = KEYS if kind == "default" else OTHERS[kind]
    for ours, theirs in zip(all_of(keys), expected_of(keys), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(data(ours), data(theirs))


def test_under_the_other_setting_they_are_those_of_jax():
    jax.config.update("jax_threefry_partitionable", False)
    try:
        assert _threefry.words_of(KEYS) is None
        np.testing.assert_array_equal(data(side_key(KEYS[1])), data(expected_of(KEYS)[7]))
    finally:
        jax.config.update("jax_threefry_partitionable", True)


def test_nothing_is_compiled(caplog):
    all_of(KEYS)
    jax.clear_caches()
    with jax.log_compiles(), caplog.at_level("WARNING"):
        one = KEYS[0]
        before = len(caplog.records)
        split_apart(one, 6), split_each(KEYS, 6), split_all(KEYS, 6), side_key(KEYS)
        noise_keys(KEYS), stack_keys([one, one])
    assert len(caplog.records) == before


def test_in_programs_keys_are_derived_by_jax():
    inside = jax.jit(lambda key: side_key(key))(KEYS[0])
    np.testing.assert_array_equal(data(inside), data(side_key(KEYS[0])))


def test_bits_are_those_of_jax():
    words = _threefry.words_of(KEYS)
    theirs = jax.vmap(lambda key: jax.random.bits(key, (9,), jnp.uint32))(KEYS)
    np.testing.assert_array_equal(_threefry.bits(words, 9), theirs)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("kind", ["default", *OTHERS])
def test_normal_numbers_are_those_of_jax(kind, dtype):
    keys = KEYS if kind == "default" else OTHERS[kind]
    with jax.enable_x64(dtype == "float64"):
        likes = [jnp.zeros(shape, dtype) for shape in ((7, 5), (), (3,), (1, 0), (2, 2, 2))]
        ours = jax.jit(lambda keys: normals_of(keys, likes))(keys)
        theirs = [
            jax.random.normal(key, like.shape, like.dtype)
            for key, like in zip(keys, likes, strict=True)
        ]
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_normal_numbers_of_several_types_are_those_of_jax():
    likes = [jnp.zeros(4, jnp.float32), jnp.zeros(4, jnp.bfloat16)]
    for one, like, key in zip(normals_of(KEYS[:2], likes), likes, KEYS[:2], strict=True):
        np.testing.assert_array_equal(one, jax.random.normal(key, (4,), like.dtype))


def test_keys_are_known_while_a_program_is_traced():
    inside = jax.jit(lambda: jax.random.key_data(side_key(KEYS[0])))()
    np.testing.assert_array_equal(inside, data(side_key(KEYS[0])))
