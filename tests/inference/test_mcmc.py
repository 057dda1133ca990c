"""Chains against oracles: the other form, NumPyro, exact enumeration; and how they run."""

import dataclasses
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix import predictive
from scalemix.diagnostics import ConvergenceWarning
from scalemix.distributions import SampledNetworks, spread_order
from scalemix.inference import chains
from scalemix.networks import MLP

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
GAUSSIAN = sx.likelihoods.Gaussian()


# --------------------------------------------------------------------------------- against oracles


class Sum(eqx.Module):
    """A linear model in three parts, so that each can have a prior of its own."""

    a: eqx.nn.Linear
    b: eqx.nn.Linear
    c: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.a, self.b, self.c = (eqx.nn.Linear(2, "scalar", use_bias=False, key=k) for k in keys)

    def __call__(self, x):
        return self.a(x[:2]) + self.b(x[2:4]) + self.c(x[4:])


PARTS = {"a": sx.Rayleigh(0.6), "b": sx.InverseGamma(3.0, 2.0), "c": sx.HalfCauchy(0.5)}
X = RNG.normal(size=(25, 6)).astype(np.float32)
Y = (X @ np.array([1.0, 0.0, -0.7, 0.2, 0.6, 0.0]) + 0.5 * RNG.normal(size=25)).astype(np.float32)
NEW = RNG.normal(size=(4, 6)).astype(np.float32)


def three_priors():
    priors = {name: sx.ARD(mixture, scale=0.8) for name, mixture in PARTS.items()}
    return sx.Model(Sum(KEY), priors, GAUSSIAN, example=X[0])


def moments(values):
    """Means and variances of values (chains, samples, quantities), with their standard errors."""
    values = np.asarray(values, float).reshape(*np.shape(values)[:2], -1)
    centred = (values - values.mean(axis=(0, 1))) ** 2
    found = []
    for one in (values, centred):
        size = sx.diagnostics._convergence(one).ess_bulk
        found.append((one.mean(axis=(0, 1)), one.std(axis=(0, 1)) / np.sqrt(size)))
    return found


def assert_same_moments(one, other):
    """Within four standard errors of their difference: a dozen numbers, once in a thousand."""
    for (mean, error), (mean_, error_) in zip(moments(one), moments(other), strict=True):
        np.testing.assert_array_less(np.abs(mean - mean_), 4 * np.hypot(error, error_) + 1e-6)


def by_sample(posterior, x):
    """Weights of all sites, and the function at x, of all samples."""
    weights, _ = sx.diagnostics._parameters(posterior.networks)
    flat = [w.reshape(*w.shape[:2], -1) for w in weights.values()]
    return np.concatenate(flat, axis=2), sx.diagnostics._outputs(posterior.networks, jnp.asarray(x))


LINEAR = {
    form: sx.MCMC(
        num_chains=4, num_warmup=500, num_samples=750, parametrization=form, warm_start_steps=100,
        target_acceptance=0.95, likelihood_scale=1.0, max_depth=8,
    )
    for form in ("expanded", "hierarchical")
}  # fmt: skip


def run_numpyro(model, key):
    # What NumPyro does inside is not under our strictness.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        from numpyro.infer import MCMC, NUTS

        mcmc = MCMC(
            NUTS(model, target_accept_prob=0.9, max_tree_depth=7), num_warmup=500,
            num_samples=750, num_chains=4, chain_method="vectorized", progress_bar=False,
        )  # fmt: skip
        mcmc.run(key)
        return {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}


def raw_noise(numpyro, dist):
    raw = numpyro.sample("raw", dist.Normal(0.0, 1.0))
    return GAUSSIAN.floor + jax.nn.softplus(raw)


def test_both_forms_and_numpyro_have_the_same_posterior_of_a_linear_model():
    import numpyro
    import numpyro.distributions as dist

    def model():
        variance = numpyro.sample("a", dist.Exponential(jnp.full(2, 0.5 / 0.6**2)))
        precise = numpyro.sample("b", dist.InverseGamma(jnp.full(2, 3.0), 2.0))
        wide = numpyro.sample("c", dist.HalfCauchy(jnp.full(2, 0.5)))
        xi = jnp.concatenate([jnp.sqrt(variance), jnp.sqrt(precise), wide])
        z = numpyro.sample("z", dist.Normal(jnp.zeros(6), 0.8))
        w = numpyro.deterministic("w", z * xi)
        numpyro.sample("y", dist.Normal(X @ w, raw_noise(numpyro, dist)), obs=Y)

    expanded, hierarchical = (
        sx.fit(three_priors(), X, Y, method, key=KEY, standardize=False)
        for method in LINEAR.values()
    )
    weights, function = by_sample(expanded, NEW)
    for one, other in zip((weights, function), by_sample(hierarchical, NEW), strict=True):
        assert_same_moments(one, other)
    theirs = run_numpyro(model, jax.random.key(3))
    assert_same_moments(weights, theirs["w"])
    assert_same_moments(function, theirs["w"] @ NEW.T)
    # The diagnostics see what was just seen.
    found = expanded.diagnostics(NEW)
    assert found.function.rhat.shape == (4,)
    assert found.function.rhat.max() < 1.05
    assert found.function.ess_bulk.min() > 400
    assert np.all((found.ebfmi > 0.3) & (found.ebfmi < 2.0))
    assert np.all((found.acceptance > 0.8) & (found.acceptance < 1.0))


@pytest.mark.slow
def test_numpyro_has_the_same_posterior_of_a_network():
    import numpyro
    import numpyro.distributions as dist

    x = np.linspace(-2.0, 2.0, 15, dtype=np.float32)[:, None]
    y = (np.tanh(2 * x[:, 0]) + 0.2 * RNG.normal(size=15)).astype(np.float32)
    network = MLP(1, "scalar", 2, 1, activation=jnp.tanh, key=KEY)
    prior = sx.ARD(sx.InverseGamma(3.0, 3.0))
    method = sx.MCMC(
        num_chains=4, num_warmup=500, num_samples=750, likelihood_scale=1.0, max_depth=7,
        target_acceptance=0.9, warm_start_steps=200,
    )  # fmt: skip
    posterior = sx.fit(sx.Model(network, prior, GAUSSIAN), x, y, method, key=KEY, standardize=False)
    places = x[::3]

    def forward(first, b1, second, b2, x):
        return jnp.tanh(x @ first + b1) @ second + b2

    def model():
        w = {}
        for name, shape in (("first", (1, 2)), ("second", (2,))):
            v = numpyro.sample(f"v{name}", dist.InverseGamma(jnp.full(shape[0], 3.0), 3.0))
            z = numpyro.sample(f"z{name}", dist.Normal(jnp.zeros(shape), 1.0))
            w[name] = z * jnp.sqrt(v).reshape(-1, *(1,) * (len(shape) - 1))
        b1 = numpyro.sample("b1", dist.Normal(jnp.zeros(2), 1.0))
        b2 = numpyro.sample("b2", dist.Normal(0.0, 1.0))
        mean = forward(w["first"], b1, w["second"], b2, x)
        numpyro.deterministic("f", forward(w["first"], b1, w["second"], b2, places))
        numpyro.sample("y", dist.Normal(mean, raw_noise(numpyro, dist)), obs=y)

    theirs = run_numpyro(model, jax.random.key(4))
    assert_same_moments(by_sample(posterior, places)[1], theirs["f"])


def exact_inclusion(x, y, keep, slab):
    """P(xi_r = 1 | y) by enumeration; weights and bias integrated exactly, noise on a grid."""
    num, columns = x.shape
    subsets = np.array(np.meshgrid(*[[0.0, 1.0]] * columns)).reshape(columns, -1).T
    raw = np.linspace(-5.0, 5.0, 201)
    scale = float(GAUSSIAN.floor) + np.log1p(np.exp(raw))
    log_prior = -0.5 * raw**2
    design = np.concatenate([x, np.ones((num, 1))], axis=1)
    log_mass = np.empty(len(subsets))
    for i, subset in enumerate(subsets):
        # y ~ N(0, scale^2 I + B B^T): by eigenvalues, for all scales at once.
        b = design * np.append(subset * slab, 1.0)
        values, vectors = np.linalg.eigh(b @ b.T)
        total = values + scale[:, None] ** 2
        fit = -0.5 * np.sum(np.log(total) + (vectors.T @ y) ** 2 / total, axis=1)
        on = subset.sum()
        log_mass[i] = np.logaddexp.reduce(fit + log_prior)
        log_mass[i] += on * np.log(keep) + (columns - on) * np.log(1 - keep)
    mass = np.exp(log_mass - log_mass.max())
    return mass @ subsets / mass.sum()


def test_inclusion_probabilities_match_exact_enumeration():
    x = RNG.normal(size=(20, 8)).astype(np.float32)
    weights = np.array([1.5, 0.9, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0])
    y = (x @ weights + 0.7 * RNG.normal(size=20)).astype(np.float32)
    linear = eqx.nn.Linear(8, "scalar", key=KEY)
    model = sx.Model(linear, sx.ARD(sx.Bernoulli(0.4), scale=1.2), GAUSSIAN)
    method = sx.MCMC(
        num_chains=4, num_warmup=300, num_samples=1200, likelihood_scale=1.0, max_depth=5,
        warm_start_steps=100,
    )  # fmt: skip
    posterior = sx.fit(model, x, y, method, key=KEY, standardize=False)
    found = posterior.inclusion_probabilities()["network"]["unit"]
    exact = exact_inclusion(x.astype(float), y.astype(float), 0.4, 1.2)
    assert exact.min() < 0.3
    assert exact.max() > 0.95
    bits = np.asarray(posterior.networks.bits, float)
    size = np.nan_to_num(sx.diagnostics._convergence(bits).ess_bulk, nan=bits[..., 0].size)
    errors = np.sqrt(exact * (1 - exact) / size)
    np.testing.assert_array_less(np.abs(found - exact), 4 * errors + 1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scalemix.diagnostics.ConvergenceWarning")
@pytest.mark.parametrize("sampler", ["nuts", "mclmc"])
def test_simulation_based_calibration(sampler):
    """Ranks of what the data were made from, among the samples, are uniform."""
    num, ranks_of = 320, []
    model = sx.Model(
        eqx.nn.Linear(2, "scalar", key=KEY), sx.ARD(sx.InverseGamma(3.0, 2.0)), GAUSSIAN
    )
    rng, xs, ys, truths = np.random.default_rng(5), [], [], []
    for key in jax.random.split(jax.random.key(6), num):
        w = np.asarray(model.prior_sample(key).weights["network"])[0]
        bias, raw = rng.normal(), 0.5 * rng.normal()
        x = rng.normal(size=(12, 2))
        noise = float(GAUSSIAN.floor) + np.log1p(np.exp(raw))
        truths.append([*w, bias, raw])
        xs.append(x)
        ys.append(x @ w + bias + noise * rng.normal(size=12))
    # Fifteen nearly independent samples have sixteen ranks, twenty data sets expected in each.
    method = sx.MCMC(
        num_chains=1, num_warmup=600, num_samples=15, thin=20 if sampler == "nuts" else 200,
        sampler=sampler, likelihood_scale=0.5,
    )  # fmt: skip
    keys = jax.random.split(jax.random.key(7), num)
    posteriors = sx.fit_many(model, xs, ys, method, keys=keys, standardize=False)
    for posterior, truth in zip(posteriors, truths, strict=True):
        others = sx.diagnostics._others(posterior.networks)
        weights = sx.diagnostics._parameters(posterior.networks)[0]["network"][0, :, 0]
        samples = [*weights.T, others["bias"][0, :, 0], others["likelihood.raw_scale"][0]]
        ranks_of.append([np.sum(s < t) for s, t in zip(samples, truth, strict=True)])
    counts = np.apply_along_axis(np.bincount, 0, np.array(ranks_of), minlength=16)
    chi_squared = ((counts - num / 16) ** 2 / (num / 16)).sum(axis=0)
    # The 0.9995 quantile of a chi-square with 15 degrees of freedom; four of them.
    assert np.all(chi_squared < 39.7), chi_squared


# ------------------------------------------------------------------------------------- how they run


SHORT = {
    sampler: sx.MCMC(
        num_chains=2, num_warmup=21, num_samples=7, thin=2, chunk_steps=5, warm_start_steps=20,
        sampler=sampler, max_depth=4,
    )
    for sampler in ("nuts", "mclmc")
}  # fmt: skip
SMALL_X, SMALL_Y = X[:, :3], 5.0 + 2.0 * Y


def small(key=KEY):
    return sx.Model(MLP(3, "scalar", 4, 1, key=key), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)


pytestmark = pytest.mark.filterwarnings("ignore::scalemix.diagnostics.ConvergenceWarning")


def short(sampler="mclmc", **arguments):
    return sx.fit(small(), SMALL_X, SMALL_Y, SHORT[sampler], **({"key": KEY} | arguments))


def same(one, other):
    leaves = zip(
        jax.tree.leaves((one.networks, one.history)),
        jax.tree.leaves((other.networks, other.history)),
        strict=True,
    )
    return all(np.array_equal(a, b, equal_nan=True) for a, b in leaves)


@pytest.mark.parametrize("sampler", ["nuts", "mclmc"])
def test_an_interrupted_run_resumes_to_the_same_samples(sampler, tmp_path, monkeypatch):
    whole, path = short(sampler), tmp_path / "run.ckpt"
    original, calls = chains._run_chunk, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(chains, "_run_chunk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        short(sampler, checkpoint=path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"exists\. Pass resume=True"):
        short(sampler, checkpoint=path)
    assert same(whole, short(sampler, checkpoint=path, resume=True))
    with pytest.raises(ValueError, match=r"another run: not the same key\."):
        short(sampler, key=jax.random.key(1), checkpoint=path, resume=True)


def test_chains_are_saved_and_loaded(tmp_path):
    posterior = short()
    posterior.save(tmp_path / "chains.scalemix")
    loaded = sx.load(tmp_path / "chains.scalemix")
    assert same(posterior, loaded)
    np.testing.assert_array_equal(posterior.predict(SMALL_X).mean, loaded.predict(SMALL_X).mean)
    assert str(posterior.diagnostics()) == str(loaded.diagnostics())


@pytest.mark.parametrize("training", [sx.NoiseTraining, sx.VariationalEM])
def test_chains_start_where_different_fits_ended(training):
    prior = sx.ARD(sx.InverseGamma(3.0, 3.0))
    model = sx.Model(MLP(3, "scalar", 4, 1, key=KEY), prior, GAUSSIAN)
    method = dataclasses.replace(SHORT["mclmc"], warm_start=training(steps=400))
    prepared = [sx.preparation.prepare(model, SMALL_X, SMALL_Y, None, True)[0]]
    starts = sx.fitting._trained_starts([model], method, prepared, KEY[None], False)
    first, second = np.asarray(starts.weights["layers.0"])[0]
    assert not np.allclose(first, second)
    # Each of the fits explains the data; the network as it came does not.
    for c in range(2):
        arrays, static = eqx.partition(starts, eqx.is_array)
        fitted = eqx.combine(jax.tree.map(lambda leaf, c=c: leaf[0, c], arrays), static)
        error, before = (
            np.mean((jax.vmap(m.network)(prepared[0].x) - prepared[0].y) ** 2)
            for m in (fitted, model)
        )
        assert error < 0.5 * before
    posterior = sx.fit(model, SMALL_X, SMALL_Y, method, key=KEY)
    # A chain's first step is near its fit.
    cold = dataclasses.replace(SHORT["mclmc"], warm_start=False)
    begun = sx.fit(model, SMALL_X, SMALL_Y, cold, key=KEY)
    assert posterior.history.objective[:, 0].min() > begun.history.objective[:, 0].max()


def test_the_key_decides():
    assert same(short(), short())
    assert not same(short(), short(key=jax.random.key(1)))
    chain, other = short().networks.positions
    assert not np.allclose(chain, other)


def test_many_fits_equal_fits_in_turn():
    keys = jax.random.split(KEY, 2)
    models, xs, ys = [small(k) for k in keys], [SMALL_X, SMALL_X[:19]], [SMALL_Y, -SMALL_Y[:19]]
    # Short, for chains are chaotic: rounding grows with every step.
    method = sx.MCMC(num_chains=2, num_warmup=5, num_samples=5, warm_start_steps=5, sampler="mclmc")
    together = sx.fit_many(models, xs, ys, method, keys=keys)
    # The shorter one, which is padded when they run together.
    alone = sx.fit(models[1], xs[1], ys[1], method, key=keys[1])
    np.testing.assert_allclose(
        together[1].networks.positions, alone.networks.positions, rtol=1e-3, atol=1e-3
    )
    assert not np.allclose(*(one.networks.positions for one in together), atol=1e-2)


def test_a_bar_goes_through_warm_up_and_sampling(capsys):
    short(progress=True)
    assert "35/35" in capsys.readouterr().err


# ------------------------------------------------------------------------ samples and predictions


def test_any_beginning_of_the_order_is_spread_out():
    for num in (1, 2, 7, 64, 1000):
        order = spread_order(num)
        np.testing.assert_array_equal(np.sort(order), np.arange(num))
        for beginning in range(1, num + 1, 13):
            # No gap between chosen places is more than twice what it would be if they were even.
            chosen = np.concatenate([[-1], np.sort(order[:beginning]), [num]])
            assert np.diff(chosen).max() <= 4 * num / beginning + 1


def test_predictions_are_those_of_the_samples():
    posterior = short()
    networks, scaling = posterior.networks, posterior.scaling
    x = scaling.inputs(SMALL_X)
    outputs, scales = [], []
    for chain in range(2):
        for i in range(7):
            model = networks.sample(chain, i).model
            outputs.append(jax.vmap(model.network)(x))
            scales.append(model.likelihood.scale(outputs[-1][0]))
    outputs = np.array(outputs, float) * scaling.y_scale + scaling.y_mean
    predicted = posterior.predict(SMALL_X)
    assert predicted.num_draws == 14
    np.testing.assert_allclose(predicted.mean, outputs.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(predicted.epistemic, outputs.std(axis=0), rtol=1e-3, atol=1e-5)
    aleatoric = np.sqrt(np.mean(np.square(scales))) * scaling.y_scale
    np.testing.assert_allclose(predicted.aleatoric, aleatoric, rtol=1e-4)


def test_many_samples_of_a_large_network_predict_in_bounded_memory():
    """8 chains by 1,000 samples of 10,000 weights: a block of rows needs no more than 200 MB."""
    model = sx.Model(MLP(10, "scalar", 95, 2, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    unknowns = sx.MCMC().unknowns(model)
    learned, scales = unknowns.form()
    num = sum(leaf.size for leaf in jax.tree.leaves((learned, scales)))
    assert num > 10_000
    bits, probes = jnp.zeros((8, 1000, 0), bool), jnp.zeros((1, 10))
    rows = min(predictive.OUTPUTS_AT_A_TIME // 8000, predictive.ROWS_AT_A_TIME)

    def block(positions, x):
        networks = SampledNetworks(model, unknowns, positions, bits, probes)
        return predictive._outputs(networks, 1, 8000, KEY, x)[1]

    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((8, 1000, num), (rows, 10))]
    analysis = jax.jit(block).lower(*shapes).compile().memory_analysis()
    assert analysis.argument_size_in_bytes < 4.1 * 8000 * num
    assert analysis.temp_size_in_bytes + analysis.output_size_in_bytes < 200e6


def test_diagnostics_and_arviz():
    posterior = short("nuts")
    found = posterior.diagnostics(SMALL_X[:5])
    assert found.function.rhat.shape == (5,)
    assert found.weights.keys() == {"layers.0", "layers.1"}
    assert found.scales["layers.1"]["unit"].ess_tail.shape == (4,)
    assert "function: R-hat at most" in str(found)
    inference = posterior.to_arviz()
    assert inference.posterior["layers.0"].shape == (2, 7, 4, 3)
    assert {"layers.0.unit", "likelihood.raw_scale"} <= set(inference.posterior)
    # Every second step was kept: the last of each pair.
    last = posterior.networks.sample(1, 6).model
    # The same product, compiled or not: up to its last digit.
    np.testing.assert_allclose(
        inference.posterior["layers.0"][1, 6], last.weights["layers.0"], rtol=1e-6
    )
    energy = posterior.history.recorded["energy"]
    np.testing.assert_array_equal(inference.sample_stats["energy"], energy[:, 1::2])


def test_divergences_are_counted():
    # Horseshoe weights given their scales, each with its own: a funnel that leaps cannot follow.
    linear = eqx.nn.Linear(6, "scalar", key=KEY)
    model = sx.Model(linear, sx.DropConnect(sx.HalfCauchy(1.0)), GAUSSIAN)
    method = sx.MCMC(
        num_chains=2, num_warmup=60, num_samples=100, parametrization="hierarchical", max_depth=5,
        target_acceptance=0.4, warm_start_steps=20,
    )  # fmt: skip
    posterior = sx.fit(model, X[:8], Y[:8], method, key=KEY)
    divergences = posterior.diagnostics().divergences
    assert divergences.sum() > 0
    assert divergences.max() <= 100


def test_chains_that_disagree_say_what_to_do():
    method = sx.MCMC(num_chains=2, num_warmup=3, num_samples=12, warm_start=False, sampler="mclmc")
    with pytest.warns(ConvergenceWarning, match=r"R-hat of .* should be below 1\.05.*num_warmup"):
        sx.fit(small(), SMALL_X, SMALL_Y, method, key=KEY)


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"num_chains": 0}, "num_chains must be a positive whole number, got 0"),
        ({"num_samples": 2.5}, "num_samples must be a positive whole number"),
        ({"thin": None}, "thin must be a positive whole number"),
        ({"sampler": "hmc"}, r"sampler must be one of \('nuts', 'mclmc'\), got 'hmc'"),
        ({"parametrization": "centred"}, "parametrization must be one of"),
        ({"energy_tolerance": -1.0}, "energy_tolerance must be a positive number"),
        ({"target_acceptance": 1.0}, r"target_acceptance must lie in \(0, 1\)"),
        ({"warm_start": "em"}, "warm_start must be True, False or a method of training"),
        ({"warm_start": sx.NoiseTraining(num_members=2)}, "one network for each chain"),
    ],
)
def test_bad_settings_are_refused(settings, reason):
    with pytest.raises(ValueError, match=reason):
        sx.MCMC(**settings)


@pytest.mark.parametrize(
    ("prior", "form", "reason"),
    [
        (sx.ARD(sx.LogUniform()), "expanded", "'layers.0': LogUniform is improper"),
        (sx.ARD(sx.Rayleigh(1.0), scale=np.inf), "expanded", "flat .* no posterior to sample"),
        (sx.ARD(sx.Bernoulli(0.5)), "hierarchical", "Use parametrization='expanded'"),
    ],
)
def test_priors_that_cannot_be_sampled_are_refused(prior, form, reason):
    model = sx.Model(MLP(3, "scalar", 4, 1, key=KEY), prior, GAUSSIAN)
    with pytest.raises(ValueError, match=reason):
        sx.fit(model, SMALL_X, SMALL_Y, sx.MCMC(parametrization=form), key=KEY)


def test_other_posteriors_have_no_chains():
    posterior = sx.fit(small(), SMALL_X, SMALL_Y, sx.NoiseTraining(steps=2), key=KEY)
    for ask in (posterior.diagnostics, posterior.to_arviz, posterior.inclusion_probabilities):
        with pytest.raises(ValueError, match="Only a posterior that MCMC sampled"):
            ask()
    with pytest.raises(ValueError, match="Bernoulli mixtures"):
        short().inclusion_probabilities()


def test_a_missing_package_names_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "scalemix\[mcmc\]"'):
        sx.MCMC()


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = "import sys, scalemix; print(sorted({'blackjax', 'arviz', 'numpyro'} & {*sys.modules}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
