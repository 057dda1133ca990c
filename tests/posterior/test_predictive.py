"""Predictions against the same thing computed all at once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax.flatten_util import ravel_pytree

import scalemix as sx
from scalemix.data.scaling import UNSCALED, Scaling
from scalemix.networks import MLP
from scalemix.posterior import statistics, streaming
from scalemix.posterior.conformal import Conformal, calibrate
from scalemix.posterior.draws import Draws
from scalemix.posterior.networks import Ensemble, OneNetwork, SampledNetworks
from scalemix.posterior.posterior import History

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = 5.0 + 3.0 * np.sin(X[:, 0]) + 0.3 * RNG.normal(size=60)
DRAWS = 25


def fitted(likelihood, y, out_size="scalar", **arguments):
    prior = sx.ARD(sx.Gaussian(0.3))
    model = sx.Model(MLP(3, out_size, 8, 1, key=KEY), prior, likelihood)
    method = sx.NoiseTraining(steps=200, num_draws=2, learning_rate=0.02)
    return sx.fit(model, X, y, method, key=KEY, **arguments)


@pytest.fixture(scope="module")
def gaussian():
    return fitted(sx.likelihoods.Gaussian(), Y)


@pytest.fixture(scope="module")
def student():
    return fitted(sx.likelihoods.StudentT(4.0, floor=0.05, per_input=True), Y, out_size=2)


def components(posterior):
    """Each draw's output for each row, `(draws, rows, outputs)`, all at once."""
    keys = jax.random.split(posterior.key, DRAWS)
    x = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    outputs = [run_draw(posterior.networks, key, x) for key in keys]
    return np.stack([np.asarray(o, float).reshape(len(X), -1) for o in outputs])


@eqx.filter_jit
def run_draw(networks, key, x):
    return jax.vmap(networks(jnp.int32(0), key).network)(x)


def twins(posterior, num_rows=60):
    """scipy's distribution of each draw and row, on the scale of the targets."""
    outputs = components(posterior)[:, :num_rows]
    likelihood, scaling = posterior.model.likelihood, posterior.scaling
    location = outputs[..., 0] * scaling.y_scale + scaling.y_mean
    if likelihood.per_input:
        scale = float(likelihood.floor) + np.log1p(np.exp(outputs[..., 1]))
        return st.t(4.0, location, scale * scaling.y_scale)
    scale = float(likelihood.scale(jnp.zeros(1))) * scaling.y_scale
    return st.norm(location, scale)


@pytest.fixture(params=["gaussian", "student"])
def posterior(request):
    return request.getfixturevalue(request.param)


def test_moments(posterior):
    predictive, each = posterior.predict(X, num_draws=DRAWS), twins(posterior)
    np.testing.assert_allclose(predictive.mean, each.mean().mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(predictive.epistemic, each.mean().std(axis=0), rtol=1e-3)
    np.testing.assert_allclose(predictive.aleatoric**2, each.var().mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(
        predictive.std**2, predictive.epistemic**2 + predictive.aleatoric**2, rtol=1e-5
    )
    assert predictive.epistemic.min() > 0


def test_log_prob_is_the_log_of_the_mean_density(posterior):
    expected = np.log(twins(posterior).pdf(Y).mean(axis=0))
    log_probs = posterior.predict(X, num_draws=DRAWS).log_prob(Y)
    np.testing.assert_allclose(log_probs, expected, rtol=1e-3, atol=1e-3)
    # Far out, where every density underflows, its logarithm does not.
    assert np.isfinite(posterior.predict(X, num_draws=DRAWS).log_prob(Y + 1e3)).all()


def assert_same_ends(ends, others, predictive):
    """Ends of two searches, which stop two rounding errors from the root in `u`.

    With `y = mean + spread sinh(u)`, that is `2 eps (1 + |u|) spread cosh(u)` on either side. As
    much again for the values of the distribution function, which programs round differently.
    """
    u = np.arcsinh((np.asarray(ends) - predictive.mean) / predictive.std)
    step = np.finfo(np.float32).eps * (1 + np.abs(u)) * predictive.std * np.cosh(u)
    assert np.all(np.abs(np.subtract(ends, others)) <= 8 * step)


def test_quantiles_are_those_of_the_mixture(posterior):
    predictive, each = posterior.predict(X[:8], num_draws=DRAWS), twins(posterior, 8)
    np.testing.assert_allclose(predictive.cdf(Y[:8]), each.cdf(Y[:8]).mean(axis=0), atol=1e-4)
    levels = (0.001, 0.05, 0.5, 0.95)
    for q, values in zip(levels, predictive.quantile(levels), strict=True):
        np.testing.assert_allclose(each.cdf(values).mean(axis=0), q, rtol=1e-3, atol=1e-6)
    lower, upper = predictive.interval(0.9)
    assert_same_ends(lower, predictive.quantile(0.05), predictive)
    assert np.all(lower < upper)
    np.testing.assert_array_equal(predictive.cdf(5.0), predictive.cdf(np.full(8, 5.0)))


def test_several_levels_at_once_are_the_same_as_one_by_one(gaussian):
    predictive, each = gaussian.predict(X, num_draws=DRAWS), twins(gaussian)
    together = predictive.quantile([0.95, 0.05, 0.25, 0.75])
    assert_same_ends(together[1], predictive.quantile(0.05), predictive)
    lower, upper = predictive.interval([0.5, 0.9])
    assert_same_ends(together, [upper[1], lower[1], lower[0], upper[0]], predictive)
    above = predictive.exceedance([2.0, 5.0])
    np.testing.assert_allclose(above[1], each.sf(5.0).mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(above[1], predictive.exceedance(5.0), rtol=1e-6)
    assert above.shape == (2, 60)


def test_samples_are_of_all_rows_together():
    # Networks that differ by a constant: what they do not know they share over all rows.
    places = np.array([-1.0, 0.0, 2.0, 5.0])
    networks, _ = ensemble_of(places)
    scaling = Scaling(np.zeros(0), np.ones(0), 0.0, 1.0)
    history = History(np.zeros((4, 1)), np.zeros((4, 1)), np.zeros((4, 1)))
    predictive = sx.Posterior(networks, scaling, history, KEY).predict(np.zeros((2, 1)))
    samples = predictive.sample(jax.random.key(1), 4000)
    # A covariance of so many pairs has this standard error, or less.
    error = np.sqrt(2) * (places.var() + 1) / np.sqrt(4000)
    assert abs(np.cov(samples.T)[0, 1] - places.var()) < 4 * error


def test_a_quantile_between_modes_far_apart_is_where_the_gap_begins():
    # The distribution is level there, and half of it lies on either side.
    arrays, fixed = eqx.partition(sx.likelihoods.Gaussian(0.01), eqx.is_array)
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), arrays)
    draws, outputs = statistics.DrawnLikelihoods(both, fixed), jnp.array([0.0, 1.0])
    half = jnp.full(1, 0.5, jnp.float32)
    for (place,) in jax.jit(lambda: statistics.ends(draws, outputs, half, half))():
        assert 0.03 < place < 0.1


def test_absolute_errors_are_of_single_draws(posterior):
    errors = posterior.predict(X, num_draws=DRAWS).absolute_error(Y)
    expected = np.abs(Y - twins(posterior).mean()).mean(axis=0)
    np.testing.assert_allclose(errors, expected, rtol=1e-4)
    assert sx.metrics.paper_rmse(errors) > sx.metrics.mae(Y, twins(posterior).mean().mean(axis=0))


def test_samples_follow_the_distribution(posterior):
    predictive = posterior.predict(X[:2], num_draws=1000)
    samples = predictive.sample(jax.random.key(5), 1000)
    assert samples.shape == (1000, 2)
    for row in range(2):
        # Each sample is of a draw of its own, so two sets of 1,000 draws are compared.
        ordered = np.sort(samples[:, row])[::50]
        below = posterior.predict(np.repeat(X[row : row + 1], 20, axis=0), num_draws=1000)
        gap = np.abs(below.cdf(ordered) - (np.arange(20) * 50 + 1) / 1000).max()
        assert gap < 1.63 * np.sqrt(2 / 1000)
    # Rows that are alike have the same distribution, not the same samples.
    twins_of_one_row = posterior.predict(X[[0, 0]]).sample(jax.random.key(5), 5)
    assert np.all(twins_of_one_row[:, 0] != twins_of_one_row[:, 1])


def constants(places):
    """Networks that put out one number each, whatever the input, with noise of scale one."""
    network = eqx.nn.Linear(1, "scalar", key=KEY)
    network = eqx.tree_at(lambda n: n.weight, network, jnp.zeros((1, 1)))
    model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(1.0))
    return [eqx.tree_at(lambda m: m.network.bias, model, jnp.array([p])) for p in places]


def ensemble_of(places):
    models = constants(places)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(OneNetwork, models))
    return Ensemble(stacked, len(places)), np.zeros((len(places), 1))


def chains_of(places):
    """Two chains, with half of the places each."""
    models = constants(places)
    forms = [sx.MCMC().unknowns(model).form() for model in models]
    positions = jnp.stack([ravel_pytree(form)[0] for form in forms]).reshape(
        2, len(places) // 2, -1
    )
    bits = jnp.zeros((*positions.shape[:2], 0), bool)
    unknowns = sx.MCMC().unknowns(models[0])
    networks = SampledNetworks(models[0], unknowns, positions, bits, jnp.zeros((1, 1)))
    return networks, np.zeros((2, len(places) // 2))


def mixture_crps(y, places):
    """That of an even mixture of `N(place, 1)`, in closed form (Grimit et al. 2006)."""

    def distance(mean, deviation):
        """`E|X|` of a normal number."""
        z = mean / deviation
        return deviation * (2 * st.norm.pdf(z) + z * (2 * st.norm.cdf(z) - 1))

    apart = places[:, None] - places[None]
    return distance(y - places, 1.0).mean() - 0.5 * distance(apart, np.sqrt(2)).mean()


@pytest.mark.parametrize(
    ("build", "num"),
    [
        pytest.param(build, num, marks=[] if num == 2 else pytest.mark.slow)
        for build in (ensemble_of, chains_of)
        for num in (2, 3, 4)
    ],
)
def test_crps_of_few_samples_is_unbiased(build, num):
    """Samples that went round the members were further apart than two of the mixture are."""
    places = np.array([-3.0, 0.0, 1.0, 4.0])
    networks, objective = build(places)
    history = History(objective, np.zeros((len(objective), 0)), {})
    scaling = Scaling(np.zeros(1), np.ones(1), 0.0, 1.0)
    posterior = sx.Posterior(networks, scaling, history, KEY)
    times = 12_000 // num
    samples = posterior.predict(np.zeros((1, 1))).sample(jax.random.key(num), num * times)
    scores = [sx.metrics.crps(np.array([1.5]), part) for part in samples.reshape(times, num, 1)]
    error = np.std(scores) / np.sqrt(times)
    assert abs(np.mean(scores) - mixture_crps(1.5, places)) < 4 * error


def test_blocks_do_not_matter(gaussian, monkeypatch):
    whole = gaussian.predict(X, num_draws=DRAWS)
    results = whole.mean, whole.std, whole.log_prob(Y), whole.quantile(0.3)
    sizes, outputs = [], streaming.draw_outputs

    def spy(draws, num_outputs, x, mesh):
        sizes.append(len(x))
        return outputs(draws, num_outputs, x, mesh)

    monkeypatch.setattr(streaming, "draw_outputs", spy)
    monkeypatch.setattr(streaming, "OUTPUTS_AT_A_TIME", 7 * DRAWS)
    pieces = gaussian.predict(X, num_draws=DRAWS)
    again = pieces.mean, pieces.std, pieces.log_prob(Y), pieces.quantile(0.3)
    assert set(sizes) == {7}
    for one, other in zip(results, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_memory_is_bounded_by_the_block(gaussian):
    """A million rows by a thousand draws: what a block compiles to fits in 200 MB."""
    rows = min(streaming.OUTPUTS_AT_A_TIME // 1000, streaming.ROWS_AT_A_TIME)
    x = jnp.zeros((rows, 3), jnp.float32)
    draws = Draws(gaussian.networks, np.arange(1000), gaussian.key)
    likelihoods, _, _ = streaming.draw_outputs(draws, 1, x[:1])
    outputs = jnp.zeros((1000, rows, 1), jnp.float32)
    for program in (
        streaming.draw_outputs.lower(draws, 1, x),
        streaming._summarise.lower(statistics.moments, likelihoods, outputs),
    ):
        # Equinox wraps JAX's compiled program.
        analysis = program.compile().compiled.memory_analysis()
        assert analysis.temp_size_in_bytes + analysis.output_size_in_bytes < 200e6
    assert rows >= 1000


@pytest.mark.parametrize(
    ("num_draws", "most", "together"),
    [(100, 32, 25), (100, 2048, 100), (97, 32, 32), (1, 32, 1), (1000, 1, 1), (64, 32, 32)],
)
def test_draws_go_in_groups_without_a_remainder_where_that_costs_little(num_draws, most, together):
    assert streaming._group(num_draws, most) == together


def test_one_program_of_networks_serves_all_statistics(gaussian, caplog):
    # No other test has so many draws of so many rows.
    rows = slice(0, 13)
    with jax.log_compiles():
        predictive = gaussian.predict(X[rows], num_draws=3)
        _ = predictive.mean, predictive.log_prob(Y[rows]), predictive.cdf(Y[rows])
        _ = predictive.quantile(0.3)
    compilations = [
        message for message in caplog.messages if "Compiling jit(draw_outputs)" in message
    ]
    assert len(compilations) == 1


def test_predictions_repeat_and_keys_change_them(gaussian):
    first = gaussian.predict(X[:3], num_draws=5).mean
    np.testing.assert_array_equal(first, gaussian.predict(X[:3], num_draws=5).mean)
    other = gaussian.predict(X[:3], num_draws=5, key=jax.random.key(9)).mean
    assert np.all(first != other)
    samples = gaussian.predict(X[:3]).sample(KEY, 2)
    np.testing.assert_array_equal(samples, gaussian.predict(X[:3]).sample(KEY, 2))


def test_counts():
    counts = RNG.poisson(np.exp(0.5 + 0.5 * X[:, 0]))
    posterior = fitted(sx.likelihoods.Poisson(), counts)
    predictive = posterior.predict(X, num_draws=DRAWS)
    rates = np.exp(components(posterior)[..., 0])
    np.testing.assert_allclose(predictive.mean, rates.mean(axis=0), rtol=1e-3)
    expected = np.log(st.poisson(rates).pmf(counts).mean(axis=0))
    np.testing.assert_allclose(predictive.log_prob(counts), expected, rtol=1e-2, atol=1e-3)
    median = predictive.quantile(0.5)
    assert np.array_equal(median, np.round(median))
    assert np.all(st.poisson(rates).cdf(median).mean(axis=0) >= 0.5 - 1e-3)
    assert np.all(st.poisson(rates).cdf(median - 1).mean(axis=0) < 0.5 + 1e-3)


def test_classes():
    labels = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    posterior = fitted(sx.likelihoods.Categorical(3), labels, out_size=3)
    predictive = posterior.predict(X, num_draws=DRAWS)
    assert predictive.mean.shape == (60, 3)
    np.testing.assert_allclose(predictive.mean.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(
        predictive.log_prob(labels), np.log(predictive.mean[np.arange(60), labels]), rtol=1e-3
    )
    assert sx.metrics.accuracy(labels, predictive.mean) > 0.8
    shares = np.asarray(jax.nn.softmax(components(posterior), axis=-1))
    entropies = st.entropy(shares, axis=-1).mean(axis=0)
    np.testing.assert_allclose(predictive.entropy, st.entropy(predictive.mean, axis=1), rtol=1e-3)
    known = predictive.entropy - predictive.mutual_information
    np.testing.assert_allclose(known, entropies, rtol=1e-3, atol=1e-5)
    assert set(np.unique(predictive.sample(KEY, 5))) <= {0, 1, 2}
    with pytest.raises(ValueError, match="no quantiles"):
        predictive.interval(0.9)
    with pytest.raises(ValueError, match="no absolute error"):
        predictive.absolute_error(labels)


def test_two_classes():
    labels = (X[:, 0] > 0).astype(int)
    predictive = fitted(sx.likelihoods.Bernoulli(), labels).predict(X)
    assert sx.metrics.accuracy(labels, predictive.mean) > 0.85
    np.testing.assert_allclose(
        predictive.log_prob(labels),
        np.log(np.where(labels, predictive.mean, 1 - predictive.mean)),
        rtol=1e-3,
        atol=1e-5,
    )
    both = np.stack([1 - predictive.mean, predictive.mean], axis=1)
    np.testing.assert_allclose(predictive.entropy, st.entropy(both, axis=1), rtol=1e-3, atol=1e-5)
    assert (predictive.mutual_information >= 0).all()


def test_bad_requests_are_refused(gaussian):
    predictive = gaussian.predict(X)
    for call, reason in [
        (lambda: gaussian.predict(X, num_draws=0), "num_draws must be at least 1"),
        (lambda: gaussian.predict(X[:, :2]), r"example of shape \(2,\)"),
        (lambda: gaussian.predict(X[0]), r"example of shape \(\)"),
        (lambda: predictive.log_prob(Y[:3]), r"y has 3 rows, the prediction 60"),
        (lambda: predictive.log_prob(np.stack([Y, Y], 1)), "one target a row"),
        (lambda: predictive.sample(0, 3), "key must be one PRNG key"),
        (lambda: predictive.sample(KEY, 0), "num must be at least 1"),
        (lambda: predictive.quantile([[0.1, 0.9]]), r"one number in \(0, 1\), or a list"),
        (lambda: predictive.exceedance([[1.0]]), "one number or a list of them"),
        (lambda: predictive.exceedance(np.inf), "threshold is not finite"),
        (lambda: predictive.entropy, "Only classes have an entropy here"),
        (lambda: predictive.log_prob(np.full(60, np.nan)), "y is not finite at row 0"),
        (lambda: predictive.quantile(1.0), r"one number in \(0, 1\)"),
        (lambda: predictive.interval(90), r"one number in \(0, 1\)"),
    ]:
        with pytest.raises(ValueError, match=reason):
            call()


def test_large_offsets_keep_their_digits():
    far = fitted(sx.likelihoods.Gaussian(), Y + 1e7)
    near = fitted(sx.likelihoods.Gaussian(), Y)
    gap = far.predict(X).mean - 1e7 - near.predict(X).mean
    assert np.abs(gap).max() < 1e-2


def test_rows_too_far_to_tell_are_refused(gaussian):
    x = X.copy()
    x[3, 1] = 1e30
    with pytest.raises(ValueError, match=r"x is 1e\+30 at row 3, column 1, where the training"):
        gaussian.predict(x)
    # What a line gives at a thousand standard deviations is still what the model says.
    x[3, 1] = 1e3
    assert np.isfinite(gaussian.predict(x).std).all()


def test_targets_that_cannot_be_used_are_refused(gaussian):
    labels = fitted(sx.likelihoods.Bernoulli(), (X[:, 0] > 0).astype(int)).predict(X)
    predictive = gaussian.predict(X, num_draws=DRAWS)
    for call, reason in [
        (lambda: labels.log_prob(np.full(60, 2**32)), "y is 4294967296 at row 0: Bernoulli"),
        (lambda: predictive.log_prob(np.ma.masked_equal(Y, Y[5])), "y is masked at row 5"),
        (lambda: predictive.cdf(np.where(np.arange(60) == 4, 1e200, Y)), r"y is 1e\+200 at row 4"),
        (lambda: predictive.log_prob(["a"] * 60), "y must be real numbers"),
    ]:
        with pytest.raises(ValueError, match=reason):
            call()


def test_predictions_are_of_the_inputs_as_they_were(gaussian):
    x = X.copy()
    predictive = gaussian.predict(x, num_draws=DRAWS)
    x[:] = 0.0
    np.testing.assert_array_equal(predictive.mean, gaussian.predict(X, num_draws=DRAWS).mean)


def test_no_rows_give_no_predictions(gaussian):
    assert gaussian.predict(X[:0]).mean.shape == (0,)


def slopes_posterior(likelihood, slopes):
    """An ensemble of networks whose outputs are a slope times the input."""
    shape = (likelihood.num_outputs, 1)

    def model_of(slope):
        network = eqx.nn.Linear(1, likelihood.num_outputs, use_bias=False, key=KEY)
        network = eqx.tree_at(lambda n: n.weight, network, jnp.full(shape, slope).at[1:].set(0.0))
        return sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), likelihood)

    members = [OneNetwork(model_of(slope)) for slope in slopes]
    stacked = jax.tree.map(
        lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *members
    )
    history = History(np.zeros((len(slopes), 1)), np.zeros((len(slopes), 0)), {})
    return sx.Posterior(Ensemble(stacked, len(slopes)), UNSCALED, history, KEY)


ASKED = {
    "mean": lambda p: p.mean,
    "std": lambda p: p.std,
    "epistemic": lambda p: p.epistemic,
    "aleatoric": lambda p: p.aleatoric,
    "interval": lambda p: np.stack(p.interval(0.9), axis=1),
    "quantiles": lambda p: p.quantile([0.1, 0.5]).T,
    "exceedance": lambda p: p.exceedance(1.0),
    "log_prob": lambda p: p.log_prob(np.full(len(p), 3.0)),
}


@pytest.mark.parametrize(
    "likelihood",
    [
        sx.likelihoods.LogNormal(0.5),
        sx.likelihoods.NegativeBinomial(0.5),
        # The same search for ends as one of these two.
        pytest.param(sx.likelihoods.Gamma(0.5), marks=pytest.mark.slow),
        pytest.param(sx.likelihoods.Weibull(0.5), marks=pytest.mark.slow),
        pytest.param(sx.likelihoods.Poisson(), marks=pytest.mark.slow),
    ],
    ids=lambda likelihood: likelihood.title,
)
def test_a_row_that_overflows_takes_no_answer_from_others(likelihood):
    """The mean of the third is more than any number in single precision, that of the second not."""
    posterior = slopes_posterior(likelihood, [1.0, 1.1])
    near, far = (
        np.array([[0.5], [2.0], [-1.0]], np.float32),
        np.float32([[0.5], [2.0], [300.0], [-1.0]]),
    )
    alone, together = posterior.predict(near), posterior.predict(far)
    with pytest.warns(sx.RangeWarning, match=r"mean, or its spread, at row 2 of x .* infinite"):
        assert together.too_far.tolist() == [False, False, True, False]
    for name, ask in ASKED.items():
        answer = ask(together)
        np.testing.assert_allclose(
            np.delete(answer, 2, axis=0), ask(alone), rtol=1e-5, err_msg=name
        )
        if name in ("mean", "std", "epistemic", "aleatoric"):
            assert answer[2] == np.inf
    assert together.exceedance(1.0)[2] == 1


def test_quantiles_are_right_where_one_draw_makes_the_mean_infinite():
    posterior = slopes_posterior(sx.likelihoods.LogNormal(0.5), [1.0, 1.0, 1.0, 20.0])
    predictive = posterior.predict(np.float32([[10.0]]))
    with pytest.warns(sx.RangeWarning, match="at row 0 of x"):
        assert predictive.mean[0] == np.inf
    # A third of what three networks out of four say lies below this level.
    expected = st.lognorm(0.5, scale=np.exp(10)).ppf(1 / 3)
    np.testing.assert_allclose(predictive.quantile(0.25), expected, rtol=1e-4)


@pytest.mark.parametrize("likelihood", [sx.likelihoods.Gaussian(), sx.likelihoods.Categorical(3)])
def test_a_row_whose_output_overflows_is_not_a_number(likelihood):
    predictive = slopes_posterior(likelihood, [1.0, 1.1]).predict(np.float32([[0.5], [1e25]]))
    with pytest.warns(
        sx.RangeWarning, match="network's output at row 1 of x .* given as NaN"
    ) as said:
        mean = predictive.mean
    assert np.isfinite(mean[0]).all()
    assert np.isnan(mean[1]).all()
    # It is said once, and what cannot be NaN is refused.
    assert np.isnan(predictive.log_prob([1, 1])).tolist() == [False, True]
    assert len(said) == 1
    with pytest.raises(ValueError, match="network's output at row 1 of x"):
        calibrate(predictive, [1, 1])
    if not likelihood.ordered:
        with pytest.raises(ValueError, match="network's output at row 1 of x"):
            predictive.sample(KEY)
        assert Conformal(np.array([0.9])).sets(predictive, 0.5)[1].all()


# One program for all means.
ends = eqx.filter_jit(statistics.ends)
below = eqx.filter_jit(jax.vmap(lambda y, *given: statistics.cdf(*given, y)[0], (0, None, None)))
above = eqx.filter_jit(jax.vmap(lambda y, *given: statistics.sf(*given, y)[0], (0, None, None)))


@pytest.mark.parametrize(
    "likelihood", [sx.likelihoods.NegativeBinomial(0.5), sx.likelihoods.Poisson()]
)
@pytest.mark.parametrize("log_mean", [-3.0, 1.5, 6.0])
def test_quantiles_of_counts_are_the_first_whole_numbers_that_reach_the_level(likelihood, log_mean):
    arrays, fixed = eqx.partition(likelihood, eqx.is_array)
    all_arrays = jax.tree.map(lambda leaf: jnp.stack([leaf] * 5), arrays)
    draws = statistics.DrawnLikelihoods(all_arrays, fixed)
    outputs = jnp.float32(log_mean + np.linspace(-0.5, 0.5, 5))[:, None]
    tails = jnp.float32([0.4, 0.05, 1e-3, 1e-6, 1e-30])
    lower, upper = ends(draws, outputs, tails, tails)
    np.testing.assert_array_equal(lower, np.floor(lower))
    assert (below(lower, draws, outputs) >= tails).all()
    assert ((below(lower - 1, draws, outputs) < tails) | (lower == 0)).all()
    assert (above(upper, draws, outputs) <= tails).all()
    assert (above(upper - 1, draws, outputs) > tails).all()


def test_a_quantile_of_counts_takes_few_evaluations(monkeypatch):
    """Each is one of all draws, and takes long."""
    likelihood = sx.likelihoods.NegativeBinomial(0.5)
    evaluated, cdf = [], sx.likelihoods.NegativeBinomial.cdf

    def counting(self, output, y):
        jax.debug.callback(lambda y: evaluated.append(float(y)), y)
        return cdf(self, output, y)

    monkeypatch.setattr(sx.likelihoods.NegativeBinomial, "cdf", counting)
    arrays, fixed = eqx.partition(likelihood, eqx.is_array)
    draws = statistics.DrawnLikelihoods(jax.tree.map(lambda leaf: leaf[None], arrays), fixed)
    lower, _ = statistics.ends(draws, jnp.array([[5.0]]), jnp.array([0.05]), jnp.zeros(0))
    jax.effects_barrier()
    assert lower == st.nbinom(4, 4 / (4 + np.exp(5))).ppf(0.05)
    # Half a dozen are as many as a bisection of so many whole numbers takes.
    assert 0 < len(evaluated) <= 8


def test_rows_that_fill_a_block_are_like_those_that_there_are(gaussian, monkeypatch):
    """The level of a quantile at a row of zeros is zero, which a search would never reach."""
    seen, summarise = [], streaming._summarise

    def spy(statistic, draws, outputs, *by_row, mesh):
        seen.append((outputs, *by_row))
        return summarise(statistic, draws, outputs, *by_row, mesh=mesh)

    monkeypatch.setattr(streaming, "_summarise", spy)
    gaussian.predict(X[:5], num_draws=3).interval(0.9)
    ((outputs, *tails),) = seen
    assert outputs.shape[1] == 8
    np.testing.assert_array_equal(outputs[:, 5:], outputs[:, 4:5].repeat(3, axis=1))
    for each in tails:
        np.testing.assert_array_equal(each, np.full_like(each, each[0]))
    assert len(gaussian.predict(X[:0]).mean) == 0
