"""A share: a target between zero and one."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._incomplete import betainc
from scalemix._parameters import Real, as_array, as_parameter
from scalemix._special import inside
from scalemix.likelihoods._dispersed import Dispersed, raw_from_scale
from scalemix.likelihoods._search import best_scale, log_gamma, maximum

# Beyond these log-odds no mean of a share is looked for.
FARTHEST = 15.0


class Beta(Dispersed):
    """A share, strictly between zero and one: `y ~ Beta(a, b)` with `a + b = 1 / scale^2`.

    The output is the log-odds of the mean, `a / (a + b) = sigmoid(output)`. The variance is
    `mean * (1 - mean) * scale^2 / (1 + scale^2)`.

    Parameters
    ----------
    scale : float or array, default 0.5
        The noise level that learning starts from. Not used with `per_input`.
    floor : float or array, default 0.05
        What the noise level always stays above.
    per_input : bool, default False
        Whether the network has a second output that decides the noise level of each input. By
        default one level is learned for all.

    Examples
    --------
    >>> likelihood = sx.likelihoods.Beta(0.5)
    >>> round(float(likelihood.mean(jnp.array(0.0))), 3)
    0.5
    >>> round(float(likelihood.cdf(jnp.array(0.0), 0.5)), 3)
    0.5
    """

    summary: ClassVar[str] = "a share between zero and one (beta distribution)"
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self, scale: ArrayLike = 0.5, *, floor: ArrayLike = 0.05, per_input: bool = False):
        self.raw_scale: Array = raw_from_scale("Beta", scale, floor)
        self.floor: Real = as_parameter(floor)
        self.per_input = per_input

    def _shapes(self, output: Array) -> tuple[Array, Array]:
        """`a` and `b`, neither of which rounds to zero."""
        logit, total = self.one(output)[0], 1 / self.scale(output) ** 2
        least = jnp.finfo(logit.dtype).tiny
        a, b = total * jax.nn.sigmoid(logit), total * jax.nn.sigmoid(-logit)
        return jnp.maximum(a, least), jnp.maximum(b, least)

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        y = as_array(self.target(y))
        is_share = (y > 0) & (y < 1)
        share = jnp.where(is_share, y, 0.5)
        a, b = self._shapes(output)
        return inside(
            is_share, (a - 1) * jnp.log(share) + (b - 1) * jnp.log1p(-share) - betaln(a, b)
        )

    def mean(self, output: Array) -> Array:
        return jax.nn.sigmoid(self.one(output)[0])

    def variance(self, output: Array) -> Array:
        logit, square = self.one(output)[0], self.scale(output) ** 2
        return jax.nn.sigmoid(logit) * jax.nn.sigmoid(-logit) * square / (1 + square)

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        a, b = self._shapes(output)
        share = jnp.clip(as_array(self.target(y)), 0.0, 1.0)
        return betainc(a, b, share, 1 - share)

    def sf(self, output: Array, y: ArrayLike) -> Array:
        a, b = self._shapes(output)
        share = jnp.clip(as_array(self.target(y)), 0.0, 1.0)
        return betainc(b, a, 1 - share, share)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        share = jax.random.beta(key, *self._shapes(output))
        # Rounding may lead to the ends, which have no density.
        limits = jnp.finfo(share.dtype)
        return jnp.clip(share, limits.tiny, 1 - limits.epsneg)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        y = np.asarray(y, np.float64)
        below = float(np.average(np.log(y), weights=weight))
        above = float(np.average(np.log1p(-y), weights=weight))

        def under(scale: float, logit: float) -> float:
            total = 1 / scale**2
            a, b = total / (1 + np.exp(-logit)), total / (1 + np.exp(logit))
            normaliser = (
                log_gamma(np.array(a)) + log_gamma(np.array(b)) - log_gamma(np.array(total))
            )
            return float((a - 1) * below + (b - 1) * above - normaliser)

        def best(scale: float) -> float:
            return maximum(lambda logit: under(scale, logit), -FARTHEST, FARTHEST)

        return best_scale(best, float(self.floor))
