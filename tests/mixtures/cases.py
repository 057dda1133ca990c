"""The table that feeds every test of a scale mixture: one row a family, with its scipy twins.

A family without a row fails `test_every_family_has_a_row`.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats as st

import scalemix as sx


@dataclasses.dataclass(frozen=True)
class Case:
    mixture: sx.mixtures.ScaleMixture
    noise: Any = None
    """scipy's distribution of xi; None for a family that is improper."""
    variance: Any = None
    """scipy's distribution of xi^2, where scipy has one."""
    marginal: Callable[[np.ndarray, float], np.ndarray] | None = None
    """Closed-form log density of w at a scale, where there is one."""
    updates: bool = False
    """Whether `optimal_variance` exists."""

    @property
    def discrete(self) -> bool:
        return isinstance(self.noise, _TwoPoints)

    @property
    def proper(self) -> bool:
        return self.noise is not None


@dataclasses.dataclass(frozen=True)
class _TwoPoints:
    """Zero, or `value` with probability `keep`."""

    keep: float
    value: float

    def moment(self, power: int) -> float:
        return self.keep * self.value**power if power > 0 or self.keep == 1 else math.inf


def bernoulli(keep: float, value: float = 1.0) -> Case:
    def slab(w, scale):
        return np.log(keep) + st.norm.logpdf(w, scale=scale * value)

    return Case(sx.Bernoulli(keep, value), _TwoPoints(keep, value), marginal=slab)


def gaussian(std: float, mean: float) -> Case:
    def normal_product(w, scale):
        x = np.abs(w) / (scale * std)
        return np.log(sp.k0e(x)) - x - np.log(np.pi * scale * std)

    return Case(
        sx.Gaussian(std, mean),
        st.norm(mean, std),
        st.ncx2(1, (mean / std) ** 2, scale=std**2) if mean else st.chi2(1, scale=std**2),
        None if mean else normal_product,
    )


def variance_gamma(mixture, shape: float, rate: float) -> Case:
    def marginal(w, scale):
        x = np.abs(w) * np.sqrt(2 * rate) / scale
        order = shape - 0.5
        bessel = np.log(sp.kve(order, x)) - x + order * np.log(x)
        normaliser = order * np.log(2) + 0.5 * np.log(np.pi) + sp.gammaln(shape)
        return bessel - normaliser + 0.5 * np.log(2 * rate) - np.log(scale)

    noise = st.nakagami(shape, scale=np.sqrt(shape / rate))
    return Case(mixture, noise, st.gamma(shape, scale=1 / rate), marginal, updates=True)


def student_t(mixture, shape: float, rate: float) -> Case:
    def marginal(w, scale):
        return st.t.logpdf(w, 2 * shape, scale=scale * np.sqrt(rate / shape))

    # 1 / xi is Nakagami; only the quantile function is wanted of the inverse.
    inverse = st.nakagami(shape, scale=np.sqrt(shape / rate))
    return Case(
        mixture, Reciprocal(inverse), st.invgamma(shape, scale=rate), marginal, updates=True
    )


class Reciprocal:
    """The distribution of one over a positive variable."""

    def __init__(self, of):
        self.of = of

    def ppf(self, u):
        return 1 / self.of.isf(u)

    def isf(self, u):
        return 1 / self.of.ppf(u)

    def cdf(self, x):
        return self.of.sf(1 / x)

    def logpdf(self, x):
        return self.of.logpdf(1 / x) - 2 * np.log(x)


def half_cauchy(scale: float) -> Case:
    def horseshoe(w, s0):
        c = 0.5 * (w / (s0 * scale)) ** 2
        # scipy's exp1 times exp(c), until it underflows; then the asymptotic series.
        small = np.minimum(c, 500.0)
        series = sum((-1) ** k * math.factorial(k) / np.maximum(c, 500.0) ** k for k in range(8))
        scaled = np.where(c < 500, np.exp(small) * sp.exp1(small), series / np.maximum(c, 500.0))
        return np.log(scaled) - 0.5 * np.log(2 * np.pi**3) - np.log(s0 * scale)

    noise = st.halfcauchy(scale=scale)
    return Case(sx.HalfCauchy(scale), noise, marginal=horseshoe, updates=True)


def uniform(low: float, high: float) -> Case:
    def difference(w, scale):
        c = 0.5 * (w / scale) ** 2
        lower = sp.exp1(c / low**2) if low else 0.0
        return np.log(sp.exp1(c / high**2) - lower) - np.log(
            2 * np.sqrt(2 * np.pi) * scale * (high - low)
        )

    return Case(sx.Uniform(low, high), st.uniform(low, high - low), marginal=difference)


CASES = {
    "Bernoulli": bernoulli(0.8),
    "Bernoulli inverted": bernoulli(0.7, 1 / 0.7),
    "Gaussian": gaussian(0.3, 1.0),
    "Gaussian centred": gaussian(2.0, 0.0),
    "Rayleigh": variance_gamma(sx.Rayleigh(1.3), 1.0, 0.5 / 1.3**2),
    "Exponential": variance_gamma(sx.Exponential(2.0), 1.0, 2.0),
    "Gamma below one": variance_gamma(sx.Gamma(0.3, 2.0), 0.3, 2.0),
    "Gamma above one": variance_gamma(sx.Gamma(3.0, 0.5), 3.0, 0.5),
    "InverseGamma": student_t(sx.InverseGamma(3.0, 3.0), 3.0, 3.0),
    "InverseGamma heavy": student_t(sx.InverseGamma(0.4, 0.2), 0.4, 0.2),
    "InverseNakagami": student_t(sx.InverseNakagami(2.0, 0.5), 2.0, 4.0),
    "HalfCauchy": half_cauchy(0.7),
    "Beta": Case(sx.Beta(3.0, 2.0), st.beta(3.0, 2.0)),
    "Beta with two poles": Case(sx.Beta(0.5, 0.5), st.beta(0.5, 0.5)),
    "Uniform": uniform(0.0, 1.0),
    "Uniform off zero": uniform(0.5, 1.5),
    "LogUniform": Case(sx.LogUniform(), marginal=lambda w, _: -np.log(2 * np.abs(w)), updates=True),
}
