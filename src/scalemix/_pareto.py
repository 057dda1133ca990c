"""The tail of importance weights: a generalised Pareto distribution, fitted and put in its place.

References
----------
Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance
sampling. Journal of Machine Learning Research 25(72).

Zhang, J. and Stephens, M. A. (2009). A new and efficient estimation method for the generalized
Pareto distribution. Technometrics 51(3).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

# A tail of fewer weights is not fitted, and fewer weights have no such tail.
LEAST_TAIL = 5
LEAST_DRAWS = 21
# Zhang and Stephens: how many values of b are weighed against each other besides sqrt(n) more, and
# by how much a quarter quantile is stretched to give their scale.
NUM_CANDIDATES = 30
STRETCH = 3
# The estimate of k is drawn towards a half with the weight of so many observations.
PRIOR_WEIGHT = 10


class Smoothed(NamedTuple):
    """Log weights whose tail follows the fitted distribution, and the shape of that tail."""

    log_weights: Array
    """Not normalised: the largest is at most zero."""
    k: Array
    """k-hat; infinite where there is no tail to fit."""


def tail_length(num_weights: int) -> int:
    """How many of so many weights are their tail, `min(S / 5, 3 sqrt(S))`, rounded up."""
    return math.ceil(min(num_weights / 5, 3 * math.sqrt(num_weights)))


@jax.jit
def smooth(log_weights: Array) -> Smoothed:
    """Pareto-smoothed weights, and the estimate k-hat, of log weights along the only axis.

    The largest weights are replaced by the quantiles of a generalised Pareto distribution that is
    fitted to their excess over the largest weight that is not among them. No weight comes out
    larger than the largest that went in. Where fewer than five weights are above that one, because
    weights are few or tie, all stay as they are.
    """
    centred = log_weights - jnp.max(log_weights)
    size = tail_length(len(log_weights))
    if size < LEAST_TAIL:
        return Smoothed(centred, jnp.full((), jnp.inf, centred.dtype))
    order = jnp.argsort(centred)
    ranked = centred[order]
    least = jnp.log(jnp.finfo(centred.dtype).tiny)
    cutoff = jnp.maximum(ranked[-size - 1], least)
    # The tail has at most `size` weights. Fewer are above the cutoff where some tie with it.
    top = ranked[-size:]
    above = top > cutoff
    excess = jnp.where(above, jnp.exp(top) - jnp.exp(cutoff), 0.0)
    k, scale = fit_tail(excess, above)
    num = jnp.sum(above, dtype=top.dtype)
    fitted = (num >= LEAST_TAIL) & jnp.isfinite(k) & (scale > 0)
    place = jnp.cumsum(above, dtype=top.dtype) - 0.5
    share = jnp.where(above, place / jnp.maximum(num, 1), 0.5)
    quantiles = _quantile(share, jnp.where(fitted, k, 0.5), jnp.where(fitted, scale, 1.0))
    smoothed = jnp.minimum(jnp.log(quantiles + jnp.exp(cutoff)), 0.0)
    ranked = ranked.at[-size:].set(jnp.where(above & fitted, smoothed, top))
    return Smoothed(jnp.zeros_like(ranked).at[order].set(ranked), jnp.where(fitted, k, jnp.inf))


def tail_shape(log_weights: Array) -> Array:
    """k-hat of log weights along the only axis, where weights that tie at the top have no tail.

    It is minus infinity if more draws share the largest weight than a tail has.
    """
    largest = jnp.sum(log_weights == jnp.max(log_weights))
    shared = largest > tail_length(len(log_weights))
    return jnp.where(shared, -jnp.inf, smooth(log_weights).k)


def fit_tail(excess: Array, counted: Array) -> tuple[Array, Array]:
    """The shape k and the scale of the generalised Pareto distribution of some excesses.

    They rise along the only axis, and those that are counted come last. With `b = -k / scale`, the
    estimate of b is its mean under its profile likelihood times a weak prior.
    """
    size, dtype = len(excess), excess.dtype
    num = jnp.sum(counted, dtype=dtype)
    safe_num = jnp.maximum(num, 1)
    num_candidates = NUM_CANDIDATES + jnp.floor(jnp.sqrt(num))
    rank = jnp.arange(1, NUM_CANDIDATES + math.isqrt(size) + 1, dtype=dtype)
    quarter = size - num + jnp.floor(num / 4 + 0.5) - 1
    spread = STRETCH * excess[jnp.clip(quarter, 0, size - 1).astype(int)]
    b = 1 / excess[-1] + (1 - jnp.sqrt(num_candidates / (rank - 0.5))) / spread

    def shape(b: Array) -> Array:
        return jnp.sum(jnp.where(counted, jnp.log1p(-b * excess), 0.0)) / safe_num

    ks = jax.vmap(shape)(b)
    log_likelihood = num * (jnp.log(-b / ks) - ks - 1)
    usable = (rank <= num_candidates) & ~jnp.isnan(log_likelihood)
    weights = jax.nn.softmax(jnp.where(usable, log_likelihood, -jnp.inf))
    weights = jnp.where(weights >= 10 * jnp.finfo(dtype).eps, weights, 0.0)
    mean_b = jnp.sum(jnp.where(weights > 0, b, 0.0) * weights) / jnp.sum(weights)
    k = shape(mean_b)
    return (num * k + 0.5 * PRIOR_WEIGHT) / (num + PRIOR_WEIGHT), -k / mean_b


def _quantile(share: Array, k: Array, scale: Array) -> Array:
    """The quantiles of a generalised Pareto distribution, `scale ((1 - share)^-k - 1) / k`."""
    flat = jnp.abs(k) < jnp.finfo(k.dtype).eps
    log_rest = jnp.log1p(-share)
    curved = jnp.expm1(-k * log_rest) / jnp.where(flat, 1.0, k)
    return scale * jnp.where(flat, -log_rest, curved)
