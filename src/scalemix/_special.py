"""Special functions in forms that are accurate in float32 at extreme arguments."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from scalemix._parameters import as_array

EULER_GAMMA = 0.5772156649015329
LOG_2PI = math.log(2 * math.pi)


def log_normal(x: Array, scale: ArrayLike) -> Array:
    """Log density of `N(0, scale^2)`."""
    return -0.5 * (LOG_2PI + (x / scale) ** 2) - jnp.log(scale)


def inside(condition: Array, value: Array) -> Array:
    """`value` on the support, minus infinity off it."""
    return jnp.where(condition, value, -jnp.inf)


def positive_part(x: ArrayLike) -> tuple[Array, Array]:
    """Where x is positive, and x with one elsewhere, so that gradients stay finite there."""
    x = as_array(x)
    return x > 0, jnp.where(x > 0, x, 1.0)


@jax.jit
@jnp.vectorize
def log_scaled_exp1(c: Array) -> Array:
    """`log(exp(c) E1(c))` for c > 0, without overflow and without losing the tail.

    E1 alone underflows near c = 88 in float32, so the scaled form cannot be computed from it.
    """
    small = jnp.where(c < 1, c, 1.0)
    large = jnp.where(c < 1, 1.0, c)
    # E1(c) = -gamma - log c - sum_{k>0} (-c)^k / (k k!), which converges fast below one.
    coefficients = [-((-1.0) ** k) / (k * math.factorial(k)) for k in range(20, 0, -1)] + [0.0]
    series = jnp.polyval(jnp.asarray(coefficients, c.dtype), small)
    near = small + jnp.log(series - EULER_GAMMA - jnp.log(small))
    # exp(c) E1(c) = int_0^inf exp(-u) / (c + u) du by Gauss-Laguerre: every term is positive. 1/c
    # is taken out, because its square, which the derivative would need, leaves float32 first.
    nodes, weights = np.polynomial.laguerre.laggauss(24 if c.dtype == jnp.float32 else 96)
    terms = jnp.asarray(weights, c.dtype) / (1 + jnp.asarray(nodes, c.dtype) / large)
    far = jnp.log(jnp.sum(terms)) - jnp.log(large)
    return jnp.where(c < 1, near, far)


@jax.jit
@jnp.vectorize
def log_gamma_half_step(a: Array) -> Array:
    """`log(Gamma(a + 1/2) / Gamma(a))` for a > 0.

    The difference of two log-gammas loses every digit when a is large; this loses none.
    """
    # Gamma(a + 1/2) / Gamma(a) = a / (a + 1/2) * Gamma(a + 3/2) / Gamma(a + 1): sixteen such steps
    # lead to where the asymptotic series is exact to double precision.
    steps = 16
    b = a + steps
    r = 1 / (b * b)
    series = (-1 / 8 + r * (1 / 192 + r * (-1 / 640 + r * 17 / 14336))) / b
    back = jnp.sum(jnp.log1p(0.5 / (a + jnp.arange(steps, dtype=a.dtype))))
    return 0.5 * jnp.log(b) + series - back
