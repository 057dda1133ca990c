"""A real target with heavy-tailed noise."""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, ndtr
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._incomplete import betainc
from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import log_gamma_half_step
from scalemix.likelihoods._dispersed import LocationScale, raw_from_scale

# Enough for a comparison: each step roughly halves the distance to the maximum.
CONSTANT_STEPS = 50
# Up to so many degrees of freedom, tails are a sum of half as many terms.
MOST_SUMMED = 40
# From so many on, t is as good as normal once it is transformed.
LEAST_NORMAL = 200.0
# Beyond this many, which single precision no longer tells from one more, nothing is whole.
MOST_WHOLE = 2**24


class StudentT(LocationScale):
    """A real target with heavy-tailed noise: `y ~ output + scale * t(dof)`.

    Outliers pull less than under Gaussian noise.

    Parameters
    ----------
    dof : float or array, default 4.0
        The degrees of freedom: the fewer, the heavier the tails. The variance is infinite at two
        and below. Intervals are found fastest where they are even. Fits that differ in whole
        numbers of them cannot run side by side.
    scale : float or array, default 1.0
        The noise level that learning starts from, in the units that the network sees: standard
        deviations of the target where it is standardised. Not used with `per_input`.
    floor : float or array, default 1e-3
        What the noise level always stays above.
    per_input : bool, default False
        Whether the network has a second output that decides the noise level of each input. By
        default one level is learned for all.

    Examples
    --------
    >>> heavy, light = sx.likelihoods.StudentT(dof=3.0), sx.likelihoods.Gaussian()
    >>> far = jnp.array(10.0)
    >>> bool(heavy.log_prob(jnp.zeros(()), far) > light.log_prob(jnp.zeros(()), far))
    True
    """

    summary: ClassVar[str] = "heavy-tailed (Student-t) noise around the network's output"

    dof: Real | int

    def __init__(
        self,
        dof: ArrayLike = 4.0,
        scale: ArrayLike = 1.0,
        *,
        floor: ArrayLike = 1e-3,
        per_input: bool = False,
    ):
        require(as_parameter(dof) > 0, f"StudentT: dof must be positive, got {dof}.")
        self.raw_scale: Array = raw_from_scale("StudentT", scale, floor)
        self.dof = as_parameter(dof)
        # A whole number stays a plain one in a fit, where others become arrays: tails of few and
        # even degrees of freedom have a closed form.
        if isinstance(self.dof, float) and self.dof.is_integer() and self.dof <= MOST_WHOLE:
            self.dof = int(self.dof)
        self.floor: Real = as_parameter(floor)
        self.per_input = per_input

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        scale = self.scale(output)
        dof = as_array(self.dof).astype(scale.dtype)
        error = self.error(output, y)
        normaliser = log_gamma_half_step(0.5 * dof) - 0.5 * jnp.log(math.pi * dof)
        return normaliser - jnp.log(scale) - 0.5 * (dof + 1) * jnp.log1p(error**2 / dof)

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        return self._below(self.error(output, y))

    def sf(self, output: Array, y: ArrayLike) -> Array:
        return self._below(-self.error(output, y))

    def _below(self, error: Array) -> Array:
        """`P(t <= error)`."""
        if isinstance(self.dof, int) and self.dof % 2 == 0 and self.dof <= MOST_SUMMED:
            return _below_even(self.dof, error)
        dof = as_array(self.dof).astype(error.dtype)
        error = _within_squares(error)
        few = jnp.minimum(dof, LEAST_NORMAL)
        # P(|t| > e) = I(dof / (dof + e^2); dof / 2, 1 / 2)
        ratio = error**2 / few
        tails = betainc(0.5 * few, jnp.full_like(few, 0.5), 1 / (1 + ratio), ratio / (1 + ratio))
        below = jnp.where(error > 0, 1 - 0.5 * tails, 0.5 * tails)
        return jnp.where(dof > LEAST_NORMAL, _below_normal(dof, error), below)

    def joint_log_prob(self, square: Array, num: Array) -> Array:
        dof = as_array(self.dof).astype(square.dtype)
        normaliser = gammaln(0.5 * (dof + num)) - gammaln(0.5 * dof)
        normaliser = normaliser - 0.5 * num * jnp.log(math.pi * dof)
        return normaliser - 0.5 * (dof + num) * jnp.log1p(square / dof)

    def joint_sample(self, num: int, dtype: Any, *, key: PRNGKeyArray) -> Array:
        # Gaussian errors whose scale is drawn once for all of them.
        normal_key, scale_key = jax.random.split(key)
        dof = as_array(self.dof).astype(dtype)
        spread = jax.random.chisquare(scale_key, dof, (), dtype) / dof
        return jax.random.normal(normal_key, (num,), dtype) / jnp.sqrt(spread)

    def variance(self, output: Array) -> Array:
        finite = jnp.asarray(self.dof) > 2
        spread = jnp.where(finite, self.dof / jnp.where(finite, self.dof - 2, 1.0), jnp.inf)
        return self.scale(output) ** 2 * spread

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        mean = self.mean(output)
        return mean + self.scale(output) * jax.random.t(key, self.dof, mean.shape, mean.dtype)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        # Expectation maximisation: rows that are far off count less at each step.
        y, dof = np.asarray(y, np.float64), float(self.dof)
        least = max(float(self.floor), np.finfo(np.float32).tiny)
        mean, scale = np.average(y, weights=weight), max(np.std(y), least)
        for _ in range(CONSTANT_STEPS):
            heed = weight * (dof + 1) / (dof + ((y - mean) / scale) ** 2)
            mean = np.average(y, weights=heed)
            scale = max(np.sqrt(np.sum(heed * (y - mean) ** 2) / np.sum(weight)), least)
        normaliser = math.lgamma(0.5 * (dof + 1)) - math.lgamma(0.5 * dof)
        normaliser -= 0.5 * math.log(math.pi * dof) + math.log(scale)
        tails = -0.5 * (dof + 1) * np.log1p(((y - mean) / scale) ** 2 / dof)
        return float(normaliser + np.average(tails, weights=weight))


def _within_squares(error: Array) -> Array:
    """The same, but not so far out that its square overflows."""
    farthest = 0.5 * float(jnp.finfo(error.dtype).max) ** 0.5
    return jnp.clip(error, -farthest, farthest)


def _below_normal(dof: Array, error: Array) -> Array:
    """`P(t <= error)` for many degrees of freedom, as that of a normal number (Hill 1970)."""
    shifted, ratio = dof - 0.5, error**2 / dof
    # log(1 + r) / r, which has a slope at zero. The square of r is not written as one: XLA divides
    # the squares of its parts then, and both may be infinite.
    near = ratio < 1e-4
    safe = jnp.where(near, 1.0, ratio)
    shrinkage = jnp.where(near, 1 - ratio * (0.5 - ratio / 3), jnp.log1p(safe) / safe)
    root = error * jnp.sqrt(shrinkage * shifted / dof)
    # Further out nothing is left, and powers of the square would overflow.
    square, b = jnp.minimum(root**2, 1e4), 48 * shifted**2
    third = (
        (((4 * square + 33) * square + 240) * square + 855) / (10 * b) / (b + 0.8 * square**2 + 100)
    )
    return ndtr(root * (1 + (square + 3) / b - third))


def _below_even(dof: int, error: Array) -> Array:
    """`P(t <= error)` for `dof = 2 m`, with all its digits however small it is.

    With `p = (1 + e / sqrt(dof + e^2)) / 2` it is

        I_p(m, m) = p^m sum_{j < m} C(m - 1 + j, j) (1 - p)^j.
    """
    error = _within_squares(error)
    square = dof + error**2
    sine = error / jnp.sqrt(square)
    # Where it is near -1, 1 + sine has lost its digits, and cos^2 / (1 - sine) has them.
    low = jnp.where(error < 0, sine, 0.0)
    p = 0.5 * jnp.where(error < 0, dof / square / (1 - low), 1 + sine)
    half = dof // 2
    total = jnp.zeros_like(p)
    for j in reversed(range(half)):
        total = float(math.comb(half - 1 + j, j)) + (1 - p) * total
    # In two steps, since the power alone may be smaller than any number when the tail is not.
    return p ** (half // 2) * total * p ** (half - half // 2)
