"""Conformal intervals and sets cover what they say, whatever the model."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.scaling import UNSCALED
from scalemix.networks import MLP
from scalemix.posterior import statistics
from scalemix.posterior.conformal import Conformal, calibrate
from scalemix.posterior.history import History
from scalemix.posterior.networks import OneNetwork

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
NUM = 400
NEW = RNG.normal(size=(NUM, 2))


def fitted(likelihood, y, out_size="scalar"):
    model = sx.Model(MLP(2, out_size, 4, 1, key=KEY), sx.ARD(sx.Gaussian(0.3)), likelihood)
    # Hardly fitted, and wrong about everything.
    return sx.fit(model, X, y, sx.NoiseTraining(steps=20, num_draws=2), key=KEY)


def mean_coverage(covered, coverage, num=100, num_calibrated=49):
    """The mean coverage over splits, and its standard error if it is what is guaranteed."""
    rng = np.random.default_rng(1)
    shares = [
        np.mean(covered(*np.split(rng.permutation(NUM), [num_calibrated]))) for _ in range(num)
    ]
    expected = 1 - math.floor((num_calibrated + 1) * (1 - coverage) + 1e-9) / (num_calibrated + 1)
    # The coverage of one calibration has a beta distribution; new rows add to it.
    spread = math.sqrt(expected * (1 - expected) * (1 / (num_calibrated + 2) + 1 / (NUM - 49)))
    return np.mean(shares), expected, spread / math.sqrt(num)


@pytest.mark.parametrize("likelihood", [sx.likelihoods.Gaussian(), sx.likelihoods.Poisson()])
def test_intervals_cover_what_they_say(likelihood):
    rate = np.exp(0.5 * NEW[:, 0])
    y = RNG.poisson(rate) if likelihood.discrete else NEW[:, 0] + rate * RNG.standard_t(3, NUM)
    post = fitted(likelihood, np.arange(60) % 3)
    predictive = post.predict(NEW, num_draws=8)
    # What a calibration finds of each row by itself, to be split without predicting anew.
    (tails,) = predictive._stream(statistics.tail, predictive._targets(y))

    def covered(calibrated, new):
        return tails[new] >= Conformal(np.sort(tails[calibrated]))._least(0.8)

    mean, expected, error = mean_coverage(covered, 0.8)
    assert expected == 0.8
    # Ties of counts can only cover more.
    assert mean > expected - 4 * error
    if not likelihood.discrete:
        assert mean < expected + 4 * error
    # The interval holds just the targets that are as plausible.
    conformal = Conformal(np.sort(tails))
    lower, upper = conformal.interval(predictive, 0.8)
    inside = (lower <= y) & (y <= upper)
    slack = 1e-3 * (upper - lower)
    near = np.minimum(np.abs(y - lower), np.abs(y - upper)) < slack
    wanted = tails >= conformal._least(0.8)
    assert (inside == wanted)[~near | likelihood.discrete].all()
    assert inside.mean() >= 0.8 - 2 / NUM


def test_widths_of_real_targets_go_with_the_fourth_root_of_the_deviation():
    # A network whose first input says the noise, which has nothing to do with it.
    network = eqx.nn.Linear(2, 2, use_bias=False, key=KEY)
    network = eqx.tree_at(lambda n: n.weight, network, jnp.array([[0.0, 1.0], [2.0, 0.0]]))
    noisy = sx.likelihoods.Gaussian(per_input=True)
    model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), noisy)
    history = History(np.zeros(1), np.zeros(1), np.zeros(1))
    predictive = sx.Posterior(OneNetwork(model), UNSCALED, history, KEY).predict(NEW)
    y = predictive.mean + RNG.normal(size=NUM)
    conformal = calibrate(predictive, y)
    assert len(conformal.plausibility) == NUM
    lower, upper = conformal.interval(predictive, 0.9)
    # Of the rows that calibrated, those up to the place that is looked up: 361 of 400.
    assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(361 / NUM)
    np.testing.assert_allclose((lower + upper) / 2, predictive.mean, atol=1e-12)
    half = np.sort(np.abs(y - predictive.mean) / predictive.std**0.25)[360]
    np.testing.assert_allclose((upper - lower) / predictive.std**0.25, 2 * half, rtol=1e-12)
    # What was calibrated before errors had a unit has intervals of one width, as it had.
    before = Conformal(conformal.plausibility, conformal.by_error)
    lower, upper = before.interval(predictive, 0.9)
    np.testing.assert_allclose(upper - lower, -2 * conformal._least(0.9), rtol=1e-12)


def test_the_row_that_sets_the_end_is_inside():
    post = fitted(sx.likelihoods.Gaussian(), X[:, 0])
    predictive = post.predict(NEW, num_draws=8)
    rng = np.random.default_rng(2)
    for scale in np.geomspace(1e-6, 1e6, 25):
        y = scale * rng.normal(size=NUM)
        conformal = calibrate(predictive, y)
        for coverage in (0.5, 0.8, 0.9):
            lower, upper = conformal.interval(predictive, coverage)
            # Of 400 rows, (n + 1) times the coverage, rounded up.
            assert np.sum((lower <= y) & (y <= upper)) >= math.ceil((NUM + 1) * coverage)


def test_errors_count_as_they_are_where_the_deviation_says_nothing():
    # Student-t with two degrees of freedom has no variance.
    post = fitted(sx.likelihoods.StudentT(2.0), X[:, 0])
    predictive = post.predict(NEW, num_draws=8)
    assert np.isinf(predictive.std).all()
    lower, upper = calibrate(predictive, NEW[:, 0]).interval(predictive, 0.9)
    np.testing.assert_allclose(upper - lower, (upper - lower)[0], rtol=1e-12)
    assert np.mean((lower <= NEW[:, 0]) & (NEW[:, 0] <= upper)) == pytest.approx(361 / NUM)


def test_sets_hold_the_class_and_are_never_empty():
    labels = np.digitize(NEW[:, 0] + 0.5 * RNG.normal(size=NUM), [-0.5, 0.5])
    post = fitted(sx.likelihoods.Categorical(3), np.arange(60) % 3, out_size=3)
    predictive = post.predict(NEW, num_draws=8)
    conformal = calibrate(predictive, labels)
    sets = conformal.sets(predictive, 0.8)
    assert sets.shape == (NUM, 3)
    assert sets.any(axis=1).all()
    assert 0.8 <= sets[np.arange(NUM), labels].mean() <= 0.81
    assert sets.sum() < 3 * NUM
    with pytest.raises(ValueError, match="Classes have no order"):
        conformal.interval(predictive)


def test_too_few_rows_promise_nothing():
    post = fitted(sx.likelihoods.Gaussian(), X[:, 0])
    predictive = post.predict(NEW[:8], num_draws=8)
    lower, upper = calibrate(predictive, NEW[:8, 0]).interval(predictive, 0.9)
    assert (lower == -np.inf).all()
    assert (upper == np.inf).all()
    lower, upper = calibrate(predictive, NEW[:8, 0]).interval(predictive, 0.88)
    assert np.isfinite(upper - lower).all()
    with pytest.raises(ValueError, match="there are none"):
        calibrate(post.predict(NEW[:0]), [])
    with pytest.raises(ValueError, match="Only classes have sets"):
        calibrate(predictive, NEW[:8, 0]).sets(predictive)
    with pytest.raises(ValueError, match=r"coverage is one number in \(0, 1\)"):
        calibrate(predictive, NEW[:8, 0]).interval(predictive, 90)


def test_each_of_several_targets_is_calibrated_by_itself():
    both = sx.likelihoods.Independent(sx.likelihoods.Gaussian(), 2)
    post = fitted(both, np.stack([X[:, 0], 10 * X[:, 1]], axis=1), out_size=2)
    y = np.stack([NEW[:, 0], 30 * NEW[:, 1]], axis=1)
    predictive = post.predict(NEW, num_draws=8)
    lower, upper = calibrate(predictive, y).interval(predictive, 0.9)
    np.testing.assert_allclose(np.mean((lower <= y) & (y <= upper), axis=0), 0.9, atol=0.04)


def test_times_that_go_on_are_refused():
    post = fitted(sx.likelihoods.RightCensored(sx.likelihoods.Weibull()), np.exp(X[:, 0]))
    with pytest.raises(ValueError, match="not all observed to the end"):
        calibrate(post.predict(NEW[:8], num_draws=8), np.array([-1.0, *np.ones(7)]))
