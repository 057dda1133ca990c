"""The cheap generator must be random in every way that noise can notice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from scalemix._random import (
    HASH,
    are_below,
    noise_key,
    normals,
    signs,
    split_apart,
    split_each,
)

KEY = noise_key(jax.random.key(0))
steps_of = jax.jit(jax.vmap(lambda i: jax.random.fold_in(KEY, i)))


def bits(key, num) -> np.ndarray:
    return np.asarray(jax.random.bits(key, (num,), jnp.uint32))


def as_bit_matrix(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(words.view(np.uint8).reshape(-1, 4), axis=1)


def test_uniforms_are_uniform():
    u = np.asarray(jax.random.uniform(KEY, (200_000,)))
    assert st.kstest(u, "uniform").pvalue > 1e-3
    counts = np.bincount((u * 1000).astype(int), minlength=1000)
    assert st.chisquare(counts).pvalue > 1e-3


def test_every_bit_is_fair_and_no_two_are_tied():
    matrix = as_bit_matrix(bits(KEY, 100_000)).astype(float)
    error = 0.5 / np.sqrt(len(matrix))
    assert np.all(np.abs(matrix.mean(axis=0) - 0.5) < 5 * error)
    correlation = np.corrcoef(matrix.T)[np.triu_indices(32, 1)]
    assert np.all(np.abs(correlation) < 5 / np.sqrt(len(matrix)))


def test_neighbours_are_independent():
    u = np.asarray(jax.random.uniform(KEY, (100_000,)))
    for lag in (1, 2, 3, 50, 1600):
        r = np.corrcoef(u[:-lag], u[lag:])[0, 1]
        assert abs(r) < 5 / np.sqrt(len(u))
    # Triples fill the cube.
    cells = np.ravel_multi_index((u[: 3 * 33_333].reshape(-1, 3) * 8).astype(int).T, (8, 8, 8))
    assert st.chisquare(np.bincount(cells, minlength=512)).pvalue > 1e-3


def test_a_flipped_input_bit_flips_half_of_the_output():
    data = np.asarray(jax.random.key_data(KEY))
    base = as_bit_matrix(bits(KEY, 2000))
    for word in range(2):
        for position in range(32):
            other = data.copy()
            other[word] ^= np.uint32(1) << np.uint32(position)
            flipped = as_bit_matrix(bits(jax.random.wrap_key_data(other, impl=HASH), 2000))
            share = np.mean(base != flipped)
            # A change of the first word shifts the counter, one of the second passes one round.
            assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(base.size)


def test_streams_of_steps_are_independent():
    """Keys of successive steps and of their parts, as training makes them."""
    keys = steps_of(np.arange(400))
    u = np.asarray(jax.jit(jax.vmap(lambda k: jax.random.uniform(k, (500,))))(keys))
    assert st.kstest(u.ravel(), "uniform").pvalue > 1e-3
    across = np.corrcoef(u)[np.triu_indices(400, 1)]
    assert abs(across.mean()) < 5 / np.sqrt(500 * across.size)
    assert st.kstest(across * np.sqrt(500), "norm").pvalue > 1e-3
    down = np.corrcoef(u.T)[np.triu_indices(500, 1)]
    assert st.kstest(down * np.sqrt(400), "norm").pvalue > 1e-3
    assert len(np.unique(np.asarray(jax.random.key_data(keys)), axis=0)) == 400
    parts = jax.jit(jax.vmap(lambda k: jax.random.split(k, 3)))(keys)
    assert len(np.unique(np.asarray(jax.random.key_data(parts)).reshape(-1, 2), axis=0)) == 1200


def test_values_collide_as_often_as_chance_has_it():
    """Birthdays: words drawn under many keys, where tied streams would repeat each other."""
    keys = jax.random.split(KEY, 256)
    draw = jax.jit(jax.vmap(lambda k: jax.random.bits(k, (256,), jnp.uint32)))
    words = np.asarray(draw(keys)).ravel()
    collisions = len(words) - len(np.unique(words))
    expected = len(words) ** 2 / 2**33
    assert st.poisson.sf(collisions - 1, expected) > 1e-3


@pytest.mark.parametrize("draw", [jax.random.normal, jax.random.exponential, jax.random.cauchy])
def test_other_distributions_are_built_on_it(draw):
    twin = {"normal": "norm", "exponential": "expon", "cauchy": "cauchy"}[draw.__name__]
    assert st.kstest(np.asarray(draw(KEY, (50_000,))), twin).pvalue > 1e-3


def test_gammas_are_built_on_it():
    values = np.asarray(jax.random.gamma(KEY, 2.5, (20_000,)))
    assert st.kstest(values, st.gamma(2.5).cdf).pvalue > 1e-3


def test_wide_and_narrow_words(float64):
    wide = np.asarray(jax.random.bits(KEY, (20_000,), jnp.uint64))
    assert st.kstest(wide / 2.0**64, "uniform").pvalue > 1e-3
    narrow = np.asarray(jax.random.bits(KEY, (20_000,), jnp.uint8))
    assert st.chisquare(np.bincount(narrow, minlength=256)).pvalue > 1e-3


def test_bernoulli_noise_has_its_rate_and_no_memory():
    draw = jax.jit(jax.vmap(lambda k: jax.random.bits(k, (500,), jnp.uint32)))
    dropped = np.asarray(draw(steps_of(np.arange(2000)))) >= np.uint32(0.995 * 2**32)
    assert st.binomtest(int(dropped.sum()), dropped.size, 0.005).pvalue > 1e-3
    counts = np.bincount(dropped.sum(axis=1), minlength=12)[:10]
    expected = st.binom(500, 0.005).pmf(np.arange(10)) * 2000
    assert st.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


def test_normals_are_normal_and_independent():
    z = np.asarray(jax.jit(normals, static_argnums=1)(KEY, (500, 401)), float)
    assert st.kstest(z.ravel(), "norm").pvalue > 1e-3
    # The tails too: what lies beyond three deviations.
    share, wanted = np.mean(np.abs(z) > 3), 2 * st.norm.sf(3)
    assert abs(share - wanted) < 5 * np.sqrt(wanted / z.size)
    flat = z.ravel()
    half = -(-flat.size // 4)
    # Numbers made as a pair share a radius, and stand a quarter of the array apart.
    for lag in (1, 2, 401, half):
        for one, other in ((flat[:-lag], flat[lag:]), (flat[:-lag] ** 2, flat[lag:] ** 2)):
            assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(len(one))


def test_signs_are_fair_and_independent():
    drawn = np.asarray(jax.jit(signs, static_argnums=1)(KEY, (500, 401)))
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    flat = drawn.ravel()
    assert abs(flat.mean()) < 5 / np.sqrt(flat.size)
    # Neighbours, numbers of one word, and one word's from the next one's.
    for lag in (1, 2, 31, 32, 401, -(-flat.size // 2)):
        assert abs(np.mean(flat[:-lag] * flat[lag:])) < 5 / np.sqrt(flat.size - lag)
    keys = jax.random.split(KEY, 3)
    together = np.asarray(jax.jit(jax.vmap(lambda key: signs(key, (4, 3))))(keys))
    np.testing.assert_array_equal(together[1], jax.jit(signs, static_argnums=1)(keys[1], (4, 3)))
    assert jax.eval_shape(lambda: signs(KEY, ())).shape == ()


def test_normals_do_not_depend_on_what_runs_beside_them():
    keys = jax.random.split(KEY, 3)
    together = np.asarray(jax.jit(jax.vmap(lambda key: normals(key, (4, 3))))(keys))
    draw = jax.jit(normals, static_argnums=1)
    np.testing.assert_allclose(together[1], draw(keys[1], (4, 3)), rtol=1e-6)
    assert draw(KEY, ()).shape == ()
    assert np.isfinite(draw(KEY, (1,))).all()


@pytest.mark.parametrize("key", [KEY, jax.random.key(1)], ids=["ours", "JAX's"])
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 2), (4, 2)])
def test_numbers_below_a_threshold_are_those_of_jax(key, shape):
    threshold = jnp.uint32(2**31)
    if shape == (4, 2):
        threshold = jnp.broadcast_to(jnp.array([2**30, 2**31], jnp.uint32), shape)
    drawn = are_below(threshold, key, shape)
    np.testing.assert_array_equal(drawn, jax.random.bits(key, shape, jnp.uint32) < threshold)


def test_keys_taken_apart_are_those_of_jax():
    key = jax.random.key(2)
    for one, other in zip(split_apart(key, 3), jax.random.split(key, 3), strict=True):
        assert one == other
    keys = jax.random.split(key, 2)
    first, second, third = split_each(keys, 3)
    for i, each in enumerate(keys):
        for one, other in zip((first, second, third), jax.random.split(each, 3), strict=True):
            assert one[i] == other
