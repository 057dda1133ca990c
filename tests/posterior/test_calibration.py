"""Intervals calibrated on held-out rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import t as student_t

import scalemix as sx
from scalemix.data.scaling import Scaling
from scalemix.networks import MLP
from scalemix.posterior.calibration import (
    LARGEST_SCORE,
    ROWS_BELIEVED,
    score_spread,
    tail_probability,
)
from scalemix.posterior.networks import OneNetwork
from scalemix.posterior.posterior import History


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.7])
def test_the_spread_of_normal_scores_is_found_and_undone(spread):
    """Targets of another spread than predicted: intervals at the level found cover their share."""
    rng = np.random.default_rng(0)
    num = 20_000
    measured = score_spread(norm.cdf(spread * rng.normal(size=num)), np.ones(num))
    # The standard error of a standard deviation, and what the rows believed in add.
    slack = 4 * spread / np.sqrt(2 * num) + ROWS_BELIEVED / num
    assert measured == pytest.approx(spread, abs=slack)
    fresh = norm.cdf(spread * rng.normal(size=num))
    for probability in (0.5, 0.9, 0.99):
        inside = np.abs(2 * fresh - 1) <= 1 - 2 * tail_probability(probability, measured)
        # Of the share, and of the spread: coverage moves by at most 2 z phi(z) = .484 of it.
        error = np.sqrt(probability * (1 - probability) / num) + 0.484 / np.sqrt(2 * num)
        assert inside.mean() == pytest.approx(probability, abs=4 * error + ROWS_BELIEVED / num)


def drawn(square, num):
    """The spread that a mean square of so many rows is drawn to."""
    return np.sqrt((num * square + ROWS_BELIEVED) / (num + ROWS_BELIEVED))


def test_rows_count_by_their_weight():
    cdf = norm.cdf([1.0, 3.0])
    assert score_spread(cdf, np.array([1.0, 0.0])) == pytest.approx(1.0)
    assert score_spread(cdf, np.array([3.0, 1.0])) == pytest.approx(drawn(3.0, 2))
    # Weights are relative: ten times each is the same.
    assert score_spread(cdf, np.array([30.0, 10.0])) == pytest.approx(drawn(3.0, 2))


def test_targets_beyond_all_doubt_count_as_far_away():
    measured = score_spread(np.array([0.0, 1.0]), np.ones(2))
    assert measured == pytest.approx(drawn(LARGEST_SCORE**2, 2))


def test_few_rows_change_little():
    assert 1 < score_spread(norm.cdf(np.full(10, 2.0)), np.ones(10)) < 1.25
    assert score_spread(norm.cdf(np.full(10_000, 2.0)), np.ones(10_000)) == pytest.approx(2, 0.01)


@settings(derandomize=True, max_examples=100)
@given(st.floats(0.01, 0.99), st.floats(0.1, 3.0))
def test_tails_shrink_with_both(probability, spread):
    tail = tail_probability(probability, spread)
    assert 0 < tail < 0.5
    assert tail_probability(probability, 1.1 * spread) < tail
    assert tail_probability(probability + 0.005, spread) < tail
    assert tail_probability(probability, 1.0) == 0.5 * (1 - probability)
    np.testing.assert_allclose(norm.isf(tail), spread * norm.isf(0.5 * (1 - probability)))


def constant_posterior(spread, likelihood):
    """The likelihood at zero whatever the input, with held-out targets of this spread."""
    network = jax.tree.map(
        lambda leaf: jnp.zeros_like(leaf) if hasattr(leaf, "shape") else leaf,
        MLP(1, "scalar", 2, 1, key=jax.random.key(0)),
    )
    model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), likelihood)
    scaling = Scaling(np.zeros(1), np.ones(1), 0.0, 1.0)
    history = History(np.zeros(1), np.zeros(0), {})
    return sx.Posterior(OneNetwork(model), scaling, history, jax.random.key(1), spread)


def normal_posterior(spread):
    return constant_posterior(spread, sx.likelihoods.Gaussian(1.0))


@pytest.mark.parametrize(
    ("likelihood", "twin"),
    [
        (sx.likelihoods.Gaussian(1.0), norm),
        (sx.likelihoods.StudentT(4.0, 1.0), student_t(4)),
        (sx.likelihoods.StudentT(2.0, 1.0), student_t(2)),
    ],
    ids=["Gaussian", "StudentT(4)", "StudentT(2)"],
)
@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
def test_both_ends_of_an_interval_are_right_however_far_out(likelihood, twin, spread):
    """A cdf in single precision tells nothing above one minus 6e-8: the upper end was lost."""
    prediction = constant_posterior(spread, likelihood).predict(np.zeros((2, 1)))
    for probability in (0.5, 0.99, 0.999, 1 - 1e-6):
        lower, upper = prediction.interval(probability)
        expected = twin.isf(tail_probability(probability, spread))
        np.testing.assert_allclose(upper, expected, rtol=1e-4)
        np.testing.assert_allclose(lower, -upper, rtol=1e-6)


def test_an_interval_of_all_but_everything_has_ends():
    """Six spreads of seven scores leave out less than any number: no reason to fail."""
    prediction = normal_posterior(6.0).predict(np.zeros((2, 1)))
    lower, upper = prediction.interval(1 - 1e-12)
    assert np.all((upper > 12) & np.isfinite(upper))
    np.testing.assert_allclose(lower, -upper, rtol=1e-6)


def test_intervals_stretch_and_the_distribution_stays(tmp_path):
    x = np.zeros((3, 1))
    plain, wide = normal_posterior(1.0).predict(x), normal_posterior(1.5).predict(x)
    np.testing.assert_allclose(plain.interval(0.9)[1], norm.ppf(0.95), rtol=1e-5)
    np.testing.assert_allclose(wide.interval(0.9)[1], 1.5 * norm.ppf(0.95), rtol=1e-4)
    np.testing.assert_allclose(wide.interval(0.9)[0], -1.5 * norm.ppf(0.95), rtol=1e-4)
    np.testing.assert_array_equal(plain.quantile(0.95), wide.quantile(0.95))
    np.testing.assert_array_equal(plain.log_prob(np.ones(3)), wide.log_prob(np.ones(3)))
    normal_posterior(1.5).save(tmp_path / "wide.scalemix")
    again = sx.load(tmp_path / "wide.scalemix").predict(x)
    np.testing.assert_array_equal(again.interval(0.9), wide.interval(0.9))
