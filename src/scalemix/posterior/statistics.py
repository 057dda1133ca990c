"""Statistics of a predictive distribution at one row: functions of the outputs of all its draws.

`outputs[s]` is the output of draw `s`, and `draws` holds the likelihood of each draw. Every
statistic gives a tuple of arrays.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix.likelihoods import Likelihood

# More steps than any search for a root takes, be each of them a mere bisection.
MOST_STEPS = 160
# Ends of distributions are looked for within sinh(FARTHEST) spreads of the mean, the square of
# which single precision still holds.
FARTHEST = 44.0
# Where targets have a least value, ends are looked for in their logarithms or log-odds.
FARTHEST_LOG = 80.0


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


def means(draws: DrawnLikelihoods, outputs: Array) -> tuple[Array]:
    """The mean of the target under each draw."""
    return (draws.each(lambda likelihood, out: likelihood.mean(out), outputs),)


def log_prob(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """`log (1/S) sum_s p(y | x, W_s)`."""
    values = draws.each(lambda likelihood, out: likelihood.log_prob(out, y), outputs)
    return (jax.nn.logsumexp(values) - jnp.log(values.shape[0]),)


def cdf(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """The probability of a target at or below y."""
    return (jnp.mean(draws.each(lambda likelihood, out: likelihood.cdf(out, y), outputs), axis=0),)


def sf(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """The probability of a target above y."""
    return (jnp.mean(draws.each(lambda likelihood, out: likelihood.sf(out, y), outputs), axis=0),)


def tail(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """The probability of a target as far out as y, on the side of the distribution where y lies."""
    # Whole numbers at or above y are those above the one before.
    above = sf(draws, outputs, y - 1 if draws.kind.discrete else y)[0]
    return (jnp.minimum(cdf(draws, outputs, y)[0], above),)


def sf_at_levels(draws: DrawnLikelihoods, outputs: Array, levels: Array) -> tuple[Array]:
    """The probability of a target above each of several levels."""
    return (jax.lax.map(lambda y: sf(draws, outputs, y)[0], levels),)


def information(draws: DrawnLikelihoods, outputs: Array) -> tuple[Array, Array]:
    """The entropy of the class, and how much of it knowing the network would take away, in nats.

        H(mean_s p_s) - mean_s H(p_s)

    The latter is the mutual information of class and network (Houlsby et al. 2011).
    """
    shares = draws.each(lambda likelihood, out: likelihood.mean(out), outputs)
    if shares.ndim == 1:
        shares = jnp.stack([1 - shares, shares], axis=-1)

    def entropy(p: Array) -> Array:
        return -jnp.sum(jax.scipy.special.xlogy(p, p), axis=-1)

    total = entropy(jnp.mean(shares, axis=0))
    # Not below zero, which rounding could make it.
    return total, jnp.maximum(total - jnp.mean(entropy(shares)), 0.0)


def absolute_error(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array]:
    """`(1/S) sum_s |y - f_s(x)|`."""
    means = draws.each(lambda likelihood, out: likelihood.mean(out), outputs)
    return (jnp.mean(jnp.abs(y.astype(outputs.dtype)[None] - means), axis=0),)


def ends(draws: DrawnLikelihoods, outputs: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
    """The lower ends and the upper ends for several tails each, of which there may be none.

    The former are roots of `cdf(y) = tail`, the latter of `sf(y) = tail`: a cdf near one has lost
    its digits in single precision. One after the other, so that many levels take no more memory
    than one, and by one search for both kinds, which takes half as long to compile.
    """

    def end(is_upper: Array, tail: Array) -> Array:
        def gap(y: Array) -> tuple[Array, Array]:
            def above() -> tuple[Array, Array]:
                share = sf(draws, outputs, y)[0]
                return tail - share, share > tail

            def below() -> tuple[Array, Array]:
                share = cdf(draws, outputs, y)[0]
                return share - tail, share < tail

            return jax.lax.cond(is_upper, above, below)

        # The gap far out on either side, where all or nothing lies beyond.
        far = jnp.where(is_upper, tail - 1, -tail), jnp.where(is_upper, tail, 1 - tail)
        return _root(draws, outputs, gap, far)

    is_upper = np.repeat([False, True], [len(lower), len(upper)])
    tails = jnp.concatenate([lower, upper])
    # Which kind it is, is the same at every row: only one of the two is evaluated.
    values = jax.lax.map(lambda each: end(*each), (is_upper, tails)) if len(tails) else tails
    return values[: len(lower)], values[len(lower) :]


Gap = Callable[[Array], tuple[Array, Array]]
"""A function of the target that never falls, and whether it is negative.

The latter is told by a comparison, which is exact where a difference rounds, or is lost because it
is smaller than any number.
"""


def _root(draws: DrawnLikelihoods, outputs: Array, gap: Gap, far: tuple[Array, Array]) -> Array:
    """Where a function of the target that never falls ceases to be negative.

    `far` is the function's value far out on either side.
    """
    if draws.kind.discrete:
        return _enclose(gap, _whole_ends(draws, outputs, far), far, whole=True)[1]
    at, farthest = _coordinate(draws, outputs)
    low, high = _enclose(lambda u: gap(at(u)), (-farthest, farthest), far)
    return at(0.5 * (low + high))


def _whole_ends(
    draws: DrawnLikelihoods, outputs: Array, far: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Whole numbers from zero, or one less, that a quantile lies between.

    By Cantelli's inequality, that of the level `p` lies within `sqrt((1 - p) / p)` deviations below
    the mean, and `sqrt(p / (1 - p))` above it.
    """
    mean, between, within = moments(draws, outputs)
    spread = jnp.sqrt(between + within)
    share, rest = -far[0], far[1]
    # Some more, for all of this is rounded; and the whole numbers beside it.
    low = jnp.floor(mean - 1.01 * spread * jnp.sqrt(rest / share)) - 2
    high = jnp.ceil(mean + 1.01 * spread * jnp.sqrt(share / rest)) + 2
    most = 0.25 * jnp.finfo(mean.dtype).max
    # Where the moments overflow, all that a number can be.
    return jnp.where(low > -1, jnp.minimum(low, most), -1.0), jnp.where(high < most, high, most)


def _coordinate(draws: DrawnLikelihoods, outputs: Array) -> tuple[Callable[[Array], Array], Array]:
    """Targets as a function of a number in which their ends are near, and how far to look."""
    mean, between, within = moments(draws, outputs)
    lowest, highest = draws.kind.support
    if lowest == 0 and highest == 1:
        # Log-odds; the mean may have rounded to an end.
        centre = jax.scipy.special.logit(jnp.clip(mean, 1e-30, 1 - jnp.finfo(mean.dtype).epsneg))
        return lambda u: jax.nn.sigmoid(centre + u), jnp.full_like(mean, FARTHEST_LOG)
    if lowest == 0:
        # One draw makes the mean infinite; ends then lie below it, and are looked for there.
        centre = jnp.minimum(mean, jnp.sqrt(jnp.finfo(mean.dtype).max))
        return lambda u: centre * jnp.exp(u), jnp.full_like(mean, FARTHEST_LOG)
    spread = jnp.sqrt(between + within)
    spread = jnp.where(jnp.isfinite(spread) & (spread > 0), spread, 1.0)
    # In u with y = mean + spread * sinh(u), the heaviest tails are a few steps away.
    return lambda u: mean + spread * jnp.sinh(u), jnp.full_like(mean, FARTHEST)


class _Search(NamedTuple):
    """The latest point of a search, an older one on the other side of the root, and the one before.

    Each comes with the function's value there.
    """

    latest: tuple[Array, Array]
    opposite: tuple[Array, Array]
    before: tuple[Array, Array]
    is_low: Array
    """Whether the latest point lies below the root."""
    num_steps: Array

    @property
    def width(self) -> Array:
        return jnp.abs(self.latest[0] - self.opposite[0])


def _enclose(
    gap: Gap, ends: tuple[Array, Array], far: tuple[Array, Array], *, whole: bool = False
) -> tuple[Array, Array]:
    """Two points next to each other: the last where the gap is negative, and the first where not.

    `far` is its value at the ends of what is searched, or beyond them. With `whole`, points are
    whole numbers, as far as the type tells them apart. All of it goes entry by entry, where there
    are several targets.

    Chandrupatla's method (1997): a step of inverse quadratic interpolation wherever three points
    say that it is safe, else a bisection. A smooth distribution takes one or two dozen evaluations,
    each of which is one of all draws.
    """
    eps = jnp.finfo(ends[0].dtype).eps

    def least(search: _Search) -> Array:
        size = jnp.abs(search.latest[0])
        return jnp.maximum(0.5, eps * size) if whole else eps * (1 + size)

    def goes_on(search: _Search) -> Array:
        return (search.width > 2 * least(search)) & (search.num_steps < MOST_STEPS)

    def step(search: _Search) -> _Search:
        (a, fa), (b, fb), (c, fc) = search.latest, search.opposite, search.before
        place, value = (a - b) / (c - b), (fa - fb) / (fc - fb)
        is_safe = (value**2 < place) & ((1 - value) ** 2 < 1 - place)
        share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
            fc - fb
        )
        share = jnp.where(is_safe & jnp.isfinite(share), share, 0.5)
        # A value of exactly zero may be one of many: between modes far apart a distribution is
        # level. A short step tells, and bisections lead to where it began.
        near = jnp.sqrt(eps) / search.width
        is_new = (fa == 0) & (fc != 0) & (near < 0.5)
        share = jnp.where((fa == 0) | (fb == 0), jnp.where(is_new, near, 0.5), share)
        margin = jnp.minimum(least(search) / search.width, 0.5)
        x = a + jnp.clip(share, margin, 1 - margin) * (b - a)
        if whole:
            x = jnp.clip(jnp.round(x), jnp.minimum(a, b) + 1, jnp.maximum(a, b) - 1)
        fx, is_low = gap(x)
        same_side = is_low == search.is_low
        opposite, before = (
            jax.tree.map(lambda one, other: jnp.where(same_side, one, other), *pair)
            for pair in ((search.opposite, search.latest), (search.latest, search.opposite))
        )
        moved = _Search((x, fx), opposite, before, is_low, search.num_steps + 1)
        # Entries that have arrived stay where they are.
        active = goes_on(search)
        return jax.tree.map(lambda new, old: jnp.where(active, new, old), moved, search)

    low, high = (ends[0], far[0]), (ends[1], far[1])
    is_low, num_steps = jnp.ones(ends[0].shape, bool), jnp.zeros(ends[0].shape, jnp.int32)
    # There is no third point yet, so that `place` is no number and the first step a bisection.
    first = _Search(low, high, high, is_low, num_steps)
    last = jax.lax.while_loop(lambda search: jnp.any(goes_on(search)), step, first)
    a, b = last.latest[0], last.opposite[0]
    return jnp.minimum(a, b), jnp.maximum(a, b)


class Sampler(eqx.Module):
    """A statistic: a target for each draw, with randomness of its own for each row."""

    key: PRNGKeyArray

    def __call__(self, draws: DrawnLikelihoods, outputs: Array, row: Array) -> tuple[Array]:
        keys = jax.random.split(jax.random.fold_in(self.key, row), outputs.shape[0])
        return (draws.each(lambda lik, out, k: lik.sample(out, key=k), outputs, keys),)
