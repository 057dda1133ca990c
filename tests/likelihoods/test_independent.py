"""Several targets a row, through everything that a single one goes through."""

import functools
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax.flatten_util import ravel_pytree

import scalemix as sx
from scalemix.analysis.evaluation import find_figures
from scalemix.analysis.plots import intervals
from scalemix.data.batches import Data
from scalemix.data.scaling import find_scaling
from scalemix.fitting.mixing import crossed_cdf
from scalemix.inference.chains import starts
from scalemix.inference.chains.density import log_likelihood
from scalemix.networks import MLP
from scalemix.posterior.calibration import score_spread
from scalemix.posterior.pruning.measures import mean_change
from tests.inference.cases import CASES

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
# Two targets that have nothing in common, not even a unit.
Y = np.stack([3.0 + X[:, 0], 1000.0 * (RNG.normal(size=30) - X[:, 1])], axis=1)
Independent, Gaussian = sx.likelihoods.Independent, sx.likelihoods.Gaussian
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
# Chains take long to compile; their density is tested without them.
CHAINS = pytest.param("mclmc", marks=pytest.mark.slow)


def model(prior, likelihood=None):
    likelihood = likelihood or Independent(Gaussian(), 2)
    return sx.Model(MLP(2, likelihood.num_outputs, 3, 1, key=KEY), prior, likelihood)


@functools.cache
def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sx.fit(model(CASES[name].prior), X, Y, CASES[name].method, key=KEY)


def test_each_target_has_noise_of_its_own():
    likelihood = Independent(Gaussian(scale=0.5, floor=0.1), 3)
    assert likelihood.likelihood.raw_scale.shape == (3,)
    learned = eqx.filter(likelihood, likelihood.learnable())
    assert [leaf.shape for leaf in jax.tree.leaves(learned)] == [(3,)]
    starts = Independent(Gaussian(scale=jnp.array([0.5, 2.0])), 2)
    np.testing.assert_allclose(starts.variance(jnp.zeros(2)), [0.25, 4.0], rtol=1e-5)
    mine = model(sx.ARD(sx.HalfCauchy(1.0)))
    names = jax.tree_util.tree_leaves_with_path(eqx.filter(mine, mine.learnable()))
    assert ".likelihood.likelihood.raw_scale" in [jax.tree_util.keystr(path) for path, _ in names]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: Independent(Gaussian(), 0), "one or more; got 0"),
        (lambda: Independent(Gaussian(), True), "one or more; got True"),
        (lambda: Independent(Independent(Gaussian(), 2), 2), "likelihood of one target"),
        (lambda: Independent(Gaussian, 2), "likelihood of one target"),
        (lambda: Independent(Gaussian(jnp.ones(3)), 2), r"one for each; got the shape \(3,\)"),
    ],
)
def test_impossible_ones_are_refused(build, reason):
    with pytest.raises(ValueError, match=reason):
        build()


def test_targets_of_the_wrong_shape_are_refused():
    prior, method = sx.ARD(sx.HalfCauchy(1.0)), CASES["em"].method
    for y, likelihood, reason in [
        (Y[:, 0], None, r"the shape \(rows, 2\), since the likelihood is Independent\(Gaussian, 2"),
        (Y.T, None, r"got the shape \(2, 30\)"),
        (Y, Gaussian(), r"2 targets a row use likelihoods\.Independent\(Gaussian\(\), 2\).*2 out"),
        (Y, Gaussian(per_input=True), r"a network with 4 outputs"),
        (np.where(np.arange(2) == 1, np.nan, Y), None, "not finite at row 0, column 1"),
    ]:
        with pytest.raises(ValueError, match=reason):
            sx.fit(model(prior, likelihood), X, y, method, key=KEY)
    with pytest.raises(ValueError, match=r"Independent\(Gaussian, 3\) needs 3 outputs"):
        sx.Model(MLP(2, 2, 3, 1, key=KEY), prior, Independent(Gaussian(), 3))


def test_targets_are_standardised_by_column():
    scaling = find_scaling(X, Y, np.ones(30), inputs=True, targets=True)
    np.testing.assert_allclose(scaling.y_mean, Y.mean(axis=0))
    np.testing.assert_allclose(scaling.y_scale, Y.std(axis=0))
    units = scaling.log_unit(np.ones(Y.shape, bool))
    np.testing.assert_allclose(units, np.full(30, np.log(Y.std(axis=0)).sum()))


@pytest.mark.parametrize("name", ["importance_weighted", "em", CHAINS])
def test_every_engine_fits_them(name, tmp_path):
    posterior = fitted(name)
    assert "Independent(Gaussian, 2)" in repr(posterior)
    predictive = posterior.predict(X, num_draws=6)
    for part in (predictive.mean, predictive.std, predictive.epistemic, predictive.aleatoric):
        assert part.shape == (30, 2)
    np.testing.assert_allclose(predictive.std**2, predictive.epistemic**2 + predictive.aleatoric**2)
    # Each in its own unit.
    assert 100 < np.median(predictive.std[:, 1] / predictive.std[:, 0]) < 10_000
    assert predictive.sample(KEY, 4).shape == (4, 30, 2)
    assert posterior.relevance().inputs.shape[-1] == 2
    posterior.save(tmp_path / "post.scalemix")
    loaded = sx.load(tmp_path / "post.scalemix")
    np.testing.assert_array_equal(loaded.scaling.y_scale, posterior.scaling.y_scale)
    again = loaded.predict(X, num_draws=6)
    np.testing.assert_array_equal(again.mean, predictive.mean)
    np.testing.assert_array_equal(again.log_prob(Y), predictive.log_prob(Y))


def draws_of(posterior, num):
    """Outputs and noise scales of the draws that a prediction averages over, by hand."""
    networks, seen = posterior.networks, posterior.scaling.inputs(X, np.float32)
    places = zip(jnp.arange(num), jax.random.split(posterior.key, num), strict=True)
    drawn = [networks(*place) for place in places]
    outputs = np.stack([jax.vmap(one.network)(seen) for one in drawn]).astype(float)
    scales = np.stack([np.sqrt(one.likelihood.variance(jnp.zeros(2))) for one in drawn])
    unit = posterior.scaling.y_scale
    return outputs * unit + posterior.scaling.y_mean, scales.astype(float)[:, None, :] * unit


@pytest.mark.parametrize("name", ["em", CHAINS])
def test_predictions_are_those_of_a_mixture_of_independent_gaussians(name):
    """`log_prob` is that of all targets of a row together, under one network at a time."""
    posterior, num = fitted(name), 6
    predictive = posterior.predict(X, num_draws=num)
    means, scales = draws_of(posterior, num)
    np.testing.assert_allclose(predictive.mean, means.mean(axis=0), rtol=1e-3)
    joint = st.norm.logpdf(Y, means, scales).sum(axis=2)
    expected = np.logaddexp.reduce(joint, axis=0) - np.log(num)
    np.testing.assert_allclose(predictive.log_prob(Y), expected, rtol=1e-3, atol=1e-3)
    below = st.norm.cdf(Y, means, scales).mean(axis=0)
    np.testing.assert_allclose(predictive.cdf(Y), below, atol=1e-4)
    lower, upper = predictive.interval(0.8)
    for end, level in ((lower, 0.1), (upper, 0.9)):
        reached = st.norm.cdf(end, means, scales).mean(axis=0)
        np.testing.assert_allclose(reached, level, atol=1e-4)
    errors = np.abs(Y - means).mean(axis=0)
    np.testing.assert_allclose(predictive.absolute_error(Y), errors, rtol=1e-3)


def test_chains_see_all_targets_of_a_row():
    mine = model(sx.ARD(sx.HalfCauchy(1.0)), Independent(Gaussian(per_input=True), 2))
    unknowns = sx.MCMC().unknowns(mine)
    data = Data(*(jnp.asarray(part, jnp.float32) for part in (X, Y / 1000, np.ones(30))))
    size = jax.eval_shape(lambda: ravel_pytree(unknowns.form())[0]).shape
    position = np.float32(0.1 * np.random.default_rng(0).normal(size=size))
    bits = np.zeros(0, bool)

    # As one program, where each operation would be one of its own.
    @jax.jit
    def values(position):
        outputs = jax.vmap(unknowns.place(position, bits).model.network)(data.x)
        height = starts._height(unknowns, data, position, bits) - unknowns.log_prior(position, bits)
        return outputs, log_likelihood(unknowns, data, position, bits), height

    outputs, value, height = values(position)
    outputs = np.asarray(outputs, float).reshape(30, 2, 2)
    scales = 1e-3 + np.log1p(np.exp(outputs[..., 1]))
    log_probs = st.norm.logpdf(np.asarray(data.y, float), outputs[..., 0], scales)
    assert value == pytest.approx(log_probs.sum(), rel=1e-4)
    # A climb gives no row up as noise, for each target by itself.
    squares = scales**2 / np.mean(scales**2, axis=0)
    assert height == pytest.approx((log_probs * squares).sum(), rel=1e-4)


@pytest.mark.slow
def test_many_fits_equal_fits_in_turn():
    method, mine, keys = CASES["em"].method, model(CASES["em"].prior), jax.random.split(KEY, 2)
    many = sx.fit_many(mine, [X, X[:20]], [Y, -Y[:20]], method, keys=keys)
    alone = sx.fit(mine, X[:20], -Y[:20], method, key=keys[1])
    np.testing.assert_allclose(many[1].predict(X).mean, alone.predict(X).mean, rtol=1e-3)


def test_each_target_is_calibrated_by_itself():
    """One that lies where it should, and one whose distribution is too narrow by half."""
    weight, scores = np.ones(400), RNG.normal(size=(400, 2)) * [1.0, 2.0]
    one, two = score_spread(st.norm.cdf(scores), weight)
    assert one == pytest.approx(score_spread(st.norm.cdf(scores[:, 0]), weight))
    assert two > 1.5 > one
    cdf = RNG.uniform(size=(3, 400, 2))
    log_prob = RNG.normal(size=(3, 400))
    crossed = crossed_cdf(log_prob, cdf, weight)
    np.testing.assert_allclose(crossed[:, 1], crossed_cdf(log_prob, cdf[..., 1], weight))


def test_measures_take_each_target_by_itself():
    posterior = fitted("em")
    predictive = posterior.predict(X, num_draws=6)
    figures = find_figures(predictive, Y, classes=False, key=KEY)
    by_target = np.sqrt(np.mean((Y - predictive.mean) ** 2, axis=0))
    assert figures["rmse"] == pytest.approx(by_target.mean())
    assert figures["r2"] == pytest.approx(np.mean(1 - (by_target / Y.std(axis=0)) ** 2))
    assert 0 <= figures["coverage"] <= 1


def test_pruning_measures_change_in_units_of_each_target():
    posterior = fitted("em")
    predictive = posterior.predict(X, num_draws=6)

    class Shifted:
        mean = predictive.mean + np.array([0.5, 0.0]) * predictive.mean.std(axis=0)

    # In the unit of the other target it would be nothing.
    assert mean_change(predictive, Shifted()) == pytest.approx(0.5)
    pruned = posterior.prune(X, threshold=np.inf, tolerance=0.3)
    assert pruned.posterior.predict(X).mean.shape == (30, 2)
    assert pruned.report.mean_change <= 0.3


@pytest.mark.slow
def test_chains_name_the_noise_of_each_target():
    arviz = fitted("mclmc").to_arviz().posterior
    (name,) = [name for name in arviz if str(name).startswith("likelihood")]
    assert arviz[name].shape[2:] == (2,)
    assert fitted("mclmc").diagnostics().function.rhat.shape[-1] == 2


def test_a_picture_is_of_one_target():
    predictive = fitted("em").predict(X, num_draws=6)
    with pytest.raises(ValueError, match=r"2 targets a row.*column=0"):
        intervals(predictive, Y)
    ax = intervals(predictive, Y, column=1)
    assert len(ax.lines[0].get_ydata()) == 30
