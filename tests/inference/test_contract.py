"""Every engine passes these unasked."""

import dataclasses
import functools
import inspect
import re
import warnings
from typing import get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix import inference
from scalemix._random import noise_key
from scalemix.data.batches import batch_rows, visits
from scalemix.data.preparation import prepare
from scalemix.inference.chains.mcmc import SamplerName
from scalemix.inference.method import Method
from scalemix.inference.training.objectives import OBJECTIVES
from scalemix.networks import MLP
from tests.fitting.common import reporting
from tests.inference.cases import CASES

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
Y = 3.0 + RNG.normal(size=12)
FROZEN = "layers.0.bias"
every_engine = pytest.mark.parametrize("name", CASES)
TRAINED = [name for name, case in CASES.items() if isinstance(case.method, inference.Training)]
# Fits this short are of no use, and say so; that they do is asserted once.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def model(prior, key=KEY):
    network = MLP(2, "scalar", 3, 1, key=key)
    return sx.Model(network, prior, sx.likelihoods.Gaussian(), frozen=[FROZEN])


def refit(name, y=Y, key=KEY, x=X, **options):
    case = CASES[name]
    return sx.fit(model(case.prior), x, y, case.method, key=key, **options)


@functools.cache
def fitted(name):
    """The fit that most facts are about, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = refit(name)
    return posterior, caught


def leaves(posterior):
    return jax.tree.leaves((posterior.networks, posterior.history))


def same(one, other):
    pairs = zip(leaves(one), leaves(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in pairs)


def test_every_engine_has_a_row():
    methods = {
        value
        for value in vars(inference).values()
        if inspect.isclass(value) and issubclass(value, Method) and not inspect.isabstract(value)
    }
    rows = [case.method for case in CASES.values()]
    assert methods == {type(method) for method in rows}
    assert {method.__name__ for method in methods} <= set(sx.__all__)
    # Objectives whose draws are shared alike are one kind.
    kinds = {(m.deterministic, m.sharing) for m in rows if isinstance(m, sx.NoiseTraining)}
    every = [sx.NoiseTraining(objective, num_draws=25) for objective in OBJECTIVES]
    assert kinds == {(m.deterministic, m.sharing) for m in every}
    samplers = {m.sampler for m in rows if isinstance(m, sx.MCMC)}
    assert samplers == set(get_args(SamplerName))


@every_engine
def test_the_key_decides(name):
    posterior, _ = fitted(name)
    assert same(posterior, refit(name))
    assert not same(posterior, refit(name, key=jax.random.key(1)))


# Chains of both samplers are one loop, and NUTS takes long to compile.
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n == "nuts" else []) for n in CASES]
)
def test_many_fits_equal_fits_in_turn(name):
    """Of several models and data sets, which differ in length too."""
    keys, (method, *_, prior) = jax.random.split(KEY, 2), CASES[name]
    models, xs, ys = [model(prior, key) for key in keys], [X, X[:9]], [Y, -Y[:9]]
    many = sx.fit_many(models, xs, ys, method, keys=keys)
    for one, start, x, y, key in zip(many, models, xs, ys, keys, strict=True):
        alone = sx.fit(start, x, y, method, key=key)
        for a, b in zip(leaves(one), leaves(alone), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    assert not same(*many)


@every_engine
def test_an_interrupted_run_resumes_to_the_same_result(name, tmp_path, monkeypatch):
    path, steps = tmp_path / "run.ckpt", []

    def interrupt(progress):
        steps.append(progress.step)
        assert progress.num_steps == CASES[name].num_steps
        if len(steps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(sx.fitting.front_door, "watch", lambda *_: reporting(interrupt))
    with pytest.raises(KeyboardInterrupt) as stopped:
        refit(name, checkpoint=path)
    (note,) = stopped.value.__notes__
    assert f"{path} after {steps[1]} of {CASES[name].num_steps} steps" in note
    assert "resume=True" in note
    with pytest.raises(ValueError, match=r"exists\. Pass resume=True"):
        refit(name, checkpoint=path)
    with pytest.raises(ValueError, match=r"another run: not the same key\."):
        refit(name, key=jax.random.key(1), checkpoint=path, resume=True)
    resumed = refit(name, checkpoint=path, resume=True)
    # No step was taken twice.
    assert steps == sorted(set(steps))
    assert steps[-1] == CASES[name].num_steps
    assert same(fitted(name)[0], resumed)
    # A finished run is not run again.
    num_reports = len(steps)
    assert same(resumed, refit(name, checkpoint=path, resume=True))
    assert len(steps) == num_reports


@pytest.mark.parametrize("name", TRAINED)
def test_a_loop_of_ones_own_takes_the_steps_of_fit(name):
    method, start = CASES[name].method, model(CASES[name].prior)
    data, _ = prepare(start, X, Y, None, True)
    order_key, step_key = jax.random.split(jax.random.split(KEY, 3)[0])
    num_steps, size = method.steps, method.batch_size
    orders = visits(noise_key(order_key), jnp.int32(12), jnp.int32(0), 64, 4)
    rows = batch_rows(orders, jnp.int32(0), jnp.int32(12), num_steps, size)
    optimizer = method.optimizer_for(start, num_steps)
    state, objective = method.init(start, optimizer), []

    @jax.jit
    def step(state, batch, number, key):
        state = method.update_scales(state, start)
        temperature = method.temperature_at(number, num_steps)
        value, slope = jax.value_and_grad(method.loss)(
            state.learned, state, start, batch, 12, key=key, temperature=temperature
        )
        with jax.numpy_dtype_promotion("standard"):
            updates, inner = optimizer.update(slope, state.optimizer, state.learned)
        learned = optax.apply_updates(state.learned, updates)
        return state._replace(learned=learned, optimizer=inner), value

    for i in range(num_steps):
        key = jax.random.fold_in(noise_key(step_key), i)
        state, value = step(state, (data.x[rows[i]], data.y[rows[i]]), i, key)
        objective.append(-value)

    posterior, (fit, _) = method.posterior(state, start, key=KEY, objective=objective), fitted(name)
    ours, theirs = (
        jax.tree.leaves((post.networks, post.history.objective)) for post in (posterior, fit)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert repr(posterior) == repr(fit)
    # Data came standardised, and predictions go back: that is all that sets the two apart.
    scaled = fit.predict(X, key=KEY)
    mean = fit.scaling.y_mean + fit.scaling.y_scale * posterior.predict(data.x, key=KEY).mean
    np.testing.assert_allclose(mean, scaled.mean, rtol=1e-4)


@pytest.mark.parametrize("name", TRAINED)
def test_a_state_of_ones_own_is_checked_first(name):
    case = CASES[name]
    with pytest.raises(ValueError, match=case.reason):
        case.method.init(model(case.refused))


@pytest.mark.parametrize("name", TRAINED)
def test_what_the_prior_says_is_tempered_and_divided_once(name):
    method, start = CASES[name].method, model(CASES[name].prior)
    state = method.update_scales(method.init(start), start)
    batch = jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32)

    @jax.jit
    def loss(num_data, temperature):
        return method.loss(
            state.learned, state, start, batch, num_data, key=KEY, temperature=temperature
        )

    without = loss(10.0, 0.0)
    assert abs(loss(10.0, 1.0) - without) > 1e-3
    np.testing.assert_allclose(
        loss(10.0, 0.5) - without, (loss(10.0, 1.0) - without) / 2, rtol=1e-3, atol=1e-5
    )
    np.testing.assert_allclose(loss(20.0, 1.0), loss(10.0, 0.5), rtol=1e-5)


@every_engine
def test_the_outcome_draws_networks(name):
    networks = fitted(name)[0].networks
    assert networks.default_draws >= 1
    outputs = run_drawn(networks, jnp.ones(2))[1]
    assert outputs.shape == (3,)
    assert np.isfinite(outputs).all()
    # As many networks as there are draws, but where there is only one to draw.
    assert len(np.unique(outputs)) == min(3, networks.default_draws)


@eqx.filter_jit
def run_drawn(networks, x):
    """The biases of the first layer, and the outputs, of three draws."""

    def one(index, key):
        network = networks(index, key).network
        return network.layers[0].bias, network(x)

    return jax.vmap(one)(jnp.arange(3), jax.random.split(KEY, 3))


@every_engine
def test_the_outcome_has_moments(name):
    posterior, _ = fitted(name)
    shapes = {site: weight.shape for site, weight in posterior.model.weights.items()}
    for part in posterior.networks.parts:
        moments = part.weight_moments()
        assert moments.keys() == shapes.keys()
        for site, of_site in moments.items():
            for values in of_site:
                assert values.shape == shapes[site]
                assert np.isfinite(values).all()
            assert (of_site.variance >= 0).all()
            assert (of_site.prior_variance >= 0).all()


@every_engine
def test_the_outcome_survives_a_file(name, tmp_path):
    posterior, _ = fitted(name)
    posterior.save(tmp_path / "post.scalemix")
    loaded = sx.load(tmp_path / "post.scalemix")
    assert same(posterior, loaded)
    assert type(loaded.networks) is type(posterior.networks)
    predictions = (one.predict(X).mean for one in (posterior, loaded))
    np.testing.assert_array_equal(*predictions)
    assert repr(loaded) == repr(posterior)


@every_engine
def test_the_outcome_describes_itself(name):
    text = repr(fitted(name)[0])
    assert f"after {CASES[name].num_steps} steps" in text
    assert "\n" not in text
    assert len(text) < 120


@every_engine
def test_frozen_arrays_stay_as_they_are(name):
    posterior, _ = fitted(name)
    given = model(CASES[name].prior).network
    learned = posterior.model.network
    assert not np.array_equal(learned.layers[0].weight, given.layers[0].weight)
    biases = run_drawn(posterior.networks, jnp.ones(2))[0]
    for bias in (learned.layers[0].bias, *biases):
        np.testing.assert_array_equal(bias, given.layers[0].bias)


@every_engine
def test_rows_of_weight_zero_change_nothing(name):
    # Every other row would spoil everything.
    x = np.stack([X, X[::-1] + 50.0], axis=1).reshape(24, 2)
    y = np.stack([Y, Y[::-1] - 99.0], axis=1).reshape(24)
    with_them = refit(name, y, x=x, sample_weight=np.tile([1.0, 0.0], 12))
    assert same(fitted(name)[0], with_them)


@every_engine
def test_priors_that_it_cannot_use_are_refused(name):
    case = CASES[name]
    with pytest.raises(ValueError, match=case.reason) as error:
        case.method.check_model(model(case.refused))
    assert "'layers.0'" in str(error.value)
    case.method.check_model(model(case.prior))


@every_engine
def test_it_warns_of_a_fit_that_is_of_no_use(name):
    caught = [w for w in fitted(name)[1] if w.category is CASES[name].warning]
    assert caught
    # The warning points at the line that asked for the fit.
    assert {w.filename for w in caught} == {__file__}
    posterior, _ = fitted(name)
    assert posterior.history.objective.shape[-1] == CASES[name].num_steps


def test_methods_of_two_kinds_do_not_run_together():
    methods = [CASES["em"].method, CASES["mclmc"].method]
    with pytest.raises(ValueError, match="method 1 is MCMC, and method 0 is VariationalEM"):
        sx.fit_many(
            model(CASES["em"].prior), [X, X], [Y, Y], methods, keys=jax.random.split(KEY, 2)
        )
    chains = [CASES["mclmc"].method, CASES["nuts"].method]
    with pytest.raises(ValueError, match="same settings: method 1 differs from method 0"):
        sx.fit_many(model(CASES["em"].prior), [X, X], [Y, Y], chains, keys=jax.random.split(KEY, 2))


@pytest.mark.parametrize(
    "kind",
    [
        c
        for c in vars(inference).values()
        if inspect.isclass(c) and issubclass(c, inference.Training) and c is not inference.Training
    ],
)
def test_settings_of_all_training_are_explained_in_one_way(kind):
    def explained(documented, name):
        entry = re.search(rf"^{name} : .*(?:\n    .*)+", inspect.getdoc(documented), re.MULTILINE)
        assert entry is not None, name
        return entry[0]

    for field in dataclasses.fields(inference.Training):
        assert explained(kind, field.name) == explained(inference.Training, field.name)
