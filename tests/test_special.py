import jax
import jax.numpy as jnp
import numpy as np
import scipy.special as sp

from scalemix._special import log_gamma_half_step, log_scaled_exp1


def test_scaled_exponential_integral(float64):
    c = np.concatenate([10.0 ** np.linspace(-12, 2.6, 200), [1 - 1e-9, 1.0, 1 + 1e-9]])
    expected = np.log(sp.exp1(c)) + c
    np.testing.assert_allclose(log_scaled_exp1(c), expected, rtol=1e-11, atol=1e-12)


def test_scaled_exponential_integral_in_float32_tails():
    # 1/(c+1) < exp(c) E1(c) < 1/c: both bounds meet far out.
    c = jnp.float32(10.0) ** jnp.arange(4, 31, dtype=jnp.float32)
    np.testing.assert_allclose(log_scaled_exp1(c), -jnp.log(c), rtol=1e-4)
    slopes = jax.vmap(jax.grad(log_scaled_exp1))(c)
    np.testing.assert_allclose(slopes * c, -1.0, rtol=2e-4)


def test_gamma_half_step(float64):
    a = 10.0 ** np.linspace(-3, 5, 60)
    np.testing.assert_allclose(log_gamma_half_step(a), np.log(sp.poch(a, 0.5)), rtol=1e-11)


def test_gamma_half_step_keeps_its_digits_in_float32():
    a = jnp.float32(10.0) ** jnp.arange(2, 12, dtype=jnp.float32)
    np.testing.assert_allclose(log_gamma_half_step(a), 0.5 * jnp.log(a) - 1 / (8 * a), atol=3e-6)
