"""How chains run: starts, resuming, storage, diagnostics, bad input."""

import dataclasses
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.preparation import prepare
from scalemix.inference.chains import loop
from scalemix.inference.chains.density import log_density
from scalemix.inference.driver import Control
from scalemix.inference.groups import Groups
from scalemix.inference.method import Problem
from scalemix.networks import MLP
from scalemix.posterior import streaming
from scalemix.posterior.diagnostics import ConvergenceWarning
from scalemix.posterior.draws import Draws
from scalemix.posterior.networks import SampledNetworks, spread_order

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
GAUSSIAN = sx.likelihoods.Gaussian()
pytestmark = pytest.mark.filterwarnings("ignore::scalemix.posterior.diagnostics.ConvergenceWarning")
X = RNG.normal(size=(25, 6)).astype(np.float32)
Y = (X @ np.array([1.0, 0.0, -0.7, 0.2, 0.6, 0.0]) + 0.5 * RNG.normal(size=25)).astype(np.float32)
NEW = RNG.normal(size=(4, 6)).astype(np.float32)
SHORT = {
    sampler: sx.MCMC(
        num_chains=2, num_warmup=21, num_samples=7, thin=2, chunk_steps=5, warm_start_steps=20,
        sampler=sampler, max_depth=4,
    )
    for sampler in ("nuts", "mclmc")
}  # fmt: skip
SMALL_X, SMALL_Y = X[:, :3], 5.0 + 2.0 * Y


def small():
    """A model that both kinds of training fit, so that all tests share their programs."""
    return sx.Model(MLP(3, "scalar", 4, 1, key=KEY), sx.ARD(sx.InverseGamma(3.0, 3.0)), GAUSSIAN)


def short(sampler="mclmc", **arguments):
    return sx.fit(small(), SMALL_X, SMALL_Y, SHORT[sampler], **({"key": KEY} | arguments))


def same(one, other):
    leaves = zip(
        jax.tree.leaves((one.networks, one.history)),
        jax.tree.leaves((other.networks, other.history)),
        strict=True,
    )
    return all(np.array_equal(a, b, equal_nan=True) for a, b in leaves)


def test_a_run_interrupted_within_a_chunk_resumes_to_the_same_samples(tmp_path, monkeypatch):
    whole, path = short(), tmp_path / "run.ckpt"
    original, calls = Groups.run, []

    def interrupted(self, program, arguments):
        calls.append(program)
        if calls.count(loop._run_chunk) == 7:
            raise KeyboardInterrupt
        return original(self, program, arguments)

    monkeypatch.setattr(Groups, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        short(checkpoint=path)
    monkeypatch.undo()
    assert same(whole, short(checkpoint=path, resume=True))


def test_chains_are_saved_and_loaded(tmp_path):
    posterior = short()
    posterior.save(tmp_path / "chains.scalemix")
    loaded = sx.load(tmp_path / "chains.scalemix")
    assert same(posterior, loaded)
    np.testing.assert_array_equal(posterior.predict(SMALL_X).mean, loaded.predict(SMALL_X).mean)
    assert str(posterior.diagnostics()) == str(loaded.diagnostics())


@eqx.filter_jit
def run(network, x):
    """As one program, where each operation would be one of its own."""
    return jax.vmap(network)(x)


@pytest.mark.parametrize(
    "training", [pytest.param(sx.NoiseTraining, marks=pytest.mark.slow), sx.VariationalEM]
)
def test_chains_start_where_different_fits_ended(training):
    model = small()
    method = dataclasses.replace(SHORT["mclmc"], warm_start=training(steps=400))
    prepared = [sx.data.preparation.prepare(model, SMALL_X, SMALL_Y, None, True)[0]]
    problem = Problem(model, method, prepared[0], KEY, KEY)
    starts = method.starts_from_training([problem], Control())()
    first, second = np.asarray(starts.weights["layers.0"])[0]
    assert not np.allclose(first, second)
    # Each of the fits explains the data; the network as it came does not.
    for c in range(2):
        arrays, static = eqx.partition(starts, eqx.is_array)
        fitted = eqx.combine(jax.tree.map(lambda leaf, c=c: leaf[0, c], arrays), static)
        error, before = (
            np.mean((run(m.network, prepared[0].x) - prepared[0].y) ** 2) for m in (fitted, model)
        )
        assert error < 0.5 * before
    posterior = sx.fit(model, SMALL_X, SMALL_Y, method, key=KEY)
    # A chain's first step is near its fit.
    cold = dataclasses.replace(SHORT["mclmc"], warm_start=False)
    before = loop._run_chunk._cached._cache_size()
    begun = sx.fit(model, SMALL_X, SMALL_Y, cold, key=KEY)
    assert posterior.history.objective[:, 0].min() > begun.history.objective[:, 0].max()
    # Where chains start makes no other program of their steps.
    assert loop._run_chunk._cached._cache_size() == before


def test_chains_differ():
    chain, other = short().networks.positions
    assert not np.allclose(chain, other)


def test_a_bar_goes_through_warm_up_and_sampling(capsys):
    short(progress=True)
    assert "35/35" in capsys.readouterr().err


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
    rows = min(streaming.OUTPUTS_AT_A_TIME // 8000, streaming.ROWS_AT_A_TIME)

    def block(positions, x):
        networks = SampledNetworks(model, unknowns, positions, bits, probes)
        return streaming.draw_outputs(Draws(networks, np.arange(8000), KEY), 1, x)[1]

    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((8, 1000, num), (rows, 10))]
    analysis = jax.jit(block).lower(*shapes).compile().memory_analysis()
    assert analysis.argument_size_in_bytes < 4.1 * 8000 * num
    assert analysis.temp_size_in_bytes + analysis.output_size_in_bytes < 200e6


def test_diagnostics_and_arviz():
    posterior = short("nuts")
    diagnostics = posterior.diagnostics(SMALL_X[:5])
    assert diagnostics.function.rhat.shape == (5,)
    assert diagnostics.weights.keys() == {"layers.0", "layers.1"}
    assert diagnostics.scales["layers.1"]["unit"].ess_tail.shape == (4,)
    assert "function: R-hat at most" in str(diagnostics)
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
    with pytest.warns(ConvergenceWarning, match="diverged") as said:
        posterior = sx.fit(model, X[:8], Y[:8], method, key=KEY)
    divergences = posterior.diagnostics().divergences
    assert divergences.sum() > 0
    assert divergences.max() <= 100
    (told,) = [str(w.message) for w in said if "diverged" in str(w.message)]
    assert told.startswith(f"{divergences.sum()} of 200 transitions after the warm-up")
    assert f"by chain: {divergences[0]}, {divergences[1]}" in told
    assert "target_acceptance" in told


def test_log_densities_are_those_of_the_samples():
    posterior = short("nuts")
    data, _ = prepare(small(), SMALL_X, SMALL_Y, None, True)
    networks, unknowns = posterior.networks, SHORT["nuts"].unknowns(small())
    bits = jnp.zeros(0, bool)
    density = jax.jit(jax.vmap(jax.vmap(lambda p: log_density(unknowns, data, p, bits))))
    expected = density(networks.positions)
    assert np.abs(expected).min() > 1
    np.testing.assert_allclose(posterior.to_arviz().sample_stats["lp"], expected, rtol=1e-4)


def test_chains_that_disagree_say_what_to_do():
    method = dataclasses.replace(SHORT["mclmc"], warm_start=False)
    with pytest.warns(ConvergenceWarning, match=r"R-hat of .* should be below 1\.05.*num_warmup"):
        sx.fit(small(), SMALL_X, SMALL_Y, method, key=KEY)


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
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert printed.stdout.strip() == "[]"
