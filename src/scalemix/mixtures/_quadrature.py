"""Integrals of the marginal priors that have no closed form in JAX."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

# Contributions below exp(-DROP) of the peak are left out: they do not reach the last bit, even in
# float64.
DROP = 45.0
BISECTIONS = 60
NUM_NODES = 80


def log_integral(
    log_integrand: Callable[..., Array], lower: Array, upper: Array, *parameters: Array
) -> Array:
    """`log int_lower^upper exp(log_integrand(t, *parameters)) dt` for scalars and one peak.

    First the peak is located, then the points on either side where the integrand is negligible, and
    Gauss-Legendre nodes are placed in between. Derivatives flow through the parameters and the
    limits, not through the search.
    """
    frozen = jax.lax.stop_gradient(parameters)
    low, high = jax.lax.stop_gradient((lower, upper))

    def value(t: Array) -> Array:
        return log_integrand(t, *frozen)

    # The sign of the slope locates the peak even where the values themselves tie in float32.
    _, mode = _bisect(lambda t: jax.grad(value)(t) > 0, low, high)
    peak = value(mode)
    left, _ = _bisect(lambda t: value(t) < peak - DROP, low, mode)
    _, right = _bisect(lambda t: value(t) >= peak - DROP, mode, high)
    left = jnp.where(left > low, left, lower)
    right = jnp.where(right < high, right, upper)
    mode = jnp.where(mode < high, mode, upper)
    return log_sum_exp(
        _panel(log_integrand, left, mode, parameters),
        _panel(log_integrand, mode, right, parameters),
    )


def log_sum_exp(a: Array, b: Array) -> Array:
    """`log(exp(a) + exp(b))` whose two partial derivatives always add up to one.

    Those of `jnp.logaddexp` do not once log 2 is below the last bit of a and b.
    """
    return jax.nn.logsumexp(jnp.stack([a, b]), axis=0)


def _bisect(is_left: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """The ends of a last, tiny interval: `is_left` holds at the first and not at the second."""

    def halve(_, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        right_half = is_left(middle)
        return jnp.where(right_half, middle, low), jnp.where(right_half, high, middle)

    return jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))


def _panel(log_integrand, start: Array, stop: Array, parameters: tuple[Array, ...]) -> Array:
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    nodes, weights = jnp.asarray(nodes, start.dtype), jnp.asarray(weights, start.dtype)
    half = 0.5 * (stop - start)
    values = log_integrand(0.5 * (stop + start) + half * nodes, *parameters)
    # A panel is empty where the peak is at a limit: it contributes nothing, and no gradient.
    filled = half > 0
    total = jnp.log(jnp.where(filled, half, 1.0)) + jax.nn.logsumexp(values, b=weights)
    return jnp.where(filled, total, -jnp.inf)
