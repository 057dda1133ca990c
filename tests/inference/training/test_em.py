"""Variational EM: its scales, its bound, and what it finds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from sklearn.datasets import make_friedman1
from sklearn.linear_model import ARDRegression

import scalemix as sx
from scalemix.inference.training import scales as sc
from scalemix.inference.training.engine import State
from scalemix.model.site_prior import SitePrior
from scalemix.networks import MLP, ResNet
from scalemix.networks.gaussians import draw_network
from tests.networks.cases import NETWORKS

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()
HYPERPRIORS = [
    sx.InverseGamma(3.0, 3.0),
    sx.HalfCauchy(0.7),
    sx.LogUniform(),
    sx.Exponential(2.0),
    sx.Gamma(2.0, 1.5),
]
STRUCTURES = [sx.ARD, sx.DropConnect, sx.ADD, sx.ARDADD]


# ------------------------------------------------------------------------------- the scale updates


def site_bound(prior, mean, deviation, variances):
    """What the variances of one site have a say in."""
    kl = sc.kl_divergence(prior, mean, jnp.log(deviation), variances)
    return sc.log_hyperprior(prior, variances) - kl


def prior_on(layer, structure):
    (site,) = sx.networks.find_sites(layer)
    return SitePrior(site, structure, site.weight(layer))


# Each structure with two or three families, and each family with two structures, in `make test`;
# each pair in `make test-all`.
@pytest.mark.parametrize(
    ("kind", "mixture"),
    [
        pytest.param(
            kind, mixture, id=f"{kind.__name__}-{type(mixture).__name__}",
            marks=[] if (i + j) % 2 == 0 else pytest.mark.slow,
        )
        for i, kind in enumerate(STRUCTURES)
        for j, mixture in enumerate(HYPERPRIORS)
    ],
)  # fmt: skip
def test_a_scale_update_never_lowers_the_bound(kind, mixture, float64):
    structure = kind(mixture, scale=0.6)
    prior = prior_on(eqx.nn.Linear(4, 3, key=KEY), structure)

    bound = jax.jit(lambda *arguments: site_bound(prior, *arguments))

    @jax.jit
    def improve(mean, deviation, variances):
        before = site_bound(prior, mean, deviation, variances)
        values, current = [before], variances
        for _ in range(3):
            current = sc.best_variances(prior, mean, jnp.log(deviation), current)
            values.append(site_bound(prior, mean, deviation, current))
        return jnp.stack(values), current

    rng = np.random.default_rng(3)
    for _ in range(20):
        mean = jnp.asarray(rng.normal(size=(3, 4)) * 10.0 ** rng.uniform(-2, 2))
        deviation = jnp.asarray(10.0 ** rng.uniform(-3, 1, size=(3, 4)))
        shapes = {"unit": (4,), "weight": (3, 4), "layer": ()}
        variances = {
            g: jnp.asarray(10.0 ** rng.uniform(-3, 3, size=shapes[g])) for g in structure.groups
        }
        values, best = improve(mean, deviation, variances)
        assert np.all(np.diff(values) >= -1e-9 * np.abs(values).max())
        # Nor does a nudge of any variance raise it, once there is but one group to improve.
        if kind is not sx.ARDADD:
            for factor in (0.98, 1.02):
                nudged = {g: v * factor for g, v in best.items()}
                value = bound(mean, deviation, nudged)
                assert value <= values[-1] + 1e-9


def test_ard_add_sweeps_settle():
    prior = prior_on(eqx.nn.Linear(6, 5, key=KEY), sx.ARDADD(sx.InverseGamma(3.0, 3.0)))
    start = {"unit": jnp.ones(6), "layer": jnp.ones(())}
    moment = sc.moments(prior, prior.weight, jnp.log(jnp.full((5, 6), 0.1)), start)
    many = sc.optimal_variances(prior, moment, start, num_sweeps=60)
    again = sc.optimal_variances(prior, moment, many, num_sweeps=1)
    for group in many:
        np.testing.assert_allclose(many[group], again[group], rtol=1e-4)


def test_sums_run_over_the_weights_that_share_a_scale():
    prior = prior_on(eqx.nn.Conv2d(4, 6, 3, groups=2, key=KEY), sx.ARD(sx.LogUniform()))
    values = jax.random.uniform(KEY, prior.site.shape)
    sums = sc._pool(prior, values)
    # Input channel 3 is the second of the second group: outputs 3, 4, 5.
    np.testing.assert_allclose(sums[3], values[3:, 1].sum(), rtol=1e-6)
    np.testing.assert_allclose(sums.sum(), values.sum(), rtol=1e-6)
    counts = sc._sizes(prior, values)
    np.testing.assert_array_equal(counts, np.full(4, 27.0))


def test_gradients_do_not_flow_through_the_scales():
    model = sx.Model(MLP(3, "scalar", 4, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    engine = sx.VariationalEM()
    state = engine.init(model)

    @jax.jit
    @jax.value_and_grad
    def total(learned):
        best = engine.update_scales(state._replace(learned=learned), model).variances
        return sum(jnp.sum(v) for groups in best.values() for v in groups.values())

    value, slopes = total(state.learned)
    assert all(np.all(slope == 0) for slope in jax.tree.leaves(slopes))
    assert value > 0


# --------------------------------------------------------------------------------------- the bound


@eqx.filter_jit
def sum_of_bound(engine, state, model, batch, key):
    bound = engine.bound(state, model, batch, key=key)
    return len(batch[1]) * bound.log_likelihood - bound.kl


def linear_bound(x, y, mean, deviation, variance, sigma, num_draws=4000):
    """`sum log p - KL` of a linear model by the engine, and its standard error."""
    network = eqx.nn.Linear(x.shape[1], "scalar", use_bias=False, key=KEY)
    network = eqx.tree_at(lambda n: n.weight, network, jnp.asarray(mean[None], jnp.float32))
    model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian(sigma))
    engine = sx.VariationalEM(num_draws=num_draws)
    state = engine.init(model)
    batch = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    log_deviations = {"network": jnp.log(jnp.asarray(deviation[None], jnp.float32))}
    learned = state.learned._replace(log_deviations=log_deviations)
    state = State(learned, {"network": {"unit": jnp.asarray(variance, jnp.float32)}})
    keys = jax.random.split(KEY, 8)
    values = np.array([float(sum_of_bound(engine, state, model, batch, k)) for k in keys])
    return values.mean(), values.std() / np.sqrt(len(keys))


def exact_evidence(x, y, variance, sigma):
    covariance = sigma**2 * np.eye(len(y)) + (x * variance) @ x.T
    return st.multivariate_normal(np.zeros(len(y)), covariance).logpdf(y)


def test_the_bound_is_tight_when_the_posterior_is_factorised():
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.normal(size=(12, 3)))[0] * np.array([2.0, 3.0, 1.0])
    y, sigma, variance = rng.normal(size=12), 0.7, np.array([0.5, 2.0, 1.0])
    # Orthogonal columns: the exact posterior is independent.
    precision = (x**2).sum(axis=0) / sigma**2 + 1 / variance
    mean = (x.T @ y) / sigma**2 / precision
    value, error = linear_bound(x, y, mean, precision**-0.5, variance, sigma)
    assert abs(value - exact_evidence(x, y, variance, sigma)) < 5 * error + 1e-3


def test_the_bound_is_below_the_evidence():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(12, 3)) + 1.0, rng.normal(size=12)
    sigma, variance = 0.7, np.array([0.5, 2.0, 1.0])
    exact = exact_evidence(x, y, variance, sigma)
    precision = x.T @ x / sigma**2 + np.diag(1 / variance)
    best_mean = np.linalg.solve(precision, x.T @ y / sigma**2)
    # The best factorised posterior, and worse ones.
    for mean, deviation in [
        (best_mean, np.diag(precision) ** -0.5),
        (best_mean + 0.1, np.diag(precision) ** -0.5),
        (best_mean, np.full(3, 0.3)),
    ]:
        value, error = linear_bound(x, y, mean, deviation, variance, sigma)
        assert value < exact - 5 * error


@pytest.mark.parametrize("name", ["dense", "convolution", "called twice", "scanned"])
def test_the_likelihood_in_the_bound_is_that_of_drawn_weights(name):
    """`E_q log p(y | x, W)`: one draw of a weight holds for all that it does to an example."""
    network = NETWORKS[name][0]()
    model = sx.Model(
        network, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian(0.5, per_input=True),
        example=jnp.zeros(6),
    )  # fmt: skip
    engine = sx.VariationalEM(initial_deviation=0.7)
    state = eqx.filter_jit(lambda model: engine.update_scales(engine.init(model), model))(model)
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in ((3, 6), 3))

    @jax.jit
    @jax.vmap
    def in_training(key):
        return engine.bound(state, model, (x, y), key=key).log_likelihood

    @jax.jit
    @jax.vmap
    def by_weights(key):
        drawn = draw_network(network, model.sites, state.learned.deviations, key)
        return jnp.mean(jax.vmap(lambda x, y: model.likelihood.log_prob(drawn(x), y))(x, y))

    keys = jax.random.split(KEY, 2 * 10_000)
    ours, theirs = in_training(keys[:10_000]), by_weights(keys[10_000:])
    error = np.sqrt((ours.var() + theirs.var()) / 10_000)
    assert abs(ours.mean() - theirs.mean()) < 5 * error


def test_n_enters_once():
    bound = sx.inference.training.em.Bound(jnp.float32(-1.0), jnp.float32(50.0), jnp.float32(10.0))
    assert bound.per_datum(jnp.float32(100.0), 1.0) == pytest.approx(-1.4)
    assert bound.per_datum(jnp.float32(100.0), 0.5) == pytest.approx(-1.2)


def test_batches_do_not_change_what_is_optimised():
    """The mean of the bound over the batches of an epoch is the bound of all data."""
    model = sx.Model(MLP(3, "scalar", 6, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    engine = sx.VariationalEM(num_draws=1, initial_deviation=1e-6)
    rng = np.random.default_rng(0)
    x, y = np.float32(rng.normal(size=(40, 3))), np.float32(rng.normal(size=40))
    state = eqx.filter_jit(lambda model: engine.update_scales(engine.init(model), model))(model)

    @jax.jit
    def value(x, y):
        bound = engine.bound(state, model, (x, y), key=KEY)
        return bound.per_datum(jnp.float32(40.0), 1.0)

    parts = [value(x[start : start + 10], y[start : start + 10]) for start in range(0, 40, 10)]
    assert np.ptp(parts) > 0
    assert np.mean(parts) == pytest.approx(float(value(x, y)), rel=1e-4)


# The contract of engines has it of one group of scales; here there are two.
@pytest.mark.slow
def test_many_fits_equal_fits_in_turn():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    ys = [x[:, 0] + 0.1 * rng.normal(size=50), np.sin(x[:, 1])]
    keys = jax.random.split(KEY, 2)
    model = sx.Model(
        ResNet(3, "scalar", 8, 2, key=KEY), sx.ARDADD(sx.InverseGamma(3.0, 3.0)), GAUSSIAN
    )
    method = sx.VariationalEM(steps=60, chunk_steps=20)
    together = sx.fit_many(model, [x, x], ys, method, keys=keys)
    for one, y, key in zip(together, ys, keys, strict=True):
        alone = sx.fit(model, x, y, method, key=key)
        for name, weight in alone.model.weights.items():
            np.testing.assert_allclose(one.model.weights[name], weight, rtol=1e-3, atol=1e-4)
        for name, value in alone.networks.variances.items():
            for group in value:
                np.testing.assert_allclose(
                    one.networks.variances[name][group], value[group], rtol=1e-3
                )


# ----------------------------------------------------------------------------------- what it finds


def test_irrelevant_inputs_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 8))
    y = x @ np.array([2.0, 0.0, -1.0, 0.0, 0.0, 0.5, 0.0, 0.0]) + 0.3 * rng.normal(size=150)
    network = eqx.nn.Linear(8, "scalar", key=KEY)
    model = sx.Model(network, sx.ARD(sx.LogUniform()), GAUSSIAN)
    method = sx.VariationalEM(steps=3000, batch_size=None, num_draws=4, learning_rate=0.02)
    posterior = sx.fit(model, x, y, method, key=KEY)
    reference = ARDRegression().fit(x, y)
    # Selected: the prior's deviation of a coefficient, in units of input and target, is not small.
    theirs = reference.lambda_**-0.5 * x.std(axis=0) / y.std()
    ours = np.sqrt(np.asarray(posterior.networks.variances["network"]["unit"]))
    relevant = [True, False, True, False, False, True, False, False]
    np.testing.assert_array_equal(theirs > 0.1, relevant)
    np.testing.assert_array_equal(ours > 0.1, relevant)
    coefficients = np.asarray(posterior.model.weights["network"][0]) * y.std() / x.std(axis=0)
    np.testing.assert_allclose(coefficients, reference.coef_, atol=0.05)


def test_the_relevant_inputs_of_friedman_lead():
    x, y = make_friedman1(500, n_features=50, noise=0.5, random_state=0)
    model = sx.Model(MLP(50, "scalar", 30, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    method = sx.VariationalEM(steps=5000, num_draws=1, learning_rate=0.01)
    posterior = sx.fit(model, x, y, method, key=KEY)
    relevance = posterior.relevance().inputs
    assert relevance[:5].min() > 10 * relevance[5:].max()


# With ADD, tests of depth and of pruning see it too. Ten layers take twice as long to compile.
@pytest.mark.parametrize("kind", [pytest.param(sx.ADD, marks=pytest.mark.slow), sx.ARDADD])
def test_layers_that_are_not_needed_switch_off(kind):
    num_layers = 5
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(200, 2))
    y = np.maximum(x[:, 0], 0) - 0.5 * x[:, 1] + 0.05 * rng.normal(size=200)
    model = sx.Model(
        ResNet(2, "scalar", 10, num_layers, key=KEY), kind(sx.HalfCauchy(1.0)), GAUSSIAN
    )
    # From a cold start the prior prunes hardest.
    method = sx.VariationalEM(steps=2500, num_draws=1, batch_size=64, warm_up=0.0)
    posterior = sx.fit(model, x, y, method, key=KEY)
    relevance = posterior.relevance()
    off = [name for name, (on,) in relevance.layers_on.items() if not on]
    assert len(off) >= 3
    assert all(name.startswith("blocks") for name in off)
    assert relevance.effective_depth == num_layers - len(off)
    without = posterior.model.weights | {
        name: jnp.zeros_like(posterior.model.weights[name]) for name in off
    }
    inputs = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
    run = eqx.filter_jit(lambda network: jax.vmap(network)(inputs))
    full = np.asarray(run(posterior.model.network))
    rest = np.asarray(run(posterior.model.with_weights(without).network))
    assert np.abs(full - rest).max() < 0.01 * np.abs(full).max()


@pytest.mark.parametrize("mixture", [sx.HalfCauchy(1.0), sx.LogUniform()])
def test_scales_at_zero_stay_finite(mixture):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    model = sx.Model(MLP(3, "scalar", 6, 1, key=KEY), sx.ARD(mixture), GAUSSIAN)
    method = sx.VariationalEM(steps=4000, num_draws=1, learning_rate=0.05, chunk_steps=1000)
    posterior = sx.fit(model, x, y, method, key=KEY)
    deviations = jax.tree.leaves(posterior.networks.deviations)
    variances = jax.tree.leaves(posterior.networks.variances)
    assert all(np.isfinite(a).all() and (np.asarray(a) > 0).all() for a in deviations + variances)
    smallest = min(np.asarray(v).min() for v in variances)
    if isinstance(mixture, sx.LogUniform):
        assert smallest == pytest.approx(sc.FLOOR)
    else:
        # Half-Cauchy scales go to zero too, but only as one over the number of steps.
        assert smallest < 5e-3


def test_the_history_has_the_three_terms():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    model = sx.Model(MLP(3, "scalar", 6, 1, key=KEY), sx.ARD(sx.Exponential(1.0)), GAUSSIAN)
    method = sx.VariationalEM(steps=40, chunk_steps=20, temperature=0.5)
    history = sx.fit(model, x, y, method, key=KEY).history
    terms = history.recorded
    assert set(terms) == {"log_likelihood", "kl", "log_hyperprior"}
    total = terms["log_likelihood"] - 0.5 * (terms["kl"] - terms["log_hyperprior"]) / 50
    np.testing.assert_allclose(total, history.objective[[19, 39]], rtol=1e-4)


def test_a_warm_up_is_a_share_or_a_number_of_steps():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    model = sx.Model(MLP(3, "scalar", 6, 1, key=KEY), sx.ARD(sx.Exponential(1.0)), GAUSSIAN)

    def objective(warm_up):
        # The program of the test above.
        method = sx.VariationalEM(steps=40, chunk_steps=20, warm_up=warm_up)
        return sx.fit(model, x, y, method, key=KEY).history.objective

    # A quarter of 40 is computed by programs that differ in how they round.
    np.testing.assert_allclose(objective(10), objective(0.25), rtol=1e-5)
    assert not np.array_equal(objective(1), objective(0.25))
    with pytest.raises(ValueError, match=r"warm_up=41 steps are more than the 40"):
        objective(41)


@pytest.mark.parametrize(
    ("unit", "layer"),
    [
        (sx.LogUniform(), None),
        (sx.LogUniform(), sx.HalfCauchy(1.0)),
        (sx.Gamma(0.5, 1.0), sx.LogUniform()),
    ],
)
def test_scales_without_a_maximum_are_refused(unit, layer):
    network = ResNet(3, "scalar", 8, 2, key=KEY)
    model = sx.Model(network, sx.ARDADD(unit, layer_mixture=layer), GAUSSIAN)
    with pytest.raises(ValueError, match=r"'blocks.0', .* has no most probable scales"):
        sx.fit(model, np.ones((9, 3)), np.arange(9.0), sx.VariationalEM(steps=2), key=KEY)


# Each family in both places, with and without a maximum, in `make test`; each pair in
# `make test-all`.
@pytest.mark.parametrize(
    ("unit", "layer"),
    [
        pytest.param(
            unit, layer, id=f"{type(unit).__name__}-{type(layer).__name__}",
            marks=[] if (i - j) % 5 in (0, 1) else pytest.mark.slow,
        )
        for i, unit in enumerate(HYPERPRIORS)
        for j, layer in enumerate(HYPERPRIORS)
    ],
)  # fmt: skip
def test_sweeps_settle_where_there_is_a_maximum(unit, layer, float64):
    """The scales of ARD-ADD come to rest, or have no maximum to come to rest at."""
    rows = 6
    network = eqx.nn.Linear(rows, 5, key=KEY, dtype=jnp.float64)
    prior = prior_on(network, sx.ARDADD(unit, layer_mixture=layer))
    moment = jnp.asarray(np.random.default_rng(0).uniform(0.5, 5.0, rows))

    @jax.jit
    def sweeps(num, variances):
        def sweep(_, v):
            return sc.optimal_variances(prior, moment, v)

        return jax.lax.fori_loop(0, num, sweep, variances)

    after = sweeps(3000, {"unit": jnp.ones(rows), "layer": jnp.ones(())})
    rests = np.allclose(after["layer"], sweeps(1, after)["layer"], rtol=1e-6)
    inside = after["layer"] < 1e6 and after["unit"].min() > 1e-6
    assert (rests and inside) == sc.have_maximum(prior.structure, prior.num_scales)


@pytest.mark.parametrize("mixture", [sx.Bernoulli(0.9), sx.Gaussian(0.3), sx.Beta(2.0, 2.0)])
def test_families_without_an_update_are_refused(mixture):
    model = sx.Model(MLP(3, "scalar", 6, 1, key=KEY), sx.ARD(mixture), GAUSSIAN)
    with pytest.raises(ValueError, match=r"prior on 'layers\.0': .*closed-form variance update"):
        sx.fit(model, np.zeros((5, 3)), np.zeros(5), sx.VariationalEM(), key=KEY)


def test_impossible_settings_are_refused():
    for arguments, reason in [
        ({"num_draws": 0}, "num_draws"),
        ({"num_sweeps": 1.5}, "num_sweeps"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"initial_deviation": 0.0}, "initial_deviation"),
        ({"warm_up": 1.0}, "warm_up"),
        ({"warm_up": 2.5}, "warm_up"),
        ({"warm_up": "100"}, "warm_up"),
        ({"initial_deviation": None}, "initial_deviation"),
        ({"num_members": None}, "num_members"),
        ({"warm_up": -1}, "warm_up"),
    ]:
        with pytest.raises(ValueError, match=reason):
            sx.VariationalEM(**arguments)
    flat = sx.ARD(sx.HalfCauchy(1.0), scale=float("inf"))
    model = sx.Model(MLP(3, "scalar", 6, 1, key=KEY), flat, GAUSSIAN)
    with pytest.raises(ValueError, match="is flat"):
        sx.fit(model, np.zeros((5, 3)), np.zeros(5), sx.VariationalEM(), key=KEY)


def test_numbers_of_numpy_are_numbers():
    method = sx.VariationalEM(
        steps=np.int64(50), warm_up=np.int64(5), temperature=np.float32(0.5),
        learning_rate=np.float64(0.01), num_draws=np.int32(2),
    )  # fmt: skip
    assert method == sx.VariationalEM(
        steps=50, warm_up=5, temperature=0.5, learning_rate=0.01, num_draws=2
    )
