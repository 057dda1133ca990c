"""The figures of held-out rows."""

import jax
import numpy as np
import pytest
import scipy.stats

import scalemix as sx
from scalemix.analysis.evaluation import MEASURES, find_figures, levels_of
from scalemix.data.scaling import UNSCALED
from scalemix.posterior.conformal import Conformal, calibrate
from scalemix.posterior.history import History
from scalemix.posterior.networks import OneNetwork

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
    figures = find_figures(predictive, y, classes=False, key=KEY)
    assert set(figures) <= set(MEASURES)
    errors = predictive.mean - y
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert figures["r2"] == pytest.approx(1 - np.mean(errors**2) / np.var(y))
    lower, upper = predictive.interval(0.9)
    assert figures["coverage"] == np.mean((lower <= y) & (y <= upper))
    many = sx.metrics.crps(y, predictive.sample(jax.random.key(1), 2000))
    # A hundred samples of each of fifty rows: a standard error of about one in seventy.
    assert figures["crps"] == pytest.approx(many, rel=0.07)
    single = find_figures(posterior.predict(x[:1]), y[:1], classes=False, key=KEY)
    assert "r2" not in single


def test_conformal_intervals_and_sets_are_measured(fitted):
    posterior, x, y = fitted
    predictive = posterior.predict(x)
    conformal = calibrate(predictive, y)
    figures = find_figures(predictive, y, classes=False, key=KEY, conformal=conformal)
    lower, upper = conformal.interval(predictive, 0.9)
    assert figures["conformal_coverage"] == np.mean((lower <= y) & (y <= upper)) >= 0.9
    assert figures["conformal_width"] == pytest.approx(np.mean(upper - lower))
    # So few rows promise nothing, and no interval is wide enough.
    few = Conformal(conformal.plausibility[:5], conformal.by_error)
    figures = find_figures(predictive, y, classes=False, key=KEY, conformal=few)
    assert figures["conformal_coverage"] == 1
    assert "conformal_width" not in figures
    classes = untrained(sx.likelihoods.Categorical(3)).predict(np.linspace(-1, 1, 6)[:, None])
    labels = np.array([0, 1, 2, 0, 1, 2])
    sure = Conformal(np.linspace(0.2, 0.9, 20))
    figures = find_figures(classes, labels, classes=True, key=KEY, conformal=sure)
    sets = sure.sets(classes, 0.9)
    assert figures["set_size"] == sets.sum() / 6
    assert figures["set_coverage"] == np.mean([sets[i, label] for i, label in enumerate(labels)])
    assert figures.keys() <= MEASURES.keys()


def test_whole_numbers_lie_anywhere_on_their_step():
    """Levels of counts that come from the predictive itself are uniform, as those of numbers."""
    network = sx.networks.MLP(1, "scalar", width=2, depth=1, key=KEY)
    model = sx.Model(network, sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Poisson())
    empty = History(np.zeros(0), np.zeros(0), np.zeros(0))
    posterior = sx.Posterior(OneNetwork(model), UNSCALED, empty, KEY)
    predictive = posterior.predict(np.zeros((400, 1)))
    levels = levels_of(predictive, predictive.sample(KEY, 1)[0])
    # The 0.1% quantile of Kolmogorov's distance is 1.95 over the root of the number.
    assert scipy.stats.kstest(levels, "uniform").statistic < 1.95 / 20
    assert (levels <= predictive.cdf(predictive.sample(KEY, 1)[0]) + 1e-6).all()


def untrained(likelihood):
    network = sx.networks.MLP(1, likelihood.num_outputs, width=2, depth=1, key=KEY)
    model = sx.Model(network, sx.ARD(sx.Bernoulli(0.9)), likelihood)
    empty = History(np.zeros(0), np.zeros(0), np.zeros(0))
    return sx.Posterior(OneNetwork(model), UNSCALED, empty, KEY)


def test_no_model_knows_the_rows_of_training_and_not_those_of_the_test():
    predictive = untrained(sx.likelihoods.Categorical(2)).predict(np.zeros((4, 1)))
    assert repr(predictive) == "Predictive(4 rows, Categorical, 1 draw)"
    y = np.array([1, 1, 1, 0])
    known = find_figures(predictive, y, classes=True, key=KEY, trained_on=np.array([0, 0, 1]))
    assert known["baseline_accuracy"] == 0.25
    assert "commonest_share" not in known
    unknown = find_figures(predictive, y, classes=True, key=KEY)
    assert unknown["commonest_share"] == 0.75
    assert "baseline_accuracy" not in unknown


def test_times_that_go_on_have_a_concordance_and_a_baseline():
    likelihood = sx.likelihoods.RightCensored(sx.likelihoods.Weibull())
    predictive = untrained(likelihood).predict(np.linspace(-1, 1, 5)[:, None])
    y = np.array([1.0, 2.0, -3.0, 0.5, 4.0])
    figures = find_figures(predictive, y, classes=False, key=KEY, trained_on=y)
    assert figures["concordance"] == sx.metrics.concordance(y, predictive.mean)
    ended = scipy.stats.CensoredData(uncensored=y[y > 0], right=-y[y < 0])
    best = scipy.stats.weibull_min(*scipy.stats.weibull_min.fit(ended, floc=0))
    expected = np.where(y > 0, best.logpdf(np.abs(y)), best.logsf(np.abs(y))).mean()
    assert figures["baseline_log_likelihood"] == pytest.approx(expected, abs=1e-4)
    assert figures.keys() <= MEASURES.keys()
    assert "baseline_log_likelihood" not in find_figures(predictive, y, classes=False, key=KEY)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("rmse", 16376.4, "16,376"), ("rmse", 0.34941, "0.3494"), ("coverage", 0.925, "92.5%"),
     ("log_likelihood", -1234.5, "-1,234"), ("rmse", 1e12, "1e+12")],
)  # fmt: skip
def test_figures_are_written_as_people_write_them(name, value, shown):
    assert MEASURES[name].show(value) == shown
