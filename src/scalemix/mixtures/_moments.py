"""`E[xi^-2]` of families that have no closed form of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix._pareto import smooth, tail_shape

if TYPE_CHECKING:
    from scalemix.mixtures._base import ScaleMixture

# Coordinates are the logarithm or the logit of the noise. So far from its median, at 1e-18 and 1e18
# times its unit, a density is taken to be a power of the noise.
FARTHEST = 42.0
NUM_NODES = 2049
# A few draws tell where the nodes are needed.
NUM_SCOUTS = 256
# A tail that falls more slowly than this power of the noise does not fall.
SLOWEST = 1e-3
# How far the integral of a density may be from one. Rounding of its constant cancels.
TOLERANCE = 0.05

NUM_DRAWS = 2**14
# Where the draws of xi^-2 have a heavier tail than this, the error of their mean is unknown.
LARGEST_K = 0.5


# Compiled, for there are many nodes and few families.
@eqx.filter_jit
def find_inverse_square_mean(mixture: "ScaleMixture") -> Array:
    """`E[xi^-2]`, from the density, or from draws where `log_prob` is not implemented."""
    if mixture.is_discrete:
        bits = jnp.array([False, True])
        return of_two_values(mixture.coordinate_log_prob(bits), mixture.to_noise(bits))

    def log_noise(u: Array) -> Array:
        return jnp.log(jnp.abs(mixture.to_noise(u, signed=False)))

    def log_density(u: Array) -> Array:
        return mixture.coordinate_log_prob(u, signed=False)

    # Always the same draws, so that all steps of training see one number.
    key = jax.random.key(0)
    try:
        scouts = mixture.to_coordinate(mixture.sample((NUM_SCOUTS,), key=key), signed=False)
        return by_quadrature(log_density, log_noise, scouts)
    except NotImplementedError:
        return by_draws(mixture.sample((NUM_DRAWS,), key=key))


def by_quadrature(
    log_density: Callable[[Array], Array], log_noise: Callable[[Array], Array], scouts: Array
) -> Array:
    """`int p(u) xi(u)^-2 du` over coordinates u that may be any real numbers.

    By the trapezoidal rule in v, where `u = centre + width sinh(v)`, with the centre and the width
    of some draws of u: it gains digits with every node, be the density narrow or its tails long. It
    is infinite where the integrand does not fall towards small noise, and not a number where the
    density itself does not integrate to one.
    """
    low, centre, high = jnp.quantile(jax.lax.stop_gradient(scouts), jnp.array([0.16, 0.5, 0.84]))
    width = jnp.maximum(0.5 * (high - low), 1e-5)
    end = jnp.arcsinh(FARTHEST / width)
    v = jnp.asarray(np.linspace(-1, 1, NUM_NODES), width.dtype) * end
    nodes = centre + width * jnp.sinh(v)
    log_steps = jnp.log(width * jnp.cosh(v) * (2 * end / (NUM_NODES - 1)))
    log_steps = log_steps.at[np.array([0, -1])].add(-np.log(2))
    density = jax.vmap(log_density)(nodes)
    integrand = density - 2 * jax.vmap(log_noise)(nodes)
    mass, mean = _integral(density, nodes, log_steps), _integral(integrand, nodes, log_steps)
    return jnp.where(jnp.abs(mass - 1) < TOLERANCE, mean / mass, jnp.nan)


def _integral(log_values: Array, nodes: Array, log_steps: Array) -> Array:
    """The integral of the exponential of values at the nodes, and of the tails beyond these."""
    inner = jnp.exp(jax.nn.logsumexp(log_values + log_steps))
    tails = _tail(log_values, nodes) + _tail(log_values[::-1], -nodes[::-1])
    return inner + tails


def _tail(log_values: Array, nodes: Array) -> Array:
    """What lies before the first node, where the values rise as `exp(slope u)`."""
    first, there = log_values[0], log_values[0] > -jnp.inf
    rise = jnp.where(there, log_values[8], 1.0) - jnp.where(there, first, 0.0)
    slope = rise / (nodes[8] - nodes[0])
    rises = slope > SLOWEST
    beyond = jnp.exp(first) / jnp.where(rises, slope, 1.0)
    return jnp.where(there, jnp.where(rises, beyond, jnp.inf), 0.0)


def by_draws(noise: Array) -> Array:
    """The mean of `xi^-2` over draws, with its tail smoothed.

    It is infinite where the tail is so heavy that draws cannot tell, whether the mean exists or
    not.
    """
    log_squares = -2 * jnp.log(jnp.where(noise == 0, 1.0, jnp.abs(noise)))
    smoothed = smooth(log_squares)
    mean = jnp.exp(jnp.max(log_squares)) * jnp.mean(jnp.exp(smoothed.log_weights))
    tame = (tail_shape(log_squares) < LARGEST_K) & ~jnp.any(noise == 0)
    return jnp.where(tame, mean, jnp.inf)


def of_two_values(log_masses: Array, noise: Array) -> Array:
    """The mean of `xi^-2` over noise that takes one of two values."""
    masses = jnp.exp(log_masses)
    return jnp.sum(jnp.where(masses > 0, masses / jnp.where(masses > 0, noise, 1.0) ** 2, 0.0))
