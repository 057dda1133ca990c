"""The two bounds on the marginal MAP objective, where it is exact, and their gaps to it.

One input of a linear model whose inputs are orthogonal, with N rows and unit noise, is
`log p(y | w) = -N/2 (w - t)^2` up to a constant, where `t` is the least-squares estimate. All
integrals over the noise are then one-dimensional.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import numpy as np

from scalemix.mixtures import (
    Bernoulli,
    Beta,
    Gaussian,
    HalfCauchy,
    InverseGamma,
    InverseNakagami,
    LogUniform,
    Rayleigh,
    ScaleMixture,
    Uniform,
)
from scalemix.reproduce.claims.expectations import Noise

NUM_ROWS, ESTIMATE = 10, 1.0


@dataclasses.dataclass(frozen=True)
class Family:
    """A family along two ways: noise that concentrates around one, and noise that shrinks."""

    at: ScaleMixture
    """The setting of the table: noise around one where that can be."""
    narrow: Callable[[float], ScaleMixture] | None = None
    """Noise of mean one or close to it, whose variance goes to zero with the argument."""
    shrink: Callable[[float], ScaleMixture] | None = None
    """Noise whose size goes to zero with the argument."""


FAMILIES = {
    "Bernoulli": Family(
        Bernoulli(0.8, 1.25),
        lambda d: Bernoulli(1 / (1 + d), 1 + d),
        lambda s: Bernoulli(0.8, 1.25 * s),
    ),
    "Gaussian": Family(
        Gaussian(0.5), lambda d: Gaussian(math.sqrt(d)), lambda s: Gaussian(0.5 * s, s)
    ),
    "Rayleigh": Family(Rayleigh(0.8), None, lambda s: Rayleigh(0.8 * s)),
    "inverse Nakagami": Family(
        InverseNakagami(3.0, 1.0),
        lambda d: InverseGamma(1 / d, 1 / d),
        lambda s: InverseGamma(3.0, 3.0 * s**2),
    ),
    "half-Cauchy": Family(HalfCauchy(1.0)),
    "Beta": Family(
        Beta(5.0, 1.0), lambda d: Beta(1 / math.sqrt(d), 1.0), lambda s: Beta(3.0, 3.0 / s)
    ),
    "uniform": Family(
        Uniform(0.5, 1.5),
        lambda d: Uniform(1 - math.sqrt(3 * d), 1 + math.sqrt(3 * d)),
        lambda s: Uniform(0.5 * s, 1.5 * s),
    ),
    "log-uniform": Family(LogUniform()),
}


def moments(mixture: ScaleMixture) -> dict[str, float]:
    """`E[xi]`, `E[xi^2]`, `E[xi^-2]` by the package, and the two variances."""
    noise = Noise(mixture)
    first, second, inverse = (
        float(m) for m in (mixture.mean, mixture.second_moment, mixture.inverse_square_mean)
    )
    fourth = math.inf if math.isinf(inverse) else noise.moment(-4)
    return {
        "mean": first,
        "second_moment": second,
        "inverse_square_mean": inverse,
        "variance": second - first**2 if math.isfinite(second) else math.inf,
        "inverse_square_variance": fourth - inverse**2 if math.isfinite(fourth) else math.inf,
    }


def expanded_gap(mixture: ScaleMixture, weight: float | None = None) -> float:
    """`log E p(y | xi z) - E log p(y | xi z)` at a weight `z`, else at the bound's maximum."""
    first, second = float(mixture.mean), float(mixture.second_moment)
    if not math.isfinite(second):
        return math.inf
    if weight is None:
        weight = NUM_ROWS * first * ESTIMATE / (NUM_ROWS * second + 1)

    def log_likelihood(xi: np.ndarray) -> np.ndarray:
        return -0.5 * NUM_ROWS * (xi * weight - ESTIMATE) ** 2

    mean = -0.5 * NUM_ROWS * (second * weight**2 - 2 * first * weight * ESTIMATE + ESTIMATE**2)
    return Noise(mixture).log_mean_exp(log_likelihood) - mean


def hierarchical_gap(mixture: ScaleMixture, weight: float | None = None) -> float:
    """`log E N(w; 0, xi^2) - E log N(w; 0, xi^2)` at a weight, else at the bound's maximum."""
    inverse = float(mixture.inverse_square_mean)
    if not math.isfinite(inverse):
        return math.inf
    if weight is None:
        weight = NUM_ROWS * ESTIMATE / (NUM_ROWS + inverse)
    mean_log = Noise(mixture).mean(lambda xi: np.log(np.abs(xi)))
    bound = -0.5 * math.log(2 * math.pi) - mean_log - 0.5 * inverse * weight**2
    with jax.enable_x64(True):
        return float(mixture.marginal_log_prob(weight)) - bound
