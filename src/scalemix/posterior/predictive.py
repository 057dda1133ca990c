"""Predictive distributions that stream over rows and draws."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import check_key
from scalemix.data.checks import check_targets, targets_as_seen
from scalemix.data.scaling import Scaling
from scalemix.likelihoods import Likelihood
from scalemix.posterior.calibration import tail_probability

# Outputs held at a time, as a count of numbers: 32 MB in float32.
OUTPUTS_AT_A_TIME = 8 * 1024**2
ROWS_AT_A_TIME = 8192
# Few rows are filled up to so many: one program for all of them, at no price that can be felt.
LEAST_ROWS = 64
# Draws go through the network side by side until they make up so many rows.
ROWS_TOGETHER = 2048
BISECTIONS = 60
# Ends of distributions are looked for within sinh(FARTHEST) spreads: the square of that is still a
# number in single precision.
FARTHEST = 44.0


class Drawn(NamedTuple):
    """One draw: a network, and the likelihood that it was learned with."""

    network: Any
    likelihood: Likelihood


class Regime(NamedTuple):
    """Where outputs come from and what they mean."""

    draw: Callable[[Array, PRNGKeyArray], Drawn]
    """(index, key) -> one draw. An index is a place among what can be drawn from."""
    likelihood: Likelihood
    """The kind of likelihood, for its number of outputs and its type of target."""
    scaling: Scaling
    key: PRNGKeyArray
    score_spread: float = 1.0
    """The spread of normal scores on held-out rows: see `scalemix.posterior.calibration`."""
    num_places: int = 1
    """How many indices there are before draws come round again."""


class Predictive:
    """The distribution of targets: the average of the likelihood over draws of the network.

    `std` has two parts, `std^2 = epistemic^2 + aleatoric^2`: what more data could tell, and what
    they could not. Arrays have one entry a row; for classes, one a row and class.
    """

    # Inputs come as the network sees them, standardised if it wants them so.
    def __init__(self, regime: Regime, x: np.ndarray, num_draws: int, indices: Array | None = None):
        self.num_draws = num_draws
        # One after the other, so that all places have their share, unless said otherwise.
        self._indices = jnp.arange(num_draws) if indices is None else indices
        self._regime, self._x = regime, x
        self._float = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else np.float32

    def __len__(self) -> int:
        return len(self._x)

    @property
    def mean(self) -> np.ndarray:
        """The mean of the target; for classes, their probabilities."""
        return self._moments[0] * self._regime.scaling.y_scale + self._regime.scaling.y_mean

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of the target."""
        return np.sqrt(self._moments[1] + self._moments[2]) * self._regime.scaling.y_scale

    @property
    def epistemic(self) -> np.ndarray:
        """The part of `std` from not knowing the network: the spread of its means."""
        return np.sqrt(self._moments[1]) * self._regime.scaling.y_scale

    @property
    def aleatoric(self) -> np.ndarray:
        """The part of `std` that the likelihood has under every network."""
        return np.sqrt(self._moments[2]) * self._regime.scaling.y_scale

    @cached_property
    def _moments(self) -> tuple[np.ndarray, ...]:
        found = self._stream(_moments)
        # The variance of single targets may be infinite; their means and the spread of these not.
        lost = np.argwhere(~np.isfinite(found[0] + found[1]))
        if len(lost):
            raise ValueError(_too_far("mean", lost[0][0]))
        return found

    def log_prob(self, y: Any) -> np.ndarray:
        """`log (1/S) sum_s p(y | x, W_s)` for each row: a log density, or a log mass."""
        (value,) = self._stream(_log_prob, self._targets(y))
        return value - np.log(self._regime.scaling.y_scale)

    def cdf(self, y: Any) -> np.ndarray:
        """The probability of a target at or below y, for each row."""
        return self._stream(_cdf, self._targets(y))[0]

    def quantile(self, q: float) -> np.ndarray:
        """The value that a target exceeds with probability 1 - q, for each row."""
        if not (isinstance(q, float | np.floating) and 0 < q < 1):
            raise ValueError(f"A quantile's level is one number in (0, 1), got {q!r}.")
        return self._end(1 - q, upper=True) if q > 0.5 else self._end(q, upper=False)

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the central interval of this probability.

        Where a part of the data was held out to choose settings (`fit_stacked`, the estimators), it
        is the interval that would have covered so many of the targets there: somewhat wider or
        narrower than the quantiles of the distribution say. See `scalemix.posterior.calibration`.
        """
        if not 0 < probability < 1:
            raise ValueError(f"An interval's probability must lie in (0, 1), got {probability}.")
        tail = tail_probability(probability, self._regime.score_spread)
        return self._end(tail, upper=False), self._end(tail, upper=True)

    def _end(self, tail: float, *, upper: bool) -> np.ndarray:
        """The value beyond which a target lies with this probability, above or below."""
        # Less than the least number tells no end from another.
        tails = np.full(len(self), max(tail, jnp.finfo(self._float).tiny), self._float)
        (value,) = self._stream(_upper_end if upper else _lower_end, tails)
        return value * self._regime.scaling.y_scale + self._regime.scaling.y_mean

    def absolute_error(self, y: Any) -> np.ndarray:
        """`mean_s |y - f_s(x)|` for each row: the error of single draws, not of their mean."""
        if self._regime.likelihood.num_outputs > 1 and self._regime.likelihood.discrete:
            raise ValueError("Classes have no distances: there is no absolute error.")
        return self._stream(_absolute_error, self._targets(y))[0] * self._regime.scaling.y_scale

    def sample(self, key: PRNGKeyArray, num: int = 1) -> np.ndarray:
        """Targets, `(num, rows)`, each along the first axis of a network drawn anew.

        Draws are independent: that of an ensemble is of a member chosen at random, and that of
        chains of any of their samples.
        """
        key = check_key(key, "key")
        if num < 1:
            raise ValueError(f"num must be at least 1, got {num}.")
        place_key, network_key, target_key = jax.random.split(key, 3)
        places = jax.random.randint(place_key, (num,), 0, self._regime.num_places)
        draws = Predictive(self._regime._replace(key=network_key), self._x, num, places)
        sampler = _Sampler(target_key)
        (samples,) = draws._stream(sampler, np.arange(len(self), dtype=np.uint32))
        scaling = self._regime.scaling
        # Draws first in the result, rows second, as in the objectives.
        moved = np.moveaxis(samples, 1, 0)
        if not self._regime.likelihood.continuous_units:
            return moved
        return moved * scaling.y_scale + scaling.y_mean

    def _targets(self, y: Any) -> np.ndarray:
        y = check_targets(y, self._regime.likelihood)
        if len(y) != len(self):
            raise ValueError(f"y has {len(y)} rows, the prediction {len(self)}.")
        return targets_as_seen(y, self._regime.scaling, self._float)

    def _stream(self, statistic: Callable[..., Any], *by_row: np.ndarray) -> tuple[np.ndarray, ...]:
        """A statistic of all draws' outputs, block of rows by block of rows."""
        regime, total = self._regime, len(self)
        cap = OUTPUTS_AT_A_TIME // (self.num_draws * regime.likelihood.num_outputs)
        block = max(
            1, min(cap, ROWS_AT_A_TIME, max(LEAST_ROWS, 1 << max(total - 1, 0).bit_length()))
        )
        results = []
        for start in range(0, max(total, 1), block):
            rows = slice(start, start + block)
            x = self._x[rows]
            # One shape for every block: the last is filled up and cut again.
            fill = block - len(x)
            x, *beside = (
                np.concatenate([a, np.zeros((fill, *a.shape[1:]), a.dtype)])
                for a in (x, *(a[rows] for a in by_row))
            )
            drawn = _outputs(
                regime.draw, regime.likelihood.num_outputs, self._indices, regime.key, x
            )
            lost = np.asarray(_lost(drawn[1]))[: block - fill]
            if lost.any():
                raise ValueError(_too_far("network's output", start + int(np.argmax(lost))))
            found = _summarise(statistic, *drawn, *beside)
            # Double precision from here on, where targets are shifted back to their own units.
            results.append([_widen(np.asarray(value)[: block - fill]) for value in found])
        return tuple(np.concatenate(parts) for parts in zip(*results, strict=True))


def _too_far(what: str, row: int) -> str:
    return (
        f"The {what} at row {row} of x is beyond what single precision holds: the row lies too far "
        f"from all that the network was trained on. Look at the units of its inputs, or remove it."
    )


@jax.jit
def _lost(outputs: Array) -> Array:
    """For each row, whether an output is not finite, or its square would not be."""
    return jnp.any(~(jnp.abs(outputs) <= jnp.sqrt(jnp.finfo(outputs.dtype).max)), axis=(0, 2))


def _widen(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if jnp.issubdtype(values.dtype, jnp.floating) else values


# Two programs and not one: that of the networks, which is long to compile, serves all statistics.


@eqx.filter_jit
def _outputs(draw, num_outputs: int, indices: Array, key, x: Any) -> "tuple[_Draws, Array]":
    """The likelihoods and outputs of all draws. Draws are the same for every block."""

    def outputs_of(place: tuple[Array, PRNGKeyArray]) -> tuple[Array, Any]:
        network, likelihood = draw(*place)
        outputs = jax.vmap(network)(x).reshape(x.shape[0], num_outputs)
        return outputs, eqx.filter(likelihood, eqx.is_array)

    num_draws = len(indices)
    places = indices, jax.random.split(key, num_draws)
    together = _group(num_draws, max(1, ROWS_TOGETHER // max(x.shape[0], 1)))
    outputs, varying = jax.lax.map(outputs_of, places, batch_size=together)
    fixed = eqx.filter(draw(places[0][0], places[1][0]).likelihood, eqx.is_array, inverse=True)
    return _Draws(varying, fixed), outputs


def _group(num_draws: int, most: int) -> int:
    """How many draws go together: a remainder, if there is one, is compiled a second time."""
    most = min(num_draws, most)
    whole = next(size for size in range(most, 0, -1) if num_draws % size == 0)
    return whole if 2 * whole >= most else most


@eqx.filter_jit
def _summarise(statistic, draws: "_Draws", outputs: Array, *by_row: Any):
    """The statistic for one block of rows."""
    return jax.vmap(
        lambda out, *rest: statistic(draws, out, *rest), in_axes=(1, *[0] * len(by_row))
    )(outputs, *by_row)


class _Draws(NamedTuple):
    """The likelihoods of all draws, what varies among them on a leading axis."""

    varying: Any
    fixed: Any

    @property
    def kind(self) -> Likelihood:
        return eqx.combine(jax.tree.map(lambda leaf: leaf[0], self.varying), self.fixed)

    def each(self, function: Callable[..., Array], *by_draw: Array) -> Array:
        """`function(likelihood, ...)` for each draw."""
        return jax.vmap(lambda v, *rest: function(eqx.combine(v, self.fixed), *rest))(
            self.varying, *by_draw
        )


# What follows is of one row: `outputs[s]` is draw s.


def _moments(draws: _Draws, outputs: Array) -> tuple[Array, Array, Array]:
    means = draws.each(lambda likelihood, out: likelihood.mean(out), outputs)
    variances = draws.each(lambda likelihood, out: likelihood.variance(out), outputs)
    return jnp.mean(means, axis=0), jnp.var(means, axis=0), jnp.mean(variances, axis=0)


def _log_prob(draws: _Draws, outputs: Array, y: Array) -> tuple[Array]:
    values = draws.each(lambda likelihood, out: likelihood.log_prob(out, y), outputs)
    return (jax.nn.logsumexp(values) - jnp.log(values.shape[0]),)


def _cdf(draws: _Draws, outputs: Array, y: Array) -> tuple[Array]:
    return (jnp.mean(draws.each(lambda likelihood, out: likelihood.cdf(out, y), outputs)),)


def _absolute_error(draws: _Draws, outputs: Array, y: Array) -> tuple[Array]:
    means = draws.each(lambda likelihood, out: likelihood.mean(out), outputs)
    return (jnp.mean(jnp.abs(y.astype(outputs.dtype) - means)),)


def _lower_end(draws: _Draws, outputs: Array, tail: Array) -> tuple[Array]:
    """The root of `cdf(y) = tail`."""
    return _root(draws, outputs, lambda y: _cdf(draws, outputs, y)[0] < tail)


def _upper_end(draws: _Draws, outputs: Array, tail: Array) -> tuple[Array]:
    """The root of `sf(y) = tail`: near one a cdf in single precision tells nothing any more."""

    def above(y: Array) -> Array:
        return jnp.mean(draws.each(lambda likelihood, out: likelihood.sf(out, y), outputs))

    return _root(draws, outputs, lambda y: above(y) > tail)


def _root(draws: _Draws, outputs: Array, is_low: Callable[[Array], Array]) -> tuple[Array]:
    """Where `is_low` ceases to hold, by bisection."""
    mean, between, within = _moments(draws, outputs)
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


class _Sampler(eqx.Module):
    """A target for each draw, with randomness of its own for each row."""

    key: PRNGKeyArray

    def __call__(self, draws: _Draws, outputs: Array, row: Array) -> tuple[Array]:
        keys = jax.random.split(jax.random.fold_in(self.key, row), outputs.shape[0])
        return (draws.each(lambda lik, out, k: lik.sample(out, key=k), outputs, keys),)
