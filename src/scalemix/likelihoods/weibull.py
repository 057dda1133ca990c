"""A positive target, such as the time until something fails."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import Real, as_parameter
from scalemix._special import inside, positive_part
from scalemix.likelihoods._dispersed import Dispersed, raw_from_scale
from scalemix.likelihoods._search import best_scale

# log Gamma(1 + 2s) - 2 log Gamma(1 + s) = sum_k zeta(k) (-1)^k (2^k - 2) / k s^k, from k = 2.
ZETA = (math.pi**2 / 6, 1.2020569031595942, math.pi**4 / 90, 1.0369277551433699,
        math.pi**6 / 945, 1.0083492773819228, math.pi**8 / 9450, 1.0020083928260822,
        math.pi**10 / 93555)  # fmt: skip
SERIES = [(-1) ** k * (2**k - 2) / k * zeta for k, zeta in enumerate(ZETA, start=2)]
SMALL = 0.1


# What survives a hazard of exp(30) has a probability with 4,600,000,000,000 zeros.
LARGEST = 30.0


def _exp(log_hazard: Array) -> Array:
    """The hazard; linear in its logarithm where nothing survives, so that it stays finite."""
    beyond = jnp.maximum(log_hazard - LARGEST, 0.0)
    return jnp.exp(jnp.minimum(log_hazard, LARGEST)) * (1 + beyond)


class Weibull(Dispersed):
    """A positive target, such as a time until failure: `y = exp(output) * t^scale`, `t ~ Exp(1)`.

    This is a Weibull distribution of the shape `1 / scale` and the scale `exp(output)`, which 63%
    of the targets lie below. With a `scale` of one it is exponential; with less, what has lasted
    long becomes more likely to fail. Targets are divided by their geometric mean, not shifted. For
    times that were not observed to the end see `RightCensored`.

    Parameters
    ----------
    scale : float or array, default 1.0
        The noise level of the logarithm that learning starts from. Not used with `per_input`.
    floor : float or array, default 0.01
        What the noise level always stays above.
    per_input : bool, default False
        Whether the network has a second output that decides the noise level of each input. By
        default one level is learned for all.

    Examples
    --------
    >>> likelihood = sx.likelihoods.Weibull(1.0)
    >>> round(float(likelihood.mean(jnp.array(0.0))), 6)
    1.0
    >>> round(float(likelihood.sf(jnp.array(0.0), 2.0)), 4)
    0.1353
    """

    summary: ClassVar[str] = "a positive number with Weibull noise, such as a time until failure"
    continuous_units = True
    support: ClassVar[tuple[float, float]] = (0.0, jnp.inf)

    def __init__(self, scale: ArrayLike = 1.0, *, floor: ArrayLike = 0.01, per_input: bool = False):
        self.raw_scale: Array = raw_from_scale("Weibull", scale, floor)
        self.floor: Real = as_parameter(floor)
        self.per_input = per_input

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        is_positive, log_hazard = self._log_hazard(output, y)
        log_y = jnp.log(positive_part(self.target(y))[1])
        density = log_hazard - _exp(log_hazard) - jnp.log(self.scale(output)) - log_y
        return inside(is_positive, density)

    def mean(self, output: Array) -> Array:
        return jnp.exp(self.one(output)[0] + gammaln(1 + self.scale(output)))

    def variance(self, output: Array) -> Array:
        scale = self.scale(output)
        # The difference of the two loses all its digits where the scale is small.
        small = jnp.minimum(scale, SMALL)
        series = jnp.polyval(jnp.asarray([*SERIES[::-1], 0.0, 0.0], scale.dtype), small)
        difference = gammaln(1 + 2 * scale) - 2 * gammaln(1 + scale)
        relative = jnp.expm1(jnp.where(scale < SMALL, series, difference))
        return self.mean(output) ** 2 * relative

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        is_positive, log_hazard = self._log_hazard(output, y)
        return jnp.where(is_positive, -jnp.expm1(-_exp(log_hazard)), 0.0)

    def sf(self, output: Array, y: ArrayLike) -> Array:
        return jnp.exp(self.log_sf(output, y))

    def log_sf(self, output: Array, y: ArrayLike) -> Array:
        is_positive, log_hazard = self._log_hazard(output, y)
        return jnp.where(is_positive, -_exp(log_hazard), 0.0)

    def _log_hazard(self, output: Array, y: ArrayLike) -> tuple[Array, Array]:
        """The logarithm of the hazard until y, all of it together."""
        is_positive, y = positive_part(self.target(y))
        return is_positive, (jnp.log(y) - self.one(output)[0]) / self.scale(output)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        centre = self.one(output)[0]
        return jnp.exp(centre - self.scale(output) * jax.random.gumbel(key, (), centre.dtype))

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        log_y = np.log(np.asarray(y, np.float64))

        def under(scale: float) -> float:
            # Given its scale, the best output has a closed form, under which the hazard is one.
            most = log_y.max()
            powers = np.average(np.exp((log_y - most) / scale), weights=weight)
            centre = most + scale * np.log(powers)
            log_hazard = (np.average(log_y, weights=weight) - centre) / scale
            return float(log_hazard - 1 - np.log(scale) - np.average(log_y, weights=weight))

        return best_scale(under, float(self.floor))
