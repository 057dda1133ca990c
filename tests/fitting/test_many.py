"""Many fits as one program, ensembles among them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.batches import stack
from scalemix.inference.training import jobs
from scalemix.inference.training.jobs import ensemble_jobs
from scalemix.inference.training.weights import OF_DRAWS
from scalemix.networks import MLP
from tests.fitting.common import KEY, METHOD, RNG, X, Y, build, close


def test_many_fits_of_unequal_length_by_all_rows_equal_fits_in_turn():
    """Noise would differ with the padding. The objective without noise does not."""
    keys = jax.random.split(KEY, 2)
    xs, ys = [X, X[:41]], [Y, Y[:41]]
    model = build(mixture=sx.InverseGamma(3.0, 3.0))
    method = sx.NoiseTraining("hierarchical", steps=20, batch_size=None)
    together = sx.fit_many(model, xs, ys, method, keys=keys)
    for one, x, y, key in zip(together, xs, ys, keys, strict=True):
        close(one, sx.fit(model, x, y, method, key=key))


@pytest.mark.parametrize("generator", ["rbg", "unsafe_rbg"])
def test_many_fits_are_fits_in_turn_with_keys_of_another_generator(generator):
    """Several of these keys at once draw by the first of them, unless they are taken one by one."""
    keys = jax.random.split(jax.random.key(0, impl=generator), 2)
    together = sx.fit_many([build()] * 2, [X] * 2, [Y] * 2, METHOD, keys=keys)
    for key, one in zip(keys, together, strict=True):
        close(one, sx.fit(build(), X, Y, METHOD, key=key))


def test_many_fits_stop_as_they_would_alone():
    method = sx.NoiseTraining(
        steps=2000, chunk_steps=10, num_draws=2, validation_fraction=0.3, patience=2,
        learning_rate=0.05,
    )  # fmt: skip
    keys = jax.random.split(KEY, 3)
    ys = [Y, RNG.normal(size=60), -Y]
    together = sx.fit_many(build(), [X] * 3, ys, method, keys=keys)
    alone = [sx.fit(build(), X, y, method, key=key) for y, key in zip(ys, keys, strict=True)]
    assert len({len(one.history.score) for one in alone}) > 1
    for one, other in zip(together, alone, strict=True):
        num = len(other.history.score)
        np.testing.assert_allclose(one.history.score[:num], other.history.score, rtol=1e-2)
        close(one, other, rtol=1e-2)


def test_a_batch_between_the_lengths_is_refused():
    with pytest.raises(ValueError, match=r"more than the 20 rows of data set 1"):
        sx.fit_many(build(), [X, X[:20]], [Y, Y[:20]], METHOD, keys=jax.random.split(KEY, 2))


def test_many_fits_over_settings():
    models = [build(mixture=sx.HalfCauchy(s)) for s in (0.01, 1.0)]
    fits = sx.fit_many(models, [X, X], [Y, Y], METHOD, keys=jnp.stack([KEY, KEY]))
    for one, model in zip(fits, models, strict=True):
        close(one, sx.fit(model, X, Y, METHOD, key=KEY))


def test_models_of_different_kinds_are_refused():
    other = sx.Model(
        MLP(3, "scalar", 9, 1, key=KEY), sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Gaussian()
    )
    with pytest.raises(ValueError, match="of one kind: model 1 differs"):
        sx.fit_many([build(), other], [X, X], [Y, Y], METHOD, keys=jax.random.split(KEY, 2))
    with pytest.raises(ValueError, match="one entry of xs, ys, keys"):
        sx.fit_many(build(), [X, X], [Y], METHOD, keys=jax.random.split(KEY, 2))


def test_members_start_from_the_same_values_in_another_order():
    started = ensemble_jobs(build(), sx.NoiseTraining(), 0, KEY, 3)
    starts = [job.model.weights["layers.0"] for job in started]
    np.testing.assert_array_equal(starts[0], build().weights["layers.0"])
    for other in starts[1:]:
        np.testing.assert_array_equal(jnp.sort(other.ravel()), jnp.sort(starts[0].ravel()))
        assert not np.array_equal(other, starts[0])
    assert not np.array_equal(starts[1], starts[2])


def test_an_ensemble_mixes_its_members():
    """Each with the noise level that it learned."""
    model = build(mixture=sx.InverseGamma(3.0, 3.0))
    method = sx.NoiseTraining("hierarchical", steps=50, num_members=3)
    posterior = sx.fit(model, X, Y, method, key=KEY)
    members = [member.predict(X) for member in posterior.members]
    pred = posterior.predict(X)
    assert pred.num_draws == 3
    means = np.stack([member.mean for member in members])
    np.testing.assert_allclose(pred.mean, means.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(pred.epistemic, means.std(axis=0), rtol=1e-3)
    densities = np.stack([member.log_prob(Y) for member in members])
    np.testing.assert_allclose(
        pred.log_prob(Y), np.logaddexp.reduce(densities, axis=0) - np.log(3), rtol=1e-4
    )
    noise = [float(member.model.likelihood.raw_scale) for member in posterior.members]
    assert len(set(noise)) == 3
    assert posterior.history.objective.shape == (3, 50)
    assert "3 x OneNetwork" in repr(posterior)


def test_ensembles_of_several_sets_are_the_ensembles_of_each():
    method = sx.VariationalEM(steps=40, num_members=2)
    model = build(mixture=sx.HalfCauchy(1.0))
    keys = jax.random.split(KEY, 2)
    together = sx.fit_many(model, [X, X], [Y, -Y], method, keys=keys)
    for posterior, y, key in zip(together, (Y, -Y), keys, strict=True):
        alone = sx.fit(model, X, y, method, key=key)
        for one, other in zip(posterior.members, alone.members, strict=True):
            close(one, other, rtol=1e-3)


def test_temperatures_run_side_by_side():
    model = build(mixture=sx.HalfCauchy(1.0))
    methods = [sx.VariationalEM(steps=40, temperature=t) for t in (0.0, 1.0)]
    keys = jnp.stack([KEY, KEY])
    together = sx.fit_many(model, [X, X], [Y, Y], methods, keys=keys)
    for posterior, method in zip(together, methods, strict=True):
        close(posterior, sx.fit(model, X, Y, method, key=KEY), rtol=1e-3)
    assert not np.allclose(
        together[0].model.weights["layers.0"], together[1].model.weights["layers.0"]
    )


def test_methods_that_differ_in_more_are_refused():
    methods = [sx.VariationalEM(steps=40), sx.VariationalEM(steps=40, num_draws=3)]
    model = build(mixture=sx.HalfCauchy(1.0))
    with pytest.raises(ValueError, match="method 1 differs from method 0 in more"):
        sx.fit_many(model, [X, X], [Y, Y], methods, keys=jax.random.split(KEY, 2))
    with pytest.raises(ValueError, match="num_members"):
        sx.VariationalEM(num_members=0)


def test_objectives_run_side_by_side():
    # As many as there must be for a tail that can be smoothed.
    shared = {"num_draws": 21, "steps": 40, "record_weights": True, "noise_sharing": "example"}
    methods = [sx.NoiseTraining(n, **shared) for n in OF_DRAWS]
    keys, num = jnp.stack([KEY] * len(methods)), len(methods)
    together = sx.fit_many(build(), [X] * num, [Y] * num, methods, keys=keys)
    for posterior, method in zip(together, methods, strict=True):
        alone = sx.fit(build(), X, Y, method, key=KEY)
        close(posterior, alone, rtol=1e-3)
        np.testing.assert_allclose(
            posterior.history.recorded["importance_weights"],
            alone.history.recorded["importance_weights"],
            atol=1e-3,
        )
    assert not np.allclose(
        together[0].model.weights["layers.0"], together[1].model.weights["layers.0"]
    )
    odd = [methods[0], sx.NoiseTraining("hierarchical", **shared)]
    model = build(mixture=sx.InverseGamma(3.0, 3.0))
    with pytest.raises(ValueError, match="method 1 differs from method 0 in more"):
        sx.fit_many(model, [X, X], [Y, Y], odd, keys=keys[:2])


def test_objectives_that_share_draws_otherwise_are_refused():
    methods = [sx.NoiseTraining(n, steps=40) for n in ("lower_bound", "importance_weighted")]
    with pytest.raises(ValueError, match="Method 0, lower_bound, has draws for each example; "):
        sx.fit_many(build(), [X, X], [Y, Y], methods, keys=jax.random.split(KEY, 2))


def test_fits_to_the_same_arrays_share_them(monkeypatch):
    """One copy goes to the device, unless each fit holds out rows of its own."""
    stacked = []

    def note(sets, **settings):
        stacked.append(len(sets))
        return stack(sets, **settings)

    monkeypatch.setattr(jobs, "stack", note)
    keys = jax.random.split(KEY, 2)
    sx.fit_many(build(), [X, X], [Y, Y], METHOD, keys=keys)
    sx.fit_many(build(), [X, X.copy()], [Y, Y], METHOD, keys=keys)
    held_out = dataclasses.replace(METHOD, validation_fraction=0.3)
    sx.fit_many(build(), [X, X], [Y, Y], held_out, keys=keys)
    assert stacked == [1, 2, 2, 2]


def test_the_value_that_cannot_differ_is_named():
    models = [
        sx.Model(build().network, sx.ARD(sx.Gaussian(0.3)), sx.likelihoods.StudentT(dof))
        for dof in (4, 6)
    ]
    says = "model 1 differs from model 0 in likelihood.dof: 6, and not 4. Fit them one by one"
    with pytest.raises(ValueError, match=says):
        sx.fit_many(models, [X, X], [Y, Y], METHOD, keys=jax.random.split(KEY, 2))
