"""Statistics of a predictive distribution at one row: functions of the outputs of all its draws.

`outputs[s]` is the output of draw `s`, and `draws` holds the likelihood of each draw. Every
statistic gives a tuple of arrays.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix.likelihoods import Likelihood

BISECTIONS = 60
# Ends of distributions are looked for within sinh(FARTHEST) spreads of the mean, the square of
# which single precision still holds.
FARTHEST = 44.0


class DrawnLikelihoods(NamedTuple):
    """The likelihoods of all draws."""

    varying: Any
    """Their arrays, which have a leading axis of draws."""
    fixed: Any
    """All else, which is the same for all."""

    @property
    def kind(self) -> Likelihood:
        """The likelihood of the first draw."""
        return eqx.combine(jax.tree.map(lambda leaf: leaf[0], self.varying), self.fixed)

    def each(self, function: Callable[..., Array], *by_draw: Array) -> Array:
        """`function(likelihood, ...)` for each draw."""
        return jax.vmap(lambda v, *rest: function(eqx.combine(v, self.fixed), *rest))(
            self.varying, *by_draw
        )


def moments(draws: DrawnLikelihoods, outputs: Array) -> tuple[Array, Array, Array]:
    """The mean of the target, the variance of the draws' means, the mean of their variances."""
    means = draws.each(lambda likelihood, out: likelihood.mean(out), outputs)
    variances = draws.each(lambda likelihood, out: likelihood.variance(out), outputs)
    return jnp.mean(means, axis=0), jnp.var(means, axis=0), jnp.mean(variances, axis=0)


def log_prob(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """`log (1/S) sum_s p(y | x, W_s)`."""
    values = draws.each(lambda likelihood, out: likelihood.log_prob(out, y), outputs)
    return (jax.nn.logsumexp(values) - jnp.log(values.shape[0]),)


def cdf(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """The probability of a target at or below y."""
    return (jnp.mean(draws.each(lambda likelihood, out: likelihood.cdf(out, y), outputs)),)


def absolute_error(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """`(1/S) sum_s |y - f_s(x)|`."""
    means = draws.each(lambda likelihood, out: likelihood.mean(out), outputs)
    return (jnp.mean(jnp.abs(y.astype(outputs.dtype) - means)),)


def lower_end(draws: DrawnLikelihoods, outputs: Array, tail: Array) -> tuple[Array]:
    """The root of `cdf(y) = tail`."""
    return _root(draws, outputs, lambda y: cdf(draws, outputs, y)[0] < tail)


def upper_end(draws: DrawnLikelihoods, outputs: Array, tail: Array) -> tuple[Array]:
    """The root of `sf(y) = tail`. A cdf near one has lost its digits in single precision."""

    def above(y: Array) -> Array:
        return jnp.mean(draws.each(lambda likelihood, out: likelihood.sf(out, y), outputs))

    return _root(draws, outputs, lambda y: above(y) > tail)


def _root(
    draws: DrawnLikelihoods, outputs: Array, is_low: Callable[[Array], Array]
) -> tuple[Array]:
    """Where `is_low` ceases to hold, by bisection."""
    mean, between, within = moments(draws, outputs)
    spread = jnp.sqrt(between + within)
    spread = jnp.where(jnp.isfinite(spread) & (spread > 0), spread, 1.0)

    # In u with y = mean + spread * sinh(u), the heaviest tails are a few steps away.
    def at(u: Array) -> Array:
        return mean + spread * jnp.sinh(u)

    def halve(_, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        low_there = is_low(at(middle))
        return jnp.where(low_there, middle, low), jnp.where(low_there, high, middle)

    ends = jnp.full_like(mean, -FARTHEST), jnp.full_like(mean, FARTHEST)
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, ends)
    if draws.kind.discrete:
        return (jnp.floor(at(high) + 1e-3),)
    return (at(0.5 * (low + high)),)


class Sampler(eqx.Module):
    """A statistic: a target for each draw, with randomness of its own for each row."""

    key: PRNGKeyArray

    def __call__(self, draws: DrawnLikelihoods, outputs: Array, row: Array) -> tuple[Array]:
        keys = jax.random.split(jax.random.fold_in(self.key, row), outputs.shape[0])
        return (draws.each(lambda lik, out, k: lik.sample(out, key=k), outputs, keys),)
