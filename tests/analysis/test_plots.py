"""Pictures show the numbers that they were given, and leave matplotlib as they found it."""

import subprocess
import sys

import jax
import matplotlib as mpl
import numpy as np
import pytest
import scipy.stats as st

mpl.use("Agg")
import matplotlib.pyplot as plt

import scalemix as sx
from scalemix.analysis import plots
from scalemix.data.scaling import Scaling
from scalemix.networks import MLP
from scalemix.posterior.networks import OneNetwork
from scalemix.posterior.posterior import History
from tests.mixtures.cases import CASES
from tests.posterior.storage.cases import build, ensemble, noisy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
HISTORY = noisy().history


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """Every picture renders without a warning, and no setting changes."""
    before = dict(mpl.rcParams)
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")
    assert dict(mpl.rcParams) == before


@pytest.fixture(scope="module")
def predictive():
    return noisy().predict(X, num_draws=5)


def line(ax, label):
    (labelled,) = [one for one in ax.lines if str(one.get_label()).startswith(label)]
    return np.stack(labelled.get_data())


def test_intervals_in_the_order_of_predictions(predictive):
    lower, upper = predictive.interval(0.8)
    y = predictive.mean.copy()
    y[:3] = upper[:3] + 1.0
    ax = plots.intervals(predictive, y, probability=0.8, target="price")
    where, mean = line(ax, "predictive mean")
    np.testing.assert_array_equal(mean, np.sort(predictive.mean))
    np.testing.assert_array_equal(where, np.arange(30) + 1)
    assert set(line(ax, "targets outside")[1]) == set(y[:3])
    assert set(line(ax, "targets inside (90% of 30)")[1]) == set(y[3:])
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([band.min(), band.max()], [lower.min(), upper.max()], rtol=1e-6)
    assert ax.get_ylabel() == "price"
    assert "80% interval" in ax.get_legend_handles_labels()[1]


def test_intervals_against_an_input(predictive):
    ax = plots.intervals(predictive, x=X[:, 1], input="age")
    where, mean = line(ax, "predictive mean")
    np.testing.assert_array_equal(where, np.sort(X[:, 1]))
    np.testing.assert_array_equal(mean, predictive.mean[np.argsort(X[:, 1])])
    lower, upper = predictive.interval(0.9)
    bars = {tuple(bar[:, 1]) for bar in ax.collections[0].get_segments()}
    assert bars == set(zip(lower, upper, strict=True))
    assert ax.get_xlabel() == "age"


def test_the_only_input_has_a_band():
    scaling = Scaling(np.zeros(0), np.ones(0), 0.0, 1.0)
    model = build(network=MLP(1, "scalar", 4, 1, key=jax.random.key(0)))
    posterior = sx.Posterior(OneNetwork(model), scaling, HISTORY, jax.random.key(0))
    x = np.linspace(-1, 1, 9)
    ax = plots.intervals(posterior.predict(x[:, None]), x=x)
    assert len(ax.collections[0].get_paths()) == 1
    np.testing.assert_array_equal(line(ax, "predictive mean")[0], x)


def test_calibration_is_a_share_against_a_level():
    values = RNG.uniform(size=200) ** 2
    ax = plots.calibration(values)
    levels, shares = line(ax, "observed")
    for level in (0.1, 0.5, 0.9):
        i = int(np.argmin(np.abs(levels - level)))
        assert shares[i] == np.mean(values <= levels[i])
    assert (shares[0], shares[-1]) == (0, 1)
    gap = np.mean(np.abs(shares - levels)[5:-5:5])
    assert gap == pytest.approx(sx.metrics.calibration_error(values), abs=0.01)
    # A level's band is what a binomial count of 200 leaves.
    band = ax.collections[0].get_paths()[0].vertices
    at_half = band[np.isclose(band[:, 0], 0.5), 1]
    expected = st.norm.interval(0.95, 0.5, np.sqrt(0.25 / 200))
    np.testing.assert_allclose([at_half.min(), at_half.max()], expected, atol=1e-3)


def test_calibration_of_a_class_is_the_share_in_bins_of_equal_numbers():
    said = np.linspace(0.005, 0.995, 80)
    came = np.arange(80) % 4 == 0
    ax = plots.class_calibration(said, came)
    stated, observed = ax.lines[1].get_data()
    np.testing.assert_allclose(stated, said.reshape(8, 10).mean(axis=1))
    np.testing.assert_allclose(observed, came.reshape(8, 10).mean(axis=1))
    with pytest.raises(ValueError, match="for each row"):
        plots.class_calibration(said, came[:3])


def test_relevance_is_sorted_and_cut():
    values = np.array([0.1, 0.5, 0.05, 0.35])
    ax = plots.relevance(values, ["a", "b", "c", "d"], top=2)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.5, 0.35, 0.15])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "d", "2 others"]
    # The first bar is on top.
    assert ax.yaxis_inverted()
    # What is below zero has its number on the right of zero, away from the names.
    ax = plots.relevance([0.5, -0.3], ["a", "b"])
    assert [text.xy[0] for text in ax.texts] == [0.5, 0.0]
    ax = plots.relevance({"layers.0": 0.2, "layers.1": 0.8})
    assert [text.get_text() for text in ax.get_yticklabels()] == ["layers.1", "layers.0"]


def test_heat_maps_show_second_moments_with_rows_first():
    posterior = ensemble()
    axes = plots.heat_maps(posterior, member=1)
    networks = posterior.networks.member(1)
    assert [ax.get_title(loc="left") for ax in axes] == ["layers.0", "layers.1"]
    weight, deviation = networks.model.weights["layers.0"], networks.deviations["layers.0"]
    shown = np.asarray(axes[0].images[0].get_array())
    np.testing.assert_allclose(shown, np.asarray(weight**2 + deviation**2).T, rtol=1e-6)
    assert shown.shape == (3, 5)
    # One scale of colours for all.
    assert len({image.norm.vmax for ax in axes for image in ax.images}) == 1


def test_heat_maps_of_noise_show_squared_weights():
    posterior = noisy()
    ax = plots.heat_map(posterior, "layers.1")
    weight = np.asarray(posterior.model.weights["layers.1"])
    np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), weight.T**2, rtol=1e-6)
    labels = [other.get_ylabel() for other in ax.get_figure().axes]
    assert "$w^2$" in labels


def test_history_shows_steps_and_scores():
    objective = np.concatenate([[-1e6], np.linspace(-3, -1, 199)])
    told = History(objective, np.array([-2.0, -1.5, -1.2]), {})
    ax = plots.history(told)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), objective)
    steps, mean = line(ax, "objective")
    assert steps[-1] == 200
    assert mean[-1] == pytest.approx(objective[-4:].mean())
    ends, scores = line(ax, "held-out")
    np.testing.assert_array_equal(scores, told.score)
    np.testing.assert_array_equal(ends, [67, 134, 200])
    # The first step is out of sight, the scores are not.
    assert -10 < ax.get_ylim()[0] < -2


def test_history_of_an_ensemble_has_a_line_for_each_member():
    ax = plots.history(ensemble())
    assert len(ax.lines) == 6
    assert "objective, 3 members" in ax.get_legend_handles_labels()[1]


def test_importance_weights_are_ranked():
    weights = RNG.dirichlet(np.ones(5), size=(3, 40)).transpose(0, 2, 1)
    told = History(np.zeros(3), np.zeros(0), {"importance_weights": weights})
    ax = plots.importance_weights(told, chunk=1)
    ranks, means = line(ax, "mean of 40 examples")
    np.testing.assert_array_equal(ranks, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(means, np.sort(weights[1], axis=0)[::-1].mean(axis=1))
    assert set(line(ax, "equal weights")[1]) == {0.2}
    members = History(np.zeros((2, 3)), np.zeros((2, 0)), {"importance_weights": weights[None]})
    again = line(plots.importance_weights(members, chunk=1), "mean")
    np.testing.assert_array_equal(again[1], means)
    # Rows that only pad have no weights, and are no examples.
    padded = np.concatenate([weights, np.zeros((3, 5, 8))], axis=2)
    told = History(np.zeros(3), np.zeros(0), {"importance_weights": padded})
    shown = line(plots.importance_weights(told, chunk=1), "mean of 40 examples")
    np.testing.assert_array_equal(shown[1], means)


@pytest.mark.parametrize(
    "name",
    [
        "Bernoulli inverted",
        "Gaussian",
        "Exponential",
        "InverseGamma",
        "HalfCauchy",
        "Beta with two poles",
        "Uniform",
        "LogUniform",
    ],
)
def test_densities_are_those_of_the_family(name):
    case = CASES[name]
    axes = plots.densities(case.mixture, scale=2.0)
    if case.discrete:
        keep, value = case.noise.keep, case.noise.value
        np.testing.assert_allclose(line(axes[0], "point mass"), [[0, value], [1 - keep, keep]])
    elif case.proper:
        x, density = axes[0].lines[0].get_data()
        inside = density > 1e-6
        np.testing.assert_allclose(density[inside], np.exp(case.noise.logpdf(x))[inside], rtol=1e-3)
    w, density = axes[2].lines[0].get_data()
    np.testing.assert_allclose(line(axes[2], "Gaussian")[1], st.norm.pdf(w, scale=2.0), rtol=1e-6)
    if case.marginal is not None:
        np.testing.assert_allclose(density, np.exp(case.marginal(w, 2.0)), rtol=2e-3)
    for ax in axes:
        assert 0 < ax.get_ylim()[1] < np.inf


def test_given_axes_are_used_and_no_figure_is_opened(predictive):
    from matplotlib.figure import Figure

    axes = Figure().subplots(2, 5).ravel()
    told = History(np.zeros(3), np.zeros(0), {"importance_weights": np.full((1, 2, 4), 0.5)})
    drawn = [
        plots.intervals(predictive, ax=axes[0]),
        plots.calibration([0.2, 0.7], ax=axes[1]),
        plots.relevance([0.2, 0.7], ax=axes[2]),
        plots.heat_map(noisy(), "layers.0", ax=axes[3]),
        plots.history(told, ax=axes[4]),
        plots.importance_weights(told, ax=axes[5]),
        *plots.densities(sx.Rayleigh(1.0), axes=axes[6:9]),
    ]
    assert all(one is other for one, other in zip(drawn, axes, strict=False))
    assert plt.get_fignums() == []
    axes[0].figure.canvas.draw()


def test_bad_requests_are_refused(predictive):
    for call, reason in [
        (lambda: plots.intervals(predictive, x=X), "one number a row"),
        (lambda: plots.intervals(predictive, np.zeros(3)), "one target a row"),
        (lambda: plots.calibration([0.5, 1.5]), r"probabilities in \[0, 1\]"),
        (lambda: plots.relevance([1.0, 2.0], ["a"]), "one number for each name"),
        (lambda: plots.heat_map(noisy(), "first"), "no site 'first'; there are layers.0, layers.1"),
        (lambda: plots.heat_maps(noisy(), axes=[None]), "2 sites take as many axes"),
        (lambda: plots.importance_weights(History(np.zeros(1), np.zeros(0), {})), "record_weights"),
        (lambda: plots.history(History(np.zeros(0), np.zeros(0), {})), "no step"),
        (lambda: plots.densities(sx.Rayleigh(1.0), axes=[None]), "three views"),
    ]:
        with pytest.raises(ValueError, match=reason):
            call()


def test_matplotlib_is_imported_only_for_a_picture():
    code = """
import sys
sys.modules["matplotlib"] = None
import scalemix.analysis.plots
try:
    scalemix.analysis.plots.calibration([0.5])
except ImportError as error:
    assert "scalemix[plot]" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
