"""Baselines against what they should find, and columns against a prior that is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

import scalemix as sx
from scalemix.analysis import baselines
from scalemix.analysis.baselines import Baseline, NoBaseline, fit_baselines
from scalemix.analysis.column_relevance import column_relevance
from scalemix.analysis.learning_curve import learning_curves
from scalemix.analysis.report.verdict import CHANCE, LEAST_ROWS, judge
from scalemix.analysis.times import fit_constant
from scalemix.data.scaling import Scaling
from scalemix.likelihoods import (
    Categorical,
    Gamma,
    Gaussian,
    Independent,
    Poisson,
    RightCensored,
    Weibull,
)
from scalemix.posterior.history import History
from scalemix.posterior.networks import Ensemble, OneNetwork

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 2))
LINE = 1 + X[:, 0]
TARGETS = {
    "linear regression": (Gaussian(), LINE + 0.1 * RNG.normal(size=160)),
    "Poisson regression": (Poisson(), RNG.poisson(np.exp(LINE))),
    "gamma regression": (Gamma(), np.exp(LINE) * RNG.gamma(9.0, size=160) / 9),
    "logistic regression": (Categorical(3), np.digitize(LINE, [0.5, 1.5])),
}


def split(y):
    return (X[:120], y[:120]), (X[120:], y[120:])


@pytest.mark.parametrize("name", TARGETS)
def test_a_baseline_finds_what_is_of_its_kind(name):
    likelihood, y = TARGETS[name]
    train, test = split(y)
    nothing, linear, trees = fitted = fit_baselines(train, test, likelihood).fitted
    assert linear.name == name
    # Row by row, by more than chance.
    assert judge(linear.losses, nothing).is_better
    assert judge(trees.losses, nothing).is_better
    assert judge(nothing.losses, linear).is_worse
    if name == "linear regression":
        assert linear.figures["rmse"] == pytest.approx(0.1, rel=0.3)
        assert nothing.figures["rmse"] == pytest.approx(
            np.sqrt(np.mean((test[1] - train[1].mean()) ** 2))
        )
    of_line, of_trees = learning_curves(train, test, likelihood, fitted)
    assert of_line.sizes.tolist() == [15, 30, 60, 120]
    # A leaf has twenty rows, so that fifteen teach trees nothing; a line is known from them.
    assert of_trees.errors[0] > 1.3 * of_trees.errors[-1]


def test_losses_are_the_deviances_of_scikit_learn():
    mean, counts = np.exp(LINE), RNG.poisson(np.exp(LINE))
    deviance = baselines.row_losses(mean, counts, "count").mean()
    assert deviance == pytest.approx(mean_poisson_deviance(counts, mean))
    deviance = baselines.row_losses(mean, mean[::-1], "positive").mean()
    assert deviance == pytest.approx(mean_gamma_deviance(mean[::-1], mean))
    assert baselines.total_error(LINE + 2, LINE, "real") == pytest.approx(2)


def test_of_several_targets_each_is_fitted():
    y = np.stack([LINE, -5 * LINE], axis=1)
    _, linear, _ = fit_baselines(*split(y), Independent(Gaussian(), 2)).fitted
    assert linear.losses.shape == (40,)
    assert linear.figures["r2"] > 0.99


@pytest.mark.parametrize("num_seen", [1, 2])
def test_a_class_that_training_has_not_is_improbable_and_not_impossible(num_seen):
    """By the rule of succession it has one chance in the number of rows and classes."""
    y = np.arange(160) % num_seen
    y[-1] = 2
    fitted = fit_baselines(*split(y), Categorical(3)).fitted
    assert len(fitted) == 3
    for baseline in fitted:
        assert baseline.losses[-1] == pytest.approx(np.log(120 + 3))
    # What the others lose for it is as little.
    assert fitted[0].losses[0] == pytest.approx(-np.log((1 - (3 - num_seen) / 123) / num_seen))


def test_a_curve_has_the_sizes_that_can_be_fitted_to():
    """The first draw of thirty rows has no count above zero."""
    y = np.ones(160, int)
    y[np.random.default_rng(0).permutation(120)[:30]] = 0
    train, test = split(y)
    others = fit_baselines(train, test, Poisson())
    assert len(others.fitted) == 3
    assert not others.left_out
    curves = learning_curves(train, test, Poisson(), others.fitted)
    assert [curve.sizes.tolist() for curve in curves] == [[60, 120], [60, 120]]
    assert all(np.isfinite(curve.errors).all() for curve in curves)


def test_counts_that_are_all_zero_teach_nothing():
    y = np.zeros(160, int)
    y[-1] = 1
    with pytest.raises(NoBaseline, match="All counts to train on are zero"):
        fit_baselines(*split(y), Poisson())


def test_a_class_of_one_row_among_many_does_not_stop_the_trees():
    """Above 10,000 rows, trees set a part of each class apart, unless told otherwise."""
    x = np.random.default_rng(0).normal(size=(10_100, 1))
    y = (x[:, 0] > 0).astype(int)
    y[5] = 2
    *_, trees = fit_baselines((x, y), (x[:20], y[:20]), Categorical(3)).fitted
    assert trees.name == "boosted trees"
    assert trees.figures["accuracy"] >= 0.9


def test_what_cannot_be_fitted_is_left_out_in_words(monkeypatch):
    def fail(*_):
        raise ValueError("no such luck")

    monkeypatch.setattr("sklearn.linear_model.RidgeCV.fit", fail)
    others = fit_baselines(*split(LINE), Gaussian())
    assert [one.name for one in others.fitted] == ["no model", "boosted trees"]
    assert others.left_out == {"linear regression": "no such luck"}


@pytest.mark.parametrize("num_rows", [5, 10, 50])
def test_chance_is_called_a_difference_in_one_of_twenty_comparisons(num_rows):
    repeats = 4000
    gaps = np.random.default_rng(num_rows).normal(size=(repeats, num_rows))
    verdicts = [judge(np.zeros(num_rows), Baseline("b", {}, gap)) for gap in gaps]
    share = np.mean([verdict.is_better or verdict.is_worse for verdict in verdicts])
    assert share == pytest.approx(CHANCE, abs=4 * np.sqrt(CHANCE * (1 - CHANCE) / repeats))


def test_very_few_rows_show_nothing():
    for num_rows in range(1, LEAST_ROWS):
        verdict = judge(np.zeros(num_rows), Baseline("b", {}, np.ones(num_rows)))
        assert not verdict.is_better
        assert not verdict.is_worse


def test_where_there_is_none_it_says_why(monkeypatch):
    with pytest.raises(NoBaseline, match="No time to train on was observed to the end"):
        fit_baselines(*split(-np.exp(LINE)), RightCensored(Weibull()))
    monkeypatch.setitem(__import__("sys").modules, "sklearn.ensemble", None)
    with pytest.raises(NoBaseline, match="scikit-learn is not installed"):
        fit_baselines(*split(LINE), Gaussian())


def test_of_times_no_model_is_the_most_likely_weibull():
    times = np.where(X[:, 0] > 0, -1.0, 1.0) * np.exp(LINE)
    train, test = split(times)
    (nothing,) = fit_baselines(train, test, RightCensored(Weibull())).fitted
    ended, goes_on = train[1][train[1] > 0], -train[1][train[1] < 0]
    censored = scipy.stats.CensoredData(uncensored=ended, right=goes_on)
    shape, _, scale = scipy.stats.weibull_min.fit(censored, floc=0)
    weibull = scipy.stats.weibull_min(shape, scale=scale)
    expected = np.where(test[1] > 0, weibull.logpdf(test[1]), weibull.logsf(-test[1]))
    np.testing.assert_allclose(-nothing.losses, expected, rtol=1e-3, atol=1e-3)
    # Of two targets, the log densities add up.
    both = fit_constant(np.stack([train[1], 10 * train[1]], axis=1))
    twice = both.log_prob(np.stack([test[1], 10 * test[1]], axis=1))
    once = -nothing.losses
    np.testing.assert_allclose(twice, 2 * once - np.log(10) * (test[1] > 0), rtol=1e-6)
    # All alike, they are as regular as a shape can be.
    assert np.isfinite(fit_constant(np.full(5, 2.0)).log_prob(np.array([2.0]))).all()


def test_a_curve_knows_whether_its_last_gain_is_chance():
    """Half of the rows know less than all of them where a line is hidden in many columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(380, 60))
    y = x.sum(axis=1) + rng.normal(size=380)
    train, test = (x[:80], y[:80]), (x[80:], y[80:])
    line, _ = learning_curves(
        train, test, Gaussian(), fit_baselines(train, test, Gaussian()).fitted
    )
    assert line.trend == "falls"
    low, high = line.last_gains
    assert low < line.last_gain < high
    # Where there is nothing to learn, no fall is sure.
    noise = train[0], rng.normal(size=80)
    tested = test[0][:30], rng.normal(size=30)
    for curve in learning_curves(
        noise, tested, Gaussian(), fit_baselines(noise, tested, Gaussian()).fitted
    ):
        assert curve.trend != "falls", curve.name


def test_few_rows_have_no_curve():
    (x, y), test = split(LINE)
    few = (x[:30], y[:30])
    assert learning_curves(few, test, Gaussian(), fit_baselines(few, test, Gaussian()).fitted) == []
    assert baselines.kind_of(Gaussian(), few) == "real"


def test_the_relevance_of_a_column_is_what_all_its_inputs_do_together():
    """Of a network that is certain, prior variances are its squared weights."""
    key = jax.random.key(0)
    layer = sx.networks.ColumnLinear((0, 1, 1), 1, use_bias=False, key=key)
    models = []
    for on in ([True, True, True], [True, True, False]):
        weights = jnp.array([[2.0, 1.0, 3.0]])
        own = eqx.tree_at(lambda one: (one.weight, one.on), layer, (weights, jnp.array(on)))
        models.append(sx.Model(own, sx.DropConnect(sx.HalfCauchy(1.0)), Gaussian(0.1)))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(OneNetwork, models))
    history = History(np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 1)))
    scaling = Scaling(np.zeros(3), np.array([2.0, 1.0, 1.0]), 0.0, 1.0)
    posterior = sx.Posterior(Ensemble(stacked, 2), scaling, history, key)
    x = np.array([[-2.0, 0.0, -1.0], [2.0, 2.0, 1.0]])
    # Every input has the variance one; one member does not read the last.
    first, second = 4 / (4 + 1 + 9), 4 / (4 + 1)
    shares = column_relevance(posterior, x, [[0], [1, 2]])
    expected = (first + second) / 2
    np.testing.assert_allclose(shares, [expected, 1 - expected], rtol=1e-5)
    # A cell far outside its column counts as far as networks see it.
    ends = np.array([[-2.0, 0.0, -1.0], [2.0, 2.0, 1.0]])
    drawing = eqx.tree_at(
        lambda p: p.scaling, posterior, scaling._replace(x_ends=ends, draws_in=True)
    )
    far, near = np.vstack([x, [1e9, 0.0, 0.0]]), np.vstack([x, [10.0, 0.0, 0.0]])
    shares = column_relevance(drawing, far, [[0], [1, 2]])
    np.testing.assert_allclose(shares, column_relevance(posterior, near, [[0], [1, 2]]), rtol=1e-5)
