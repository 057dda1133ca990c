"""Predictive distributions, computed when they are asked."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import check_key
from scalemix._warnings import Said
from scalemix.data.checks import check_targets, targets_as_seen
from scalemix.data.ranges import RangeWarning
from scalemix.data.rows import Inputs, num_rows
from scalemix.data.scaling import Scaling
from scalemix.data.values import check_levels, check_thresholds
from scalemix.likelihoods import Bernoulli, Likelihood
from scalemix.posterior import statistics
from scalemix.posterior.calibration import tail_probability
from scalemix.posterior.draws import AnyDraws, Draws, make_draws
from scalemix.posterior.networks import AnyNetworks, Drawn
from scalemix.posterior.noise_levels import KnownNoise
from scalemix.posterior.streaming import any_by_row, devices_for, refuse_lost, stream, too_far

__all__ = ["DrawSource", "Drawn", "Predictive"]


class DrawSource(NamedTuple):
    """Where the draws of a prediction come from, and the units that its targets are in."""

    networks: AnyNetworks
    likelihood: Likelihood
    """That of the first network."""
    scaling: Scaling
    key: PRNGKeyArray
    score_spread: float | np.ndarray = 1.0
    """The spread of normal scores on held-out rows, one for each of several targets: see
    `scalemix.posterior.calibration`."""
    mesh: Mesh | None = None
    """The devices; unless given, local ones along rows."""
    owner: Any = None
    """What all predictions with this key belong to, so that they share their draws; unless given,
    each has its own."""


class Predictive:
    """The distribution of the targets of some inputs: the likelihood averaged over draws.

    `Posterior.predict` makes it. Nothing is computed before it is asked, and then in blocks of
    rows, so that memory is bounded. Results are in the units of the data that were fitted. For
    classes, `mean` and the three deviations have one entry for each row and class; everything else
    has one entry for each row. For several targets a row (`likelihoods.Independent`), `log_prob`
    has one entry for each row, that of all its targets together; everything else has one entry for
    each row and target.

    A row may lie so far from the training data that its mean or its spread is beyond what single
    precision holds, most of all where targets are positive and outputs their logarithms. They are
    then infinite, and a `RangeWarning` names the rows. Where the network's own output is beyond it,
    everything about the row is NaN. Other rows are as they would be alone.

    Attributes
    ----------
    num_draws : int
        How many draws of the network it averages over.
    likelihood : Likelihood
        The kind of distribution that a target has under one network.
    mean : numpy.ndarray
        The mean of the target; for classes, their probabilities.
    std : numpy.ndarray
        The standard deviation of the target: `std**2 = epistemic**2 + aleatoric**2`.
    epistemic : numpy.ndarray
        The part of `std` from not knowing the network, which more data could reduce: the spread of
        the networks' means.
    aleatoric : numpy.ndarray
        The part of `std` that the likelihood has under every network, which more data could not
        reduce.
    entropy : numpy.ndarray
        Of classes: how unsure each row's class is, in nats; one number for each row.
    mutual_information : numpy.ndarray
        Of classes: the part of `entropy` from not knowing the network. The rest, `entropy -
        mutual_information`, more data could not reduce.
    too_far : numpy.ndarray
        For each row, whether its mean or the spread of means is infinite, or not a number.

    Examples
    --------
    >>> pred = post.predict(x[:5])
    >>> pred.mean.shape
    (5,)
    >>> np.allclose(pred.std**2, pred.epistemic**2 + pred.aleatoric**2)
    True
    >>> lower, upper = pred.interval(0.9)
    >>> bool((lower < upper).all())
    True
    """

    # Inputs come as the network sees them, standardised if it wants them so.
    def __init__(self, source: DrawSource, x: Inputs, num_draws: int, indices: Array | None = None):
        self.num_draws = num_draws
        # Without indices draws take one place after the other, so that all have their share.
        self._indices = np.arange(num_draws, dtype=np.int32) if indices is None else indices
        self._source, self._x = source, x
        self.likelihood: Likelihood = source.likelihood
        types = [part.dtype for part in jax.tree.leaves(x)]
        floats = [kind for kind in types if jnp.issubdtype(kind, jnp.floating)]
        self._float = floats[0] if floats else np.float32
        # An estimator remembers what it said of the same rows before.
        self._warn: Callable[[str, type[Warning]], None] = Said().warn

    def __len__(self) -> int:
        return num_rows(self._x)

    def __repr__(self) -> str:
        rows, draws = len(self), self.num_draws
        return (
            f"Predictive({rows:,} row{'s' * (rows != 1)}, {self.likelihood.title}, "
            f"{draws:,} draw{'s' * (draws != 1)})"
        )

    @property
    def mean(self) -> np.ndarray:
        """The mean of the target; for classes, their probabilities."""
        return self._in_units(self._moments[0])

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of the target."""
        return np.sqrt(self._moments[1] + self._moments[2]) * self._source.scaling.y_scale

    @property
    def epistemic(self) -> np.ndarray:
        """The part of `std` from not knowing the network: the spread of the networks' means."""
        return np.sqrt(self._moments[1]) * self._source.scaling.y_scale

    @property
    def aleatoric(self) -> np.ndarray:
        """The part of `std` that the likelihood has under every network."""
        return np.sqrt(self._moments[2]) * self._source.scaling.y_scale

    @property
    def entropy(self) -> np.ndarray:
        """Of classes: how unsure each row's class is, in nats."""
        return self._information[0]

    @property
    def mutual_information(self) -> np.ndarray:
        """Of classes: the part of `entropy` from not knowing the network."""
        return self._information[1]

    @cached_property
    def _information(self) -> tuple[np.ndarray, ...]:
        kind = self.likelihood
        if kind.ordered and not isinstance(kind, Bernoulli):
            raise ValueError(
                f"Only classes have an entropy here, and the target is {kind.title}: see std, "
                f"epistemic and aleatoric."
            )
        return self._stream(statistics.information)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, ...]:
        mean, between, within = self._stream(statistics.moments)
        # A spread of means of which one is infinite would not be a number.
        between = np.where(np.isinf(mean), np.inf, between)
        # Targets may have an infinite variance; their means, and the spread of these, have none.
        is_far = any_by_row(np.isinf(mean) | np.isinf(between))
        if is_far.any():
            self._warn(too_far("mean, or its spread,", is_far, "infinite"), RangeWarning)
        return mean, between, within

    @property
    def too_far(self) -> np.ndarray:
        """For each row, whether its mean or the spread of means is infinite, or not a number."""
        return any_by_row(~np.isfinite(self._moments[0]) | ~np.isfinite(self._moments[1]))

    def log_prob(self, y: Any) -> np.ndarray:
        """The log density, or log mass, of each row's target: `log (1/S) sum_s p(y | x, W_s)`.

        Parameters
        ----------
        y : array_like
            The target of each row, in the units of the data; classes are counted from 0.

        Returns
        -------
        numpy.ndarray
            One value for each row.

        Examples
        --------
        >>> post.predict(x).log_prob(y).shape
        (40,)
        """
        targets = self._targets(y)
        (value,) = self._stream(statistics.log_prob, targets)
        return value - self._source.scaling.log_unit(self.likelihood.has_density(targets))

    def cdf(self, y: Any) -> np.ndarray:
        """The probability of a target at or below `y`, at each row.

        Parameters
        ----------
        y : float or array_like
            One value for all targets, or one for each, in the units of the data.

        Returns
        -------
        numpy.ndarray
            One probability for each target.

        Raises
        ------
        ValueError
            For classes, which have no order.

        Examples
        --------
        >>> pred = post.predict(x)
        >>> below = pred.cdf(pred.quantile(0.25))
        >>> np.allclose(below, 0.25, atol=1e-3)
        True
        >>> pred.cdf(3.0).shape
        (40,)
        """
        y = np.full((len(self), *self.likelihood.target_shape), y) if np.ndim(y) == 0 else y
        return self._stream(statistics.cdf, self._targets(y))[0]

    def exceedance(self, threshold: Any) -> np.ndarray:
        """The probability of a target above a threshold, to full precision where it is small.

        Parameters
        ----------
        threshold : float or sequence of float
            One threshold for all rows or several of them, in the units of the data.

        Returns
        -------
        numpy.ndarray
            One probability for each target; with several thresholds one such array for each, along
            the first axis.

        Raises
        ------
        ValueError
            For classes, which have no order.

        Examples
        --------
        >>> pred = post.predict(x)
        >>> pred.exceedance(3.0).shape, pred.exceedance([1.0, 2.0, 3.0]).shape
        ((40,), (3, 40))
        >>> np.allclose(pred.exceedance(3.0), 1 - pred.cdf(3.0), atol=1e-5)
        True
        """
        levels = check_thresholds(threshold)
        shape = (len(levels), *self.likelihood.target_shape)
        levels = np.broadcast_to(levels.reshape(-1, *[1] * (len(shape) - 1)), shape)
        seen = targets_as_seen(levels, self._source.scaling, self._float).astype(self._float)
        by_row = np.broadcast_to(seen, (len(self), *shape))
        above = np.moveaxis(self._stream(statistics.sf_at_levels, by_row)[0], 1, 0)
        return above if np.ndim(threshold) else above[0]

    def quantile(self, q: Any) -> np.ndarray:
        """The value that a target exceeds with probability `1 - q`, at each row.

        Parameters
        ----------
        q : float or sequence of float
            The level or several of them, in (0, 1).

        Returns
        -------
        numpy.ndarray
            One value for each target, in the units of the data; with several levels one such array
            for each, along the first axis, as in `numpy.quantile`. The estimators' `predict(X,
            quantiles=...)` has the levels last.

        Raises
        ------
        ValueError
            For classes, which have no order, and for a level outside (0, 1).

        Examples
        --------
        >>> low, middle, high = post.predict(x).quantile([0.1, 0.5, 0.9])
        >>> bool((low < middle).all() and (middle < high).all())
        True
        """
        levels = check_levels("A quantile's level", q)
        is_upper = levels > 0.5
        lower, upper = self._ends(levels[~is_upper], 1 - levels[is_upper])
        values = np.empty((len(levels), *lower.shape[1:]))
        values[~is_upper], values[is_upper] = lower, upper
        return values if np.ndim(q) else values[0]

    def interval(self, probability: Any = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the central interval of some probability, at each row.

        Where rows were held out to choose settings (`fit_stacked`, the estimators), the interval is
        the one that would have covered this share of their targets: somewhat wider or narrower than
        the quantiles of the distribution. See `scalemix.posterior.calibration`.

        Parameters
        ----------
        probability : float or sequence of float, default 0.9
            How much the interval is to cover, in (0, 1); or several such probabilities.

        Returns
        -------
        tuple of numpy.ndarray
            The lower ends and the upper ends, one for each target; with several probabilities one
            such array for each, along the first axis.

        Raises
        ------
        ValueError
            For classes, which have no order, and for a probability outside (0, 1).

        Examples
        --------
        >>> lower, upper = post.predict(x).interval(0.5)
        >>> lower.shape, upper.shape
        ((40,), (40,))
        """
        probabilities = check_levels("An interval's probability", probability)
        spreads = np.asarray(self._source.score_spread)
        probabilities = probabilities.reshape(-1, *[1] * spreads.ndim)
        tails = np.vectorize(tail_probability)(probabilities, spreads)
        lower, upper = self._ends(tails, tails)
        return (lower, upper) if np.ndim(probability) else (lower[0], upper[0])

    def _ends(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values below which, and above which, targets lie with these probabilities.

        Tails and values have the levels along the first axis.
        """

        def by_row(tails: np.ndarray) -> np.ndarray:
            # Below the smallest number of the type, one tail cannot be told from another.
            tails = np.maximum(tails, jnp.finfo(self._float).tiny).astype(self._float)
            shape = self.likelihood.mean_shape
            tails = tails.reshape(len(tails), *(tails.shape[1:] or [1] * len(shape)))
            return np.broadcast_to(tails, (len(self), len(tails), *shape))

        ends = self._stream(statistics.ends, by_row(lower), by_row(upper))
        first, second = (self._in_units(np.moveaxis(values, 1, 0)) for values in ends)
        return first, second

    def absolute_error(self, y: Any) -> np.ndarray:
        """The mean absolute error of single draws at each row, `(1/S) sum_s |y - f_s(x)|`.

        Parameters
        ----------
        y : array_like
            One target for each row, in the units of the data.

        Returns
        -------
        numpy.ndarray
            One error for each target. It is not the error of the predictive mean, which is
            smaller.

        Raises
        ------
        ValueError
            For classes, between which there are no distances.

        Examples
        --------
        >>> pred = post.predict(x)
        >>> bool((pred.absolute_error(y) >= abs(y - pred.mean) - 1e-5).all())
        True
        """
        if not self.likelihood.ordered:
            raise ValueError("Classes have no distances: there is no absolute error.")
        targets = self._targets(y)
        if np.any(targets < self.likelihood.support[0]):
            raise ValueError("A time that was not observed to the end has no error: y is below 0.")
        errors = self._stream(statistics.absolute_error, targets)[0]
        return errors * self._source.scaling.y_scale

    def sample(self, key: PRNGKeyArray, num: int = 1) -> np.ndarray:
        """Targets drawn from the predictive distribution, for all rows together.

        Each sample draws a network anew and with it a target for every row. So a sample is one of
        the joint distribution of all rows: a sum over rows, such as a total, has the spread that
        it should. The networks are independent: that of an ensemble is of a member chosen at
        random, that of chains any of their samples.

        Parameters
        ----------
        key : PRNGKeyArray
            The randomness, such as `jax.random.key(0)`.
        num : int, default 1
            How many samples to draw.

        Returns
        -------
        numpy.ndarray
            Targets of the shape `(num, rows)`, or `(num, rows, targets)`, in the units of the data.

        Examples
        --------
        >>> post.predict(x).sample(key, 3).shape
        (3, 40)
        """
        key = check_key(key, "key")
        if num < 1:
            raise ValueError(f"num must be at least 1, got {num}.")
        place_key, network_key, target_key = jax.random.split(key, 3)
        num_places = self._source.networks.num_places
        places = jax.random.randint(place_key, (num,), 0, num_places)
        source = self._source._replace(key=network_key, owner=None)
        draws = Predictive(source, self._x, num, places)
        rows = np.arange(len(self), dtype=np.uint32)
        (by_row,) = draws._stream(statistics.Sampler(target_key), rows)
        samples = np.moveaxis(by_row, 1, 0)
        return self._in_units(samples) if self.likelihood.continuous_units else samples

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        """Targets as the likelihood sees them, in the units of the data."""
        return values * self._source.scaling.y_scale + self._source.scaling.y_mean

    def _targets(self, y: Any) -> np.ndarray:
        y = check_targets(y, self.likelihood)
        if len(y) != len(self):
            raise ValueError(f"y has {len(y)} rows, the prediction {len(self)}.")
        return targets_as_seen(y, self._source.scaling, self._float)

    def _draws(self, mesh: Mesh | None) -> AnyDraws:
        source = self._source
        draws = Draws(source.networks, self._indices, source.key)
        # Several devices make their own.
        if mesh is not None:
            return draws
        return make_draws(draws, self if source.owner is None else source.owner)

    def _stream(self, statistic: Callable[..., Any], *by_row: np.ndarray) -> tuple[np.ndarray, ...]:
        """A statistic of all draws' outputs at each row."""
        num_outputs, mesh = self.likelihood.num_outputs, self._source.mesh
        mesh = devices_for(len(self)) if mesh is None else mesh
        noise = KnownNoise.of(self.likelihood, self._source.scaling, self._float)
        draws = self._draws(mesh)
        values, lost = stream(
            statistic, draws, num_outputs, self._x, *by_row, mesh=mesh, noise=noise
        )
        if not lost.any():
            return values
        if not all(np.issubdtype(value.dtype, np.floating) for value in values):
            # A class that is drawn has no way to say that it is none.
            refuse_lost(lost)
        self._warn(too_far("network's output", lost, "NaN"), RangeWarning)
        for value in values:
            value[lost] = np.nan
        return values
