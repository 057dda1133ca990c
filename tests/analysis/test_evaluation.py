"""The figures of held-out rows."""

import jax
import numpy as np
import pytest

import scalemix as sx
from scalemix.analysis.evaluation import MEASURES, evaluate, shuffling_losses

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def fitted():
    """A network of two inputs that are used and one that is not, and rows it has not seen."""
    x = np.random.default_rng(0).normal(size=(200, 3))
    y = 10 * x[:, 0] + 3 * x[:, 1]
    network = sx.networks.MLP(3, "scalar", width=10, depth=1, key=KEY)
    model = sx.Model(network, sx.ARD(sx.Bernoulli(0.999)), sx.likelihoods.Gaussian())
    method = sx.NoiseTraining(steps=1500, learning_rate=0.02)
    return sx.fit(model, x[:150], y[:150], method, key=KEY), x[150:], y[150:]


def test_figures_agree_with_their_definitions(fitted):
    posterior, x, y = fitted
    predictive = posterior.predict(x)
    figures = evaluate(predictive, y, classes=False, key=KEY)
    assert set(figures) <= set(MEASURES)
    errors = predictive.mean - y
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert figures["r2"] == pytest.approx(1 - np.mean(errors**2) / np.var(y))
    lower, upper = predictive.interval(0.9)
    assert figures["coverage"] == np.mean((lower <= y) & (y <= upper))
    many = sx.metrics.crps(y, predictive.sample(jax.random.key(1), 2000))
    # A hundred samples of each of fifty rows: a standard error of about one in seventy.
    assert figures["crps"] == pytest.approx(many, rel=0.07)
    single = evaluate(posterior.predict(x[:1]), y[:1], classes=False, key=KEY)
    assert "r2" not in single


def test_shuffling_finds_what_is_used(fitted):
    posterior, x, y = fitted
    groups = {"both": [0, 1], "first": [0], "second": [1], "none": [2]}
    losses = shuffling_losses(posterior, x, y, groups, seed=0)
    assert losses["both"] > losses["second"] > 1
    assert losses["first"] > losses["second"]
    assert abs(losses["none"]) < 0.1 * losses["second"]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("rmse", 16376.4, "16,376"), ("rmse", 0.34941, "0.3494"), ("coverage", 0.925, "92.5%"),
     ("log_likelihood", -1234.5, "-1,234"), ("rmse", 1e12, "1e+12")],
)  # fmt: skip
def test_figures_are_written_as_people_write_them(name, value, shown):
    assert MEASURES[name].show(value) == shown
