"""Distribution functions keep their digits in single precision, however large their parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from scalemix import likelihoods as lk


@pytest.mark.parametrize("dof", [2, 4, 40])
def test_tails_of_even_degrees_of_freedom_have_all_their_digits(dof):
    """In single precision, as far out as it goes, and with the right slope in the middle."""
    error = np.concatenate([[0.0, 1e-4], np.logspace(-2, 20, 40)]).astype(np.float32)
    error = np.concatenate([error, -error])
    likelihood = lk.StudentT(dof, 1.0, floor=0.0)
    zero = jnp.zeros((), jnp.float32)
    # A tail goes with the power `dof` of the scale, and with half of it of a number that some six
    # roundings led to; its sum has as many terms.
    close = 8 * dof * np.finfo(np.float32).eps
    for ours, twin in ((likelihood.cdf, st.t(dof).cdf), (likelihood.sf, st.t(dof).sf)):
        expected = twin(error.astype(np.float64))
        shares = jax.jit(jax.vmap(lambda e, ours=ours: ours(zero, e)))(error)
        np.testing.assert_allclose(shares, np.where(expected > 1e-37, expected, 0), rtol=close)
    slope = jax.jit(jax.vmap(jax.grad(lambda e: likelihood.cdf(zero, e))))
    slopes = slope(jnp.array([0.0, -3.0, 3.0]))
    np.testing.assert_allclose(slopes, st.t(dof).pdf([0.0, -3.0, 3.0]), rtol=2 * close)


def test_the_least_tails_of_student_t_keep_their_digits():
    """One factor of a tail is smaller than any number in single precision, and the tail is not."""
    error = np.linspace(-38.0, -30.0, 41).astype(np.float32)
    likelihood, zero = lk.StudentT(40, 1.0, floor=0.0), jnp.zeros(())
    below = jax.jit(jax.vmap(lambda e: likelihood.cdf(zero, e)))(error)
    expected = st.t(40).cdf(error.astype(np.float64))
    assert 1e-37 < expected.min() < expected.max() < 1e-26
    np.testing.assert_allclose(below, expected, rtol=8 * 40 * np.finfo(np.float32).eps)


def test_student_t_of_very_many_degrees_of_freedom_is_gaussian():
    """More of them than a whole number of 32 bits."""
    likelihood, output = lk.StudentT(1e10, 1.0, floor=0.0), jnp.zeros(())
    np.testing.assert_allclose(likelihood.variance(output), 1.0, rtol=1e-6)
    np.testing.assert_allclose(likelihood.log_prob(output, 1.0), st.norm.logpdf(1.0), rtol=1e-4)
    samples = jax.vmap(lambda key: likelihood.sample(output, key=key))(
        jax.random.split(jax.random.key(0), 1000)
    )
    assert 0.9 < float(samples.std()) < 1.1


@pytest.mark.parametrize("dof", [3.0, 41, 199, 201, 999, 30_000, 1e6, 1e10])
def test_student_t_keeps_its_digits_whatever_the_degrees_of_freedom(dof):
    error = np.concatenate([[0.0], np.logspace(-3, 0.9, 30)]).astype(np.float32)
    error = np.concatenate([error, -error])
    eps = np.finfo(np.float32).eps
    # Degrees of freedom that vary from draw to draw are arrays.
    for shares in (
        jax.jit(lambda error: _tails(dof, error))(error),
        _tails_of_array(np.float32(dof), error),
    ):
        for ours, twin in zip(shares, (st.t(dof).cdf, st.t(dof).sf), strict=True):
            # A number so far out has a tail that goes with the square of it.
            close = 16 * eps * (1 + error.astype(np.float64) ** 2)
            expected = twin(error.astype(np.float64))
            assert (np.abs(ours / expected - 1) < close).all()
    points = np.array([-3.0, 0.5, 3.0], np.float32)
    np.testing.assert_allclose(
        _slopes_of_array(np.float32(dof), points), st.t(dof).pdf(points), rtol=1e-4
    )


def _tails(dof, error):
    """The shares below and above each error."""
    likelihood, zero = lk.StudentT(dof, 1.0, floor=0.0), jnp.zeros((), jnp.float32)
    return [jax.vmap(lambda e, of=of: of(zero, e))(error) for of in (likelihood.cdf, likelihood.sf)]


# One program for all degrees of freedom.
@jax.jit
def _tails_of_array(dof, error):
    return _tails(dof, error)


@jax.jit
def _slopes_of_array(dof, error):
    return jax.vmap(jax.grad(lambda e: _tails(dof, e[None])[0][0]))(error)


@pytest.mark.parametrize("mean", [1e5, 1e7, 1e9])
def test_tails_of_large_counts_keep_their_digits(mean):
    """The probability of a success has digits that one minus it has lost."""
    likelihood = lk.NegativeBinomial(1.0)
    num = float(likelihood._parameters(jnp.zeros(1))[0])
    output = jnp.log(jnp.array([mean]))
    mean = float(likelihood.mean(output))
    for y in mean * np.array([0.1, 1.0, 5.0, 10.0]).astype(np.float32):
        twin = st.nbinom(num, num / (num + mean))
        np.testing.assert_allclose(likelihood.sf(output, y), twin.sf(float(y)), rtol=2e-5)
        np.testing.assert_allclose(likelihood.cdf(output, y), twin.cdf(float(y)), rtol=2e-5)


@pytest.mark.parametrize("y", [3.0, 300.0, 1e6])
def test_all_of_an_infinite_count_lies_above(y):
    """One draw whose mean overflows must not take the quantiles of a row."""
    output = jnp.array([100.0])
    assert lk.Poisson().cdf(output, y) == 0
    assert lk.Poisson().sf(output, y) == 1


@pytest.mark.parametrize("dof", [1e9, 1e13, 1e20, 1e30])
def test_far_out_of_student_t_with_many_degrees_of_freedom(dof):
    likelihood = lk.StudentT(dof=dof)
    far = np.array([-1e18, -1e10, -1e7, -1e3], np.float32)
    # Compiled, as in predictions: XLA may compute otherwise than each operation by itself does.
    below = jax.jit(lambda y: likelihood.cdf(jnp.zeros(1), y))
    assert all(below(y) == 0 for y in far)
    assert all(below(-y) == 1 for y in far)
