"""The objectives, on a linear model whose marginal likelihood over the noise is exact."""

import itertools

import equinox as eqx
import hypothesis as hp
import hypothesis.strategies as hst
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st

import scalemix as sx
from scalemix.data.batches import Batch
from scalemix.inference.training import objectives as ob
from scalemix.inference.training.weights import OF_DRAWS, importance_weights

NUM, DIM, SIGMA = 6, 3, 0.5
RNG = np.random.default_rng(1)
X = RNG.normal(size=(NUM, DIM))
W = np.array([0.7, -0.4, 0.2])
Y = X @ W + SIGMA * RNG.normal(size=NUM)
# One program each, where every operation would be one of its own.
OBJECTIVES = {
    name: jax.jit(objective, static_argnames="weighting")
    for name, objective in ob.OBJECTIVES.items()
}
SLOPES = {
    name: jax.jit(jax.grad(objective), static_argnames="weighting")
    for name, objective in ob.OBJECTIVES.items()
}
OF_BATCHES = {
    name: jax.jit(
        jax.vmap(lambda v, w, t, objective=objective: objective(v, w, total=t), (0, 0, None))
    )
    for name, objective in ob.OBJECTIVES.items()
}


def normal(seed, shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def linear_model(std, mean=1.0):
    network = eqx.nn.Linear(DIM, "scalar", use_bias=False, key=jax.random.key(0))
    network = eqx.tree_at(lambda n: n.weight, network, jnp.asarray(W[None], jnp.float32))
    likelihood = sx.likelihoods.Gaussian(SIGMA)
    return sx.Model(network, sx.ARD(sx.Gaussian(std, mean)), likelihood)


def log_likelihoods(std, num_draws, key, sharing="batch"):
    """`l[s, n]` by the library's own noisy network."""
    engine = sx.NoiseTraining(num_draws=num_draws, noise_sharing=sharing)
    batch = Batch(jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32), jnp.ones(NUM))
    return engine._log_likelihoods(linear_model(std), batch, key)[0]


def exact_evidence(std):
    """`log E_xi p(y | X, w, xi)`: with Gaussian noise, y is Gaussian."""
    covariance = SIGMA**2 * np.eye(NUM) + std**2 * (X * W**2) @ X.T
    return st.multivariate_normal(X @ W, covariance).logpdf(Y) / NUM


def exact_lower_bound(std):
    noiseless = st.norm(X @ W, SIGMA).logpdf(Y).sum()
    return (noiseless - 0.5 * std**2 / SIGMA**2 * np.sum(X**2 * W**2)) / NUM


def repeated(objective, std, num_draws, times=400):
    """The objective's mean over repetitions, and its standard error."""
    keys = jax.random.split(jax.random.key(3), times)

    def once(key):
        return objective(log_likelihoods(std, num_draws, key), weighting="batch")

    values = np.asarray(jax.jit(jax.vmap(once))(keys), float)
    return values.mean(), values.std() / np.sqrt(times)


def test_bounds_are_ordered_and_tighten():
    std = 0.6
    exact = exact_evidence(std)
    lower, lower_error = repeated(ob.lower_bound, std, 10)
    assert abs(lower - exact_lower_bound(std)) < 4 * lower_error
    previous, previous_error = lower, lower_error
    for num_draws in (2, 10, 100):
        value, error = repeated(ob.importance_weighted, std, num_draws)
        assert value > previous + 2 * np.hypot(error, previous_error)
        assert value < exact + 4 * error
        previous, previous_error = value, error
    assert exact - previous < 0.1 * (exact - lower)


def test_one_draw_makes_them_equal():
    values = jax.jit(lambda key: log_likelihoods(0.5, 1, key, "example"))(jax.random.key(1))
    for weighting in ("example", "batch"):
        bound = OBJECTIVES["lower_bound"](values, weighting=weighting)
        for name in OF_DRAWS:
            one = OBJECTIVES[name](values, weighting=weighting)
            np.testing.assert_allclose(one, bound, rtol=1e-6)


def test_the_expanded_gap_is_of_the_order_of_the_variance():
    stds = np.array([0.02, 0.04, 0.08])
    gaps = np.array([exact_evidence(s) - exact_lower_bound(s) for s in stds])
    np.testing.assert_allclose(gaps[1:] / gaps[:-1], 4.0, rtol=0.1)
    # And the estimate on the library's network has that gap.
    lower, error = repeated(ob.lower_bound, 0.08, 10)
    assert abs(exact_evidence(0.08) - lower - gaps[2]) < 4 * error


def test_the_hierarchical_gap_is_of_the_order_of_the_variance_of_the_inverse_square(float64):
    # xi^-2 ~ Gamma(shape, shape): mean one, variance 1 / shape. The likelihood has no noise, so
    # the gap is that of the prior: log E N(w; 0, xi^2) against E log N(w; 0, xi^2).
    gaps = []
    for shape in (50.0, 100.0, 200.0):
        mixture = sx.InverseGamma(shape, shape)
        marginal = np.sum(mixture.marginal_log_prob(W))
        model = sx.Model(
            eqx.tree_at(
                lambda n: n.weight,
                eqx.nn.Linear(DIM, "scalar", use_bias=False, key=jax.random.key(0)),
                jnp.asarray(W[None]),
            ),
            sx.ARD(mixture),
            sx.likelihoods.Gaussian(),
        )
        mean_log_variance = np.log(shape) - sp.digamma(shape)
        constant = -0.5 * DIM * (np.log(2 * np.pi) + mean_log_variance)
        gaps.append(marginal - (constant - float(model.penalty("hierarchical"))))
    assert min(gaps) > 0
    np.testing.assert_allclose(np.array(gaps[1:]) / gaps[:-1], 0.5, rtol=0.05)


@pytest.mark.parametrize("weighting", ["example", "batch"])
def test_importance_weighted_gradients_are_self_normalised(weighting):
    values = normal(2, (6, 4))
    slope = SLOPES["importance_weighted"](values, weighting=weighting)
    total = values if weighting == "example" else np.sum(values, axis=1, keepdims=True)
    weights = np.exp(total) / np.sum(np.exp(total), axis=0, keepdims=True)
    expected = np.broadcast_to(weights, values.shape) / 4
    np.testing.assert_allclose(slope, expected, rtol=1e-5)
    ours = jax.jit(importance_weights, static_argnums=0)("importance_weighted", total)
    np.testing.assert_allclose(ours, weights, rtol=1e-5)


@pytest.mark.parametrize("name", ["importance_weighted", "truncated", "pareto_smoothed"])
def test_importance_weights_estimate_the_slope_of_the_evidence(name):
    std, num_draws = 0.3, 400

    def evidence(w):
        covariance = SIGMA**2 * jnp.eye(NUM) + std**2 * x @ jnp.diag(w**2) @ x.T
        return jax.scipy.stats.multivariate_normal.logpdf(y, x @ w, covariance) / NUM

    def estimate(w, key):
        noise = 1.0 + std * jax.random.normal(key, (num_draws, DIM))
        values = jax.scipy.stats.norm.logpdf(y[None], (noise * w[None]) @ x.T, SIGMA)
        return ob.OBJECTIVES[name](values, weighting="batch")

    x, y, w = (a.astype(np.float32) for a in (X, Y, W))
    keys = jax.random.split(jax.random.key(6), 200)
    slopes = np.asarray(jax.jit(jax.vmap(jax.grad(estimate), (None, 0)))(w, keys), float)
    exact, error = np.asarray(jax.jit(jax.grad(evidence))(w)), slopes.std(axis=0) / np.sqrt(200)
    # Weights that sum to one have a bias of order 1 / S.
    bias = slopes.std(axis=0) / np.sqrt(num_draws)
    assert (np.abs(slopes.mean(axis=0) - exact) < 4 * error + bias).all()
    # Equal weights have another slope.
    lower = (X.T @ (Y - X @ W) - std**2 * W * np.sum(X**2, axis=0)) / (NUM * SIGMA**2)
    assert (np.abs(lower - exact) > 8 * error).any()


@pytest.mark.parametrize("weighting", ["example", "batch"])
@pytest.mark.parametrize("name", OF_DRAWS)
def test_padding_counts_for_nothing(name, weighting):
    objective = OBJECTIVES[name]
    values = normal(4, (5, 3))
    padded = np.concatenate([values, np.full((5, 2), -np.inf, np.float32)], axis=1)
    weights = np.array([1.0, 1.0, 1.0, 0.0, 0.0], np.float32)
    whole = objective(values, weighting=weighting)
    np.testing.assert_allclose(objective(padded, weights, weighting=weighting), whole, rtol=1e-6)
    slope = SLOPES[name](padded, weights, weighting=weighting)
    assert np.all(np.isfinite(slope))
    assert np.all(slope[:, 3:] == 0)


def test_example_weights_are_repetitions():
    values = normal(4, (5, 3))
    doubled = np.concatenate([values, values[:, :1]], axis=1)
    for name in OF_DRAWS:
        for weighting in ("example", "batch"):
            objective = OBJECTIVES[name]
            weights = np.array([2.0, 1.0, 1.0], np.float32)
            weighted = objective(values, weights, weighting=weighting)
            np.testing.assert_allclose(weighted, objective(doubled, weighting=weighting), rtol=1e-5)


@pytest.mark.parametrize("name", list(ob.OBJECTIVES))
@hp.given(
    weights=hst.lists(hst.sampled_from([0.0, 0.2, 1.0, 3.0, 99.0]), min_size=5, max_size=5).filter(
        any
    ),
    size=hst.integers(1, 5),
)
@hp.settings(max_examples=20, deadline=None, derandomize=True)
def test_batches_are_right_on_average(name, weights, size):
    """The mean over all batches that there are is the objective of all examples."""
    weights = np.array(weights, np.float32)
    values = normal(5, (1 if name == "hierarchical" else 3, 5))
    batches = np.array(list(itertools.combinations(range(5), size)))
    total = size * weights.mean()
    of_batches = OF_BATCHES[name](np.moveaxis(values[:, batches], 1, 0), weights[batches], total)
    of_all = OBJECTIVES[name](values, weights)
    np.testing.assert_allclose(np.mean(of_batches), of_all, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", OF_DRAWS)
def test_draws_of_a_batch_are_weighed_by_its_whole_likelihood(name):
    objective, weights = OBJECTIVES[name], np.array([2.0, 0.0, 0.5], np.float32)
    values = normal(4, (5, 3))
    sums = 2.0 * values[:, :1] + 0.5 * values[:, 2:]
    expected = objective(sums) / 7.0
    value = objective(values, weights, total=7.0, weighting="batch")
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    # A batch without any weight says nothing, and is no reason to stop.
    assert objective(values, np.zeros(3, np.float32), total=7.0) == 0


def test_hierarchical_takes_one_row():
    with pytest.raises(ValueError, match="one row of log-likelihoods, got 3"):
        ob.hierarchical(jnp.zeros((3, 2)))


def test_penalties():
    model = linear_model(0.1)
    np.testing.assert_allclose(model.penalty(), 0.5 * np.sum(W**2), rtol=1e-6)
    network = sx.networks.ResNet(2, 1, 3, 2, key=jax.random.key(0))
    prior = sx.ARDADD(sx.InverseGamma(3.0, 1.5), sx.InverseGamma(2.0, 0.5), scale=0.5)
    model = sx.Model(network, prior, sx.likelihoods.Gaussian())
    squares = {name: float(jnp.sum(w**2)) for name, w in model.weights.items()}
    # E[xi^-2] is shape / rate: 2 for the units, 4 for the layer.
    expected = 2 * (2 * squares["first"] + 8 * squares["blocks.0"] + 2 * squares["last"])
    np.testing.assert_allclose(model.penalty("hierarchical"), expected, rtol=1e-5)
    flat = sx.Model(network, sx.ARD(sx.Bernoulli(0.9), scale=np.inf), sx.likelihoods.Gaussian())
    assert flat.penalty() == 0
