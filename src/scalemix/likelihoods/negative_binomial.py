"""Counts that vary more than a Poisson rate allows."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._incomplete import betainc
from scalemix._parameters import Real, as_array, as_parameter
from scalemix.likelihoods._dispersed import Dispersed, raw_from_scale
from scalemix.likelihoods._search import best_scale, log_gamma


class NegativeBinomial(Dispersed):
    """Counts that vary more than Poisson ones: the variance is `mean + (scale * mean)^2`.

    The output is the logarithm of the mean, and `scale` the relative spread of the rates that the
    counts are drawn with, which are gamma distributed. In the usual parameters the number of
    successes is `1 / scale^2`.

    Parameters
    ----------
    scale : float or array, default 1.0
        The relative spread of rates that learning starts from. Not used with `per_input`.
    floor : float or array, default 0.05
        What the spread always stays above. Below it, counts are as good as Poisson ones.
    per_input : bool, default False
        Whether the network has a second output that decides the spread of each input. By default
        one spread is learned for all.

    Examples
    --------
    >>> likelihood = sx.likelihoods.NegativeBinomial(0.5)
    >>> output = jnp.log(jnp.array(4.0))
    >>> round(float(likelihood.mean(output)), 4), round(float(likelihood.variance(output)), 4)
    (4.0, 8.0)
    """

    summary: ClassVar[str] = "counts that vary more than those of a rate (negative binomial)"
    discrete = True

    def __init__(self, scale: ArrayLike = 1.0, *, floor: ArrayLike = 0.05, per_input: bool = False):
        self.raw_scale: Array = raw_from_scale("NegativeBinomial", scale, floor)
        self.floor: Real = as_parameter(floor)
        self.per_input = per_input

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        y = as_array(self.target(y))
        count = jnp.where(y >= 0, y, 0.0)
        num, log_odds = self._parameters(output)
        ways = gammaln(count + num) - gammaln(num) - gammaln(count + 1)
        mass = ways + num * jax.nn.log_sigmoid(-log_odds) + count * jax.nn.log_sigmoid(log_odds)
        return jnp.where((y >= 0) & (y == jnp.floor(y)), mass, -jnp.inf)

    def _parameters(self, output: Array) -> tuple[Array, Array]:
        """The number of successes, and the log-odds of a failure."""
        scale = self.scale(output)
        return 1 / scale**2, self.one(output)[0] + 2 * jnp.log(scale)

    def mean(self, output: Array) -> Array:
        return jnp.exp(self.one(output)[0])

    def variance(self, output: Array) -> Array:
        mean = self.mean(output)
        return mean + (self.scale(output) * mean) ** 2

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        y = jnp.floor(as_array(self.target(y)))
        num, log_odds = self._parameters(output)
        success, failure = jax.nn.sigmoid(-log_odds), jax.nn.sigmoid(log_odds)
        below = betainc(num, jnp.maximum(y, 0.0) + 1, success, failure)
        return jnp.where(y < 0, 0.0, below)

    def sf(self, output: Array, y: ArrayLike) -> Array:
        y = jnp.floor(as_array(self.target(y)))
        num, log_odds = self._parameters(output)
        success, failure = jax.nn.sigmoid(-log_odds), jax.nn.sigmoid(log_odds)
        above = betainc(jnp.maximum(y, 0.0) + 1, num, failure, success)
        return jnp.where(y < 0, 1.0, above)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        rate_key, count_key = jax.random.split(key)
        num, _ = self._parameters(output)
        rate = self.mean(output) * jax.random.gamma(rate_key, num) / num
        return jax.random.poisson(count_key, rate).astype(output.dtype)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        # Whatever the spread, the best mean is that of the counts.
        mean = max(np.average(y, weights=weight), np.finfo(np.float32).tiny)
        counts, places = np.unique(np.asarray(y, np.float64), return_inverse=True)
        shares = np.bincount(places, weights=weight) / np.sum(weight)
        factorials = log_gamma(counts + 1)

        def under(scale: float) -> float:
            num = 1 / scale**2
            ways = log_gamma(counts + num) - log_gamma(np.array(num)) - factorials
            masses = ways - num * np.log1p(mean / num) + counts * np.log(mean / (mean + num))
            return float(np.sum(shares * masses))

        return best_scale(under, float(self.floor))
