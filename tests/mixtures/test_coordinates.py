"""The coordinates of a family's noise: every family passes these unasked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalemix as sx
from tests.mixtures.cases import CASES

PROPER = {name: case.mixture for name, case in CASES.items() if case.proper}
CONTINUOUS = [name for name in PROPER if not CASES[name].discrete]
DISCRETE = [name for name in PROPER if CASES[name].discrete]


@pytest.mark.parametrize("name", CASES)
def test_a_family_says_whether_it_is_discrete(name):
    assert CASES[name].mixture.is_discrete == CASES[name].discrete


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_coordinates_have_a_density_of_mass_one(name, signed, float64):
    # Wide enough for exp(u) to reach the tails of a half-Cauchy.
    u, step = jnp.linspace(-80.0, 80.0, 400_001, retstep=True)
    density = jnp.exp(PROPER[name].coordinate_log_prob(u, signed=signed))
    np.testing.assert_allclose(jnp.sum(density) * step, 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_density_of_coordinates_is_that_of_the_noise(name, float64):
    mixture, u = PROPER[name], jnp.linspace(-3.0, 3.0, 13)
    slope = jax.vmap(jax.grad(mixture.to_noise))(u)
    expected = mixture.log_prob(mixture.to_noise(u)) + jnp.log(jnp.abs(slope))
    np.testing.assert_allclose(mixture.coordinate_log_prob(u), expected, rtol=1e-9, atol=1e-9)


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.floats(0.03, 30.0), st.floats(0.03, 30.0))
def test_bounded_noise_loses_no_mass_in_single_precision(a, b):
    """Noise that is rounded to its end has no density there, or an infinite one."""
    # The tails fall as exp(a u) and exp(-b u).
    u = np.linspace(-20 / min(a, 1), 20 / min(b, 1), 40_001)
    for mixture in (sx.Beta(a, b), sx.Uniform(a, a + b)):
        log_density = mixture.coordinate_log_prob(jnp.asarray(u, jnp.float32))
        mass = np.sum(np.exp(np.asarray(log_density, float))) * (u[1] - u[0])
        assert mass == pytest.approx(1.0, rel=2e-4)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_coordinates_lead_back(name, signed, float64):
    mixture, u = PROPER[name], jnp.linspace(-3.0, 3.0, 13)
    noise = mixture.to_noise(u, signed=signed)
    low, high = mixture.support
    assert np.all((noise > low) & (noise < high))
    assert signed or np.all(noise > 0)
    np.testing.assert_allclose(mixture.to_coordinate(noise, signed=signed), u, atol=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_bits_are_the_coordinates_of_discrete_noise(name):
    mixture, bits = PROPER[name], jnp.array([True, False])
    noise = mixture.to_noise(bits)
    np.testing.assert_array_equal(mixture.to_coordinate(noise), bits)
    mass = np.exp(mixture.coordinate_log_prob(bits))
    np.testing.assert_allclose(mass.sum(), 1.0, rtol=1e-6)
    np.testing.assert_allclose(mass @ noise, mixture.mean, rtol=1e-6)
