"""Targets that are no real numbers, on their way in and out."""

import functools
import warnings

import jax
import numpy as np
import pytest
import scipy.stats as st

import scalemix as sx
from scalemix import likelihoods as lk
from scalemix.analysis.evaluation import find_figures
from scalemix.data.preparation import prepare
from scalemix.networks import MLP

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
TIMES = 300 * np.exp(X[:, 0]) * RNG.weibull(2.0, 40)
ENDS = RNG.uniform(size=40) < 0.5
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def model(likelihood):
    network = MLP(2, likelihood.num_outputs, 3, 1, key=KEY)
    return sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), likelihood)


@functools.cache
def fitted(unit=1.0, *, censored=True):
    y = lk.censored_times(TIMES * unit, ENDS if censored else np.ones(40, bool))
    method = sx.VariationalEM(steps=300, batch_size=8, learning_rate=0.03)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sx.fit(model(lk.RightCensored(lk.Weibull())), X, y, method, key=KEY)


def test_predictions_are_in_the_unit_of_the_targets():
    one, other = (fitted(unit).predict(X, num_draws=8) for unit in (1.0, 1000.0))
    for name in ("mean", "std", "aleatoric"):
        np.testing.assert_allclose(1000 * getattr(one, name), getattr(other, name), rtol=1e-3)
    lower, upper = one.interval(0.9)
    assert (lower > 0).all()
    np.testing.assert_allclose(1000 * upper, other.interval(0.9)[1], rtol=1e-3)
    y = lk.censored_times(TIMES, ENDS)
    # A density has a unit, the probability of a longer time has none.
    shift = one.log_prob(y) - other.log_prob(1000 * y)
    np.testing.assert_allclose(shift, np.where(ENDS, np.log(1000), 0.0), atol=2e-2)
    assert (one.sample(KEY, 20) > 0).all()


def test_a_time_that_goes_on_is_longer_than_one_that_ended():
    until = fitted(censored=False).predict(X, num_draws=8).mean
    assert np.median(fitted().predict(X, num_draws=8).mean / until) > 1.2


def test_of_a_time_that_goes_on_no_error_is_known():
    predictive, y = fitted().predict(X, num_draws=8), lk.censored_times(TIMES, ENDS)
    with pytest.raises(ValueError, match="not observed to the end has no error"):
        predictive.absolute_error(y)
    figures = find_figures(predictive, y, classes=False, key=KEY)
    # Only the order of times is known, and how probable each is.
    assert figures.keys() == {"log_likelihood", "concordance"}
    assert figures["log_likelihood"] == pytest.approx(predictive.log_prob(y).mean())
    assert figures["concordance"] == sx.metrics.concordance(y, predictive.mean)


@pytest.mark.parametrize(
    ("likelihood", "y", "reason"),
    [
        (lk.LogNormal(), [1.0, 0.0, 2.0], r"y is 0 at row 1: the targets of LogNormal are above 0"),
        (lk.Gamma(), [1.0, 2.0, -3.0], r"y is -3 at row 2: the targets of Gamma are above 0"),
        (lk.RightCensored(lk.Weibull()), [1.0, 0.0, -3.0], "row 1: the targets of RightCensored"),
        (lk.Beta(), [0.5, 1.0, 0.2], "y is 1 at row 1.*strictly between 0 and 1"),
        # In single precision it is one.
        (lk.Beta(), [0.5, 1 - 1e-12, 0.2], "at row 1.*strictly between 0 and 1"),
        (lk.NegativeBinomial(), [1, 2, -3], "y is -3 at row 2, which NegativeBinomial"),
        (lk.NegativeBinomial(), [1.0, 2.5, 3.0], "y is 2.5 at row 1, which NegativeBinomial"),
    ],
)
def test_targets_that_cannot_be_are_refused(likelihood, y, reason):
    with pytest.raises(ValueError, match=reason):
        prepare(model(likelihood), X[:3], y, None, True)


def test_targets_that_round_to_zero_are_refused():
    with pytest.raises(ValueError, match="y is 1e-60 at row 1: the targets of LogNormal are above"):
        prepare(model(lk.LogNormal()), X[:3], [1.0, 1e-60, 2.0], None, False)


def test_positive_targets_are_scaled_and_not_shifted():
    y = np.stack([TIMES, 7 * lk.censored_times(TIMES, ENDS)], axis=1)
    both = lk.Independent(lk.RightCensored(lk.LogNormal()), 2)
    data, scaling = prepare(model(both), X, y, None, True)
    means = st.gmean(np.abs(y))
    np.testing.assert_allclose(scaling.y_scale, means)
    np.testing.assert_array_equal(scaling.y_mean, 0.0)
    np.testing.assert_allclose(data.y, y / means, rtol=1e-6)
    _, unscaled = prepare(model(lk.Beta()), X, RNG.uniform(size=40), None, True)
    assert (unscaled.y_mean, unscaled.y_scale) == (0.0, 1.0)


def test_kinds_of_targets_have_names():
    samples = {
        "real": RNG.normal(5, 1, 50),
        "positive": RNG.lognormal(0, 1, 50),
        "count": RNG.poisson(2.0, 50),
        "share": RNG.uniform(size=50),
    }
    for kind, y in samples.items():
        assert lk.suggest_target(y) == kind
        likelihood = lk.for_target(kind, floor=0.2, per_input=True)
        assert likelihood.innermost.floor == 0.2
        assert likelihood.num_outputs == 2
        # What it suits it does not refuse.
        prepare(model(likelihood), RNG.normal(size=(50, 2)), y, None, True)
    assert lk.suggest_target([0, 1, 1]) == "real"
    assert lk.suggest_target([]) == "real"
    # Whole numbers far from zero lose nothing as real ones, and prices are no counts.
    assert lk.suggest_target(RNG.poisson(100.0, 50)) == "real"
    assert lk.suggest_target([90_000, 250_000, 1_100_000]) == "positive"
    assert lk.TARGETS.keys() == {*samples, "time"}
    assert lk.for_target("time").innermost == lk.Weibull()
    with pytest.raises(ValueError, match=r"no kind of target 'money'. There are: 'real', any"):
        lk.for_target("money")
