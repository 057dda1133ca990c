"""Noise training from end to end."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix.data.batches import Batch
from scalemix.fitting.building import build_method
from scalemix.fitting.recipes import Recipe
from scalemix.networks import MLP, ResNet
from tests.mixtures.cases import CASES

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = 5.0 + 3.0 * np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)


def mlp_model(prior=None, key=KEY):
    prior = sx.ARD(sx.Bernoulli(0.95)) if prior is None else prior
    return sx.Model(MLP(3, "scalar", 8, 1, key=key), prior, sx.likelihoods.Gaussian())


# One for each of the draws that families are made of in `make test`: a coin, a normal, a gamma and
# a beta. That every family samples in a compiled and mapped program its contract asserts.
QUICK = {"Bernoulli", "Gaussian", "Gamma below one", "Beta"}
SAMPLED = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name, case in CASES.items()
    if case.proper
]


@pytest.mark.parametrize("name", SAMPLED)
def test_every_mixture_that_can_be_sampled_trains(name):
    method = sx.NoiseTraining(steps=3, num_draws=2, learning_rate=1e-4)
    posterior = sx.fit(mlp_model(sx.ARD(CASES[name].mixture)), X, Y, method, key=KEY)
    assert np.isfinite(posterior.history.objective).all()


# Each structure, and each way to share, in `make test`; each pair in `make test-all`.
@pytest.mark.parametrize(
    ("structure", "sharing"),
    [
        pytest.param(structure, sharing, marks=[] if i % 2 == j else pytest.mark.slow)
        for i, structure in enumerate([sx.ARD, sx.DropConnect, sx.ADD, sx.ARDADD])
        for j, sharing in enumerate(["example", "batch"])
    ],
)
def test_every_structure_trains(structure, sharing):
    model = sx.Model(
        ResNet(3, "scalar", 8, 2, key=KEY),
        structure(sx.Bernoulli(0.9)),
        sx.likelihoods.Gaussian(),
    )
    method = sx.NoiseTraining(
        "tail_adaptive", steps=150, num_draws=3, noise_sharing=sharing, learning_rate=0.02
    )
    objective = sx.fit(model, X, Y, method, key=KEY).history.objective
    assert objective[-20:].mean() > objective[:20].mean() + 0.1


@pytest.mark.parametrize(
    ("objective", "num_draws"),
    [
        ("lower_bound", 5),
        ("importance_weighted", 5),
        # Other weights in the same program, which tests of objectives are about.
        pytest.param("truncated", 5, marks=pytest.mark.slow),
        pytest.param("pareto_smoothed", 25, marks=pytest.mark.slow),
        ("tail_adaptive", 5),
    ],
)
def test_training_learns(objective, num_draws):
    method = sx.NoiseTraining(objective, steps=600, num_draws=num_draws, learning_rate=0.02)
    predictive = sx.fit(mlp_model(), X, Y, method, key=KEY).predict(X)
    assert sx.metrics.rmse(Y, predictive.mean) < 0.35 * Y.std()


def test_the_hierarchical_objective_trains_without_noise():
    model = mlp_model(sx.ARD(sx.InverseGamma(3.0, 3.0)))
    posterior = sx.fit(model, X, Y, sx.NoiseTraining("hierarchical", steps=400), key=KEY)
    predictive = posterior.predict(X)
    assert predictive.num_draws == 1
    assert np.all(predictive.epistemic == 0)
    assert sx.metrics.rmse(Y, predictive.mean) < 0.6 * Y.std()
    # A stronger E[xi^-2] shrinks more.
    strong = mlp_model(sx.ARD(sx.InverseGamma(3.0, 0.03)))
    shrunk = sx.fit(strong, X, Y, sx.NoiseTraining("hierarchical", steps=400), key=KEY)
    assert shrunk.model.penalty() < 0.5 * posterior.model.penalty()


@pytest.mark.parametrize("mixture", [sx.Bernoulli(0.9), sx.HalfCauchy(1.0), sx.Rayleigh(1.0)])
def test_the_hierarchical_objective_says_when_it_is_infinite(mixture):
    with pytest.raises(ValueError, match=r"infinite for .* on 'layers.0'.*InverseGamma"):
        sx.fit(mlp_model(sx.ARD(mixture)), X, Y, sx.NoiseTraining("hierarchical"), key=KEY)


def test_what_cannot_be_sampled_says_so():
    with pytest.raises(ValueError, match="improper"):
        sx.fit(mlp_model(sx.ARD(sx.LogUniform())), X, Y, sx.NoiseTraining(), key=KEY)


def test_the_noise_level_is_learned():
    rough = 5.0 + 3.0 * np.sin(X[:, 0]) + 2.0 * RNG.normal(size=60)
    method = sx.NoiseTraining(steps=800, num_draws=2, learning_rate=0.02)
    fits = sx.fit_many(mlp_model(), [X, X], [Y, rough], method, keys=jax.random.split(KEY, 2))
    fine, coarse = (float(np.mean(p.predict(X).aleatoric)) for p in fits)
    assert fine < 0.5 * coarse


@pytest.mark.parametrize(("sharing", "num_weighing"), [(None, 1), ("batch", 1), ("example", 32)])
def test_importance_weights_can_be_recorded(sharing, num_weighing):
    method = sx.NoiseTraining(
        "importance_weighted", steps=25, chunk_steps=10, num_draws=4, record_weights=True,
        noise_sharing=sharing,
    )  # fmt: skip
    weights = sx.fit(mlp_model(), X, Y, method, key=KEY).history.recorded["importance_weights"]
    assert weights.shape == (3, 4, num_weighing)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)
    assert weights.std() > 0


@pytest.mark.parametrize(
    ("settings", "sharing"),
    [
        ({"objective": "lower_bound"}, "example"),
        ({"objective": "tail_adaptive"}, "example"),
        ({"objective": "importance_weighted"}, "batch"),
        ({"objective": "importance_weighted", "noise_sharing": "example"}, "example"),
        ({"objective": "importance_weighted", "weighting": "example"}, "example"),
        ({"objective": "importance_weighted", "weighting": "batch"}, "batch"),
        ({"objective": "lower_bound", "noise_sharing": "batch"}, "batch"),
        ({"objective": "tail_adaptive", "weighting": "batch"}, "example"),
        ({"objective": "truncated"}, "batch"),
        ({"objective": "pareto_smoothed", "num_draws": 25}, "batch"),
        ({"objective": "pareto_smoothed", "num_draws": 25, "weighting": "example"}, "example"),
        ({"objective": "lower_bound", "noise_sharing": "sequence"}, "sequence"),
    ],
)
def test_who_shares_a_draw_follows_the_objective_unless_said(settings, sharing):
    method = sx.NoiseTraining(**settings)
    assert method.sharing == sharing
    # Another objective brings its own default, unless it was said.
    other = dataclasses.replace(method, objective="lower_bound")
    assert other.sharing == settings.get("noise_sharing", "example")


def test_estimators_follow_the_objective():
    for objective, sharing in (("importance_weighted", "batch"), ("tail_adaptive", "example")):
        recipe = Recipe(inference="noise", objective=objective)
        assert build_method(recipe, 100).sharing == sharing


def test_recorded_weights_of_a_batch_count_rows_as_the_objective_does():
    method = sx.NoiseTraining(
        "importance_weighted", num_draws=4, noise_sharing="batch", record_weights=True
    )
    model = mlp_model(sx.ARD(sx.Gaussian(0.5)))

    @jax.jit
    def recorded(y, weight):
        x = jnp.asarray(X[[0, 1, 2, 3, 4, 0]], jnp.float32)
        terms = method.terms(method.start(model), model, Batch(x, y, weight), 60, KEY)
        return terms.recorded["importance_weights"]

    y = jnp.asarray(Y[[0, 1, 2, 3, 4, 0]] - 5.0, jnp.float32)
    given_twice = recorded(y, jnp.ones(6))
    # The first row counts twice, and the last, which would spoil everything, only pads.
    counted_twice = recorded(y.at[5].set(9.0), jnp.array([2.0, 1.0, 1.0, 1.0, 1.0, 0.0]))
    assert given_twice.shape == (4, 1)
    np.testing.assert_allclose(counted_twice, given_twice, rtol=1e-4, atol=1e-6)


def test_recorded_weights_of_rows_that_only_pad_are_zero():
    method = sx.NoiseTraining(
        "importance_weighted", steps=2, batch_size=None, noise_sharing="example",
        record_weights=True,
    )  # fmt: skip
    recorded = sx.fit(mlp_model(), X, Y, method, key=KEY).history.recorded["importance_weights"]
    expected = np.repeat([[1.0, 0.0]], [60, 4], axis=1)
    np.testing.assert_allclose(recorded.sum(axis=1), expected, rtol=1e-5)


def test_the_penalty_counts_once_per_datum():
    """One full-batch gradient step equals that of the objective written out by hand."""
    model = mlp_model(sx.ARD(sx.InverseGamma(3.0, 3.0), scale=0.3))
    method = sx.NoiseTraining("hierarchical", steps=1, batch_size=None, optimizer=optax.sgd(0.1))
    posterior = sx.fit(model, X, Y, method, key=KEY, standardize=False)
    x, y = X.astype(np.float32), Y.astype(np.float32)

    @jax.jit
    @jax.grad
    def by_hand(weights):
        outputs = jax.vmap(model.with_weights(weights).network)(x)
        likelihood = jnp.sum(jax.vmap(model.likelihood.log_prob)(outputs, y))
        squares = sum(jnp.sum(w**2) for w in weights.values())
        return (likelihood - 1.0 * squares / (2 * 0.3**2)) / 60

    slope = by_hand(model.weights)
    for name, weight in posterior.model.weights.items():
        expected = np.asarray(model.weights[name]) + 0.1 * np.asarray(slope[name])
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-5)


def test_sample_weights_are_repetitions():
    model = mlp_model(sx.ARD(sx.InverseGamma(3.0, 3.0)))
    method = sx.NoiseTraining("hierarchical", steps=50, batch_size=None)
    weights = np.ones(60)
    weights[:7] = 2.0
    weighted = sx.fit(model, X, Y, method, key=KEY, sample_weight=weights)
    doubled = sx.fit(model, np.concatenate([X, X[:7]]), np.concatenate([Y, Y[:7]]), method, key=KEY)
    np.testing.assert_allclose(weighted.predict(X).mean, doubled.predict(X).mean, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"objective": "elbo"}, "objective must be one of lower_bound"),
        ({"num_draws": 0}, "num_draws must be a positive whole number"),
        ({"num_draws": 2.5}, "num_draws must be a positive whole number"),
        ({"noise_sharing": "none"}, "noise_sharing must be"),
        ({"objective": "pareto_smoothed"}, "10 are too few.*num_draws=21 or more"),
        ({"weighting": "none"}, "weighting must be"),
        ({"noise_sharing": "batch", "weighting": "example"}, "only be weighed by the batch"),
        ({"steps": 10, "epochs": 2}, "steps or epochs, not both"),
        ({"steps": 0}, "steps must be a positive whole number"),
        ({"steps": 2.5}, "steps must be a positive whole number"),
        ({"batch_size": -1}, "batch_size must be a positive"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"learning_rate": "0.1"}, "learning_rate must be a positive number"),
        ({"optimizer": optax.sgd(0.1), "learning_rate": 0.1}, "Give one of the two"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie"),
    ],
)
def test_impossible_settings_are_refused(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        sx.NoiseTraining(**arguments)


class StepByStep(eqx.Module):
    """A network that takes a sequence and runs one layer on each step; their sum comes out."""

    layer: eqx.nn.Linear

    def __init__(self, num_features, key):
        self.layer = eqx.nn.Linear(num_features, 1, use_bias=False, key=key)

    def __call__(self, x):
        return jnp.sum(jax.vmap(self.layer)(x), axis=0)


def test_all_steps_of_a_sequence_share_their_draws():
    """And no two sequences do, nor two draws."""
    num_steps, num_features = 5, 4
    network = StepByStep(num_features, KEY)
    network = eqx.tree_at(lambda n: n.layer.weight, network, jnp.ones((1, num_features)))
    prior, example = sx.ARD(sx.Bernoulli(0.5)), jnp.zeros((num_steps, num_features))
    model = sx.Model(network, prior, sx.likelihoods.Gaussian(), example=example)
    engine = sx.NoiseTraining(num_draws=3, noise_sharing="sequence")
    engine.check_model(model)
    # Only one feature is on in any step, the same in all: the output is five, or it is none.
    x = np.zeros((32, num_steps, num_features), np.float32)
    x[..., 0] = 1.0
    batch = Batch(jnp.asarray(x), jnp.zeros(32), jnp.ones(32))
    values = np.asarray(engine._log_likelihoods(model, batch, KEY)[0])
    sums = np.sqrt(-2 * (values - values.max()))
    # Were masks drawn for each step, these would be all numbers from 0 to 5.
    np.testing.assert_allclose(np.unique(sums.round(3)), [0.0, num_steps])
    masks = sums > 1
    assert len(np.unique(masks, axis=0)) == 3
    assert 0.2 < masks.mean() < 0.8
    # The same draws as by example.
    same = dataclasses.replace(engine, noise_sharing="example")
    np.testing.assert_array_equal(same._log_likelihoods(model, batch, KEY)[0], values)


def test_a_sequence_has_steps():
    rows = sx.NoiseTraining(noise_sharing="sequence", steps=2)
    with pytest.raises(ValueError, match=r"a sequence, \(steps, features\).* shape \(3,\)"):
        sx.fit(mlp_model(), X, Y, rows, key=KEY)
    # A model without an example learns the shape only when data come.
    model = sx.Model(StepByStep(3, KEY), sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Gaussian())
    assert model.example is None
    posterior = sx.fit(model, X.reshape(10, 6, 3), Y[:10], rows, key=KEY)
    assert np.isfinite(posterior.history.objective).all()
    batch = Batch(jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32), jnp.ones(60))
    with pytest.raises(ValueError, match="takes each row of x as a sequence"):
        rows._log_likelihoods(model, batch, KEY)
