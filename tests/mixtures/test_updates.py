"""The EM updates, for any parameters, against scipy's densities and a numerical maximiser."""

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as some

import scalemix as sx
from scalemix.mixtures._base import _families_with_update

POWER = some.floats(-2.0, 2.0).map(lambda e: 10.0**e)
# The hyperprior as a function of log v, in the coordinate in which the update is made.
FAMILIES = {
    "InverseGamma": (
        sx.InverseGamma,
        lambda a, b: lambda v: st.invgamma(a, scale=b).logpdf(v),
    ),
    "InverseNakagami": (
        sx.InverseNakagami,
        lambda m, spread: lambda v: st.invgamma(m, scale=m / spread).logpdf(v),
    ),
    "Gamma": (sx.Gamma, lambda a, r: lambda v: st.gamma(a, scale=1 / r).logpdf(v)),
    "Exponential": (
        lambda r, _: sx.Exponential(r),
        lambda r, _: lambda v: st.expon(scale=1 / r).logpdf(v),
    ),
    "Rayleigh": (
        lambda b, _: sx.Rayleigh(b),
        lambda b, _: lambda v: st.expon(scale=2 * b**2).logpdf(v),
    ),
    "HalfCauchy": (
        lambda eta, _: sx.HalfCauchy(eta),
        lambda eta, _: lambda v: st.halfcauchy(scale=eta).logpdf(np.sqrt(v)),
    ),
    "LogUniform": (lambda *_: sx.LogUniform(), lambda *_: lambda v: -np.log(v)),
}


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(first=POWER, second=POWER, count=some.integers(1, 2000), size=some.floats(-4.0, 4.0))
def test_updates_maximise_the_bound(name, first, second, count, size):
    build, density = FAMILIES[name]
    moment = count * 10.0**size
    log_density = density(first, second)

    def loss(t: float) -> float:
        v = np.exp(t)
        return 0.5 * count * t + 0.5 * moment / v - log_density(v)

    with jax.enable_x64(True):
        best_variance = float(build(first, second).optimal_variance(moment, count))
    # The loss has one valley. It is searched around the claim, which must lie at its bottom.
    best = scipy.optimize.minimize_scalar(
        loss, bounds=(np.log(best_variance) - 3, np.log(best_variance) + 3), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    assert loss(np.log(best_variance)) <= best.fun + 1e-9 * abs(best.fun)
    assert np.log(best_variance) == pytest.approx(best.x, abs=1e-3)


def test_every_update_is_tried():
    assert set(FAMILIES) == set(_families_with_update())
