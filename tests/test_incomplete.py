"""Incomplete beta and gamma functions against scipy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp

from scalemix._incomplete import betainc, gammainc, gammaincc

RNG = np.random.default_rng(0)
NUM = 2000
# Powers of ten that shapes lie between.
SIZES = [(-2, 1), (0, 3), (3, 5)]


def beta_cases(size, dtype):
    """Shapes, and places within some deviations of the mean."""
    a, b = 10.0 ** RNG.uniform(*size, (2, NUM)).astype(dtype)
    total = a.astype(float) + b
    mean = a / total
    x = mean + 2 * RNG.normal(size=NUM) * np.sqrt(mean * (1 - mean) / (total + 1))
    return a, b, np.clip(x, 1e-3, 1 - 1e-3).astype(dtype)


@pytest.mark.parametrize("size", SIZES)
def test_incomplete_beta(size, float64):
    a, b, x = beta_cases(size, np.float64)
    below = jax.jit(betainc)(a, b, x, 1 - x)
    np.testing.assert_allclose(below, sp.betainc(a, b, x), rtol=1e-10, atol=1e-30)
    np.testing.assert_allclose(betainc(b, a, 1 - x, x), 1 - below, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_incomplete_beta_keeps_its_digits_in_float32(size):
    a, b, x = beta_cases(size, np.float32)
    expected = sp.betainc(a.astype(float), b.astype(float), x.astype(float))
    eps = np.finfo(np.float32).eps
    errors = jax.jit(betainc)(a, b, x, 1 - x) - expected
    # The place itself is rounded, which moves it by this many deviations.
    mean = a / (a + b.astype(float))
    moved = eps * np.sqrt((a + b) * mean / (1 - mean) + (a + b) * (1 - mean) / mean)
    far = 1 + np.abs(x - mean) / np.sqrt(mean * (1 - mean) / (a + b))
    known = expected > 1e-30
    assert known.mean() > 0.95
    # On the other side it is one minus the rest, and as exact as that.
    close = expected * (1e-5 + 20 * moved * far)
    close += np.where(x > (a + 1) / (a + b + 2), 16 * eps, 0)
    assert (np.abs(errors) < close)[known].all()


def test_ends_and_slope_of_incomplete_beta(float64):
    two, three = jnp.array(2.0), jnp.array(3.0)
    assert betainc(two, three, jnp.array(0.0), jnp.array(1.0)) == 0
    assert betainc(two, three, jnp.array(1.0), jnp.array(0.0)) == 1
    slope = jax.grad(lambda x: betainc(two, three, x, 1 - x))(0.3)
    np.testing.assert_allclose(slope, 12 * 0.3 * 0.7**2, rtol=1e-12)
    with pytest.raises(NotImplementedError, match="by a and b"):
        jax.grad(lambda a: betainc(a, three, jnp.array(0.3), jnp.array(0.7)))(2.0)


@pytest.mark.parametrize("size", [(-8, 8), (0, 8), (4, 8)])
def test_incomplete_beta_where_one_shape_is_far_larger(size):
    """There `x` or `y` rounds to one, and only the other has digits."""
    a, b = 10.0 ** RNG.uniform(*size, (2, NUM)).astype(np.float32)
    a, b = np.maximum(a, b), np.minimum(a, b)
    # Where the share of the smaller shape is the one that is known.
    y = (b / (a + b.astype(float)) * RNG.uniform(0.3, 3, NUM)).clip(0, 0.9).astype(np.float32)
    y_exact = y.astype(float)
    below = betainc(a, b, (1 - y_exact).astype(np.float32), y)
    expected = sp.betaincc(b.astype(float), a.astype(float), y_exact)
    np.testing.assert_allclose(below, expected, atol=5e-4)
    assert (below >= 0).all()
    assert (below <= 1).all()


@pytest.mark.parametrize("shapes", [(2.0, 3.0), (1e8, 2.0), (2.0, 1e8), (1e8, 1e8)])
def test_ends_of_incomplete_beta_in_float32(shapes):
    a, b = map(np.float32, shapes)
    zero, one = np.float32(0), np.float32(1)
    assert betainc(a, b, zero, one) == 0
    assert betainc(a, b, one, zero) == 1


@pytest.mark.parametrize("size", [(1, 2), (2, 3), (3, 6)])
def test_incomplete_gamma_keeps_its_digits_in_float32(size):
    a = (10.0 ** RNG.uniform(*size, NUM)).astype(np.float32)
    # No further out than scipy's own series is right.
    far = np.clip(2 * RNG.normal(size=NUM), -4, 4)
    x = (a + far * np.sqrt(a)).clip(0.01).astype(np.float32)
    for ours, twin in ((gammainc, sp.gammainc), (gammaincc, sp.gammaincc)):
        expected = twin(a.astype(float), x.astype(float))
        np.testing.assert_allclose(jax.jit(ours)(a, x), expected, rtol=3e-4, atol=1e-12)
        # In the middle, and with large shapes, there is nothing to lose.
        middle = (np.abs(far) < 2) & (a > 300)
        np.testing.assert_allclose(ours(a, x)[middle], expected[middle], rtol=1e-5)
    assert gammainc(jnp.float32(1e4), jnp.float32(0.0)) == 0
    assert gammaincc(jnp.float32(1e4), jnp.float32(1e6)) == 0


@pytest.mark.parametrize("a", [3.0, 300.0, 1e4, 1e30])
def test_far_ends_and_slope_of_incomplete_gamma(a):
    a, infinite = jnp.float32(a), jnp.float32(np.inf)
    assert gammainc(a, infinite) == 1
    assert gammaincc(a, infinite) == 0
    # Where both are the same, too: the density there, by Stirling's formula.
    slope = jax.grad(gammainc, argnums=1)(a, a)
    expected = np.exp(-1 / (12 * float(a))) / np.sqrt(2 * np.pi * float(a))
    np.testing.assert_allclose(slope, expected, rtol=1e-3)
