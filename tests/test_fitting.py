"""The front door, and the loop behind it."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.inference import loop
from scalemix.inference.batches import batch_rows, visits
from scalemix.networks import MLP

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = 5.0 + 3.0 * np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)


def build(key=KEY, mixture=None):
    mixture = mixture or sx.Bernoulli(0.95)
    return sx.Model(MLP(3, "scalar", 8, 1, key=key), sx.ARD(mixture), sx.likelihoods.Gaussian())


METHOD = sx.NoiseTraining(steps=50, chunk_steps=10, num_draws=2)


def same(one: sx.fitting.Posterior, other: sx.fitting.Posterior) -> bool:
    a, b = jax.tree.leaves(one.model.weights), jax.tree.leaves(other.model.weights)
    equal = [np.array_equal(p, q) for p, q in zip(a, b, strict=True)]
    return all(equal) and np.array_equal(one.history.objective, other.history.objective)


def close(one, other, rtol=1e-4):
    for p, q in zip(
        jax.tree.leaves(one.model.weights), jax.tree.leaves(other.model.weights), strict=True
    ):
        np.testing.assert_allclose(p, q, rtol=rtol, atol=1e-4)


# ---------------------------------------------------------------------------------- repeatability


def test_the_same_key_gives_the_same_fit():
    first, second = (sx.fit(build(), X, Y, METHOD, key=KEY) for _ in range(2))
    assert same(first, second)
    assert not same(first, sx.fit(build(), X, Y, METHOD, key=jax.random.key(1)))


def test_chunks_do_not_matter():
    other = sx.NoiseTraining(steps=50, chunk_steps=17, num_draws=2)
    assert same(sx.fit(build(), X, Y, METHOD, key=KEY), sx.fit(build(), X, Y, other, key=KEY))


def test_one_program_for_all_chunks_and_all_priors(caplog):
    model, other = build(mixture=sx.Rayleigh(0.9)), build(mixture=sx.Rayleigh(0.7))
    method = sx.NoiseTraining(steps=47, chunk_steps=10, num_draws=3)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        sx.fit(model, X, Y, method, key=KEY)
        # Another key, another value of the prior's parameter: the same program.
        sx.fit(other, X, Y, method, key=jax.random.key(1))
    compiled = [r for r in caplog.messages if r.startswith("Compiling jit(_run_chunk)")]
    assert len(compiled) == 1


# --------------------------------------------------------------------------------------- many fits


def test_many_fits_equal_fits_in_turn():
    keys = jax.random.split(KEY, 3)
    models = [build(key) for key in keys]
    ys = [Y, Y**2, -Y]
    together = sx.fit_many(models, [X] * 3, ys, METHOD, keys=keys)
    for one, model, y, key in zip(together, models, ys, keys, strict=True):
        close(one, sx.fit(model, X, y, METHOD, key=key))


def test_many_fits_of_unequal_length_equal_fits_in_turn():
    keys = jax.random.split(KEY, 2)
    xs, ys = [X, X[:41]], [Y, Y[:41]]
    for method in (METHOD, sx.NoiseTraining(steps=20, batch_size=None, num_draws=2)):
        if method.batch_size is None:
            # All rows in every step: noise differs with the padding, the objective does not.
            model = build(mixture=sx.InverseGamma(3.0, 3.0))
            method = sx.NoiseTraining("hierarchical", steps=20, batch_size=None)
        else:
            model = build()
        together = sx.fit_many(model, xs, ys, method, keys=keys)
        for one, x, y, key in zip(together, xs, ys, keys, strict=True):
            close(one, sx.fit(model, x, y, method, key=key))


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


# ------------------------------------------------------------------------------------------- data


def test_every_row_is_met_once_an_epoch():
    orders = visits(KEY, jnp.int32(10), jnp.int32(0), longest=13, num_epochs=5)
    rows = batch_rows(orders, jnp.int32(0), jnp.int32(10), num_steps=12, batch_size=4)
    stream = np.asarray(rows).ravel()[:40].reshape(4, 10)
    assert all(sorted(epoch) == list(range(10)) for epoch in stream.tolist())
    assert len({tuple(epoch) for epoch in stream.tolist()}) == 4


def test_the_stream_continues_where_it_was_left():
    whole = batch_rows(
        visits(KEY, jnp.int32(10), jnp.int32(0), 10, 6), jnp.int32(0), jnp.int32(10), 12, 4
    )
    # Step 7 begins at row 28: the third epoch, place 8.
    rest = batch_rows(
        visits(KEY, jnp.int32(10), jnp.int32(2), 10, 4), jnp.int32(8), jnp.int32(10), 5, 4
    )
    np.testing.assert_array_equal(rest, whole[7:])


def test_data_from_host_memory_give_the_same_fit():
    streamed = sx.NoiseTraining(steps=50, chunk_steps=10, num_draws=2, stream_above=0)
    resident = sx.fit(build(), X, Y, METHOD, key=KEY)
    close(resident, sx.fit(build(), X, Y, streamed, key=KEY), rtol=1e-6)


def test_epochs_are_counted_in_rows():
    method = sx.NoiseTraining(epochs=3, batch_size=20, num_draws=2)
    assert len(sx.fit(build(), X, Y, method, key=KEY).history.objective) == 9


def test_standardising_makes_units_irrelevant():
    plain = sx.fit(build(), X, Y, METHOD, key=KEY)
    scaled = sx.fit(build(), X * 1e4 - 7.0, Y * 1e-3 + 2.0, METHOD, key=KEY)
    a, b = plain.predict(X), scaled.predict(X * 1e4 - 7.0)
    np.testing.assert_allclose(b.mean, a.mean * 1e-3 + 2.0, rtol=1e-4)
    np.testing.assert_allclose(b.std, a.std * 1e-3, rtol=1e-2)
    np.testing.assert_allclose(
        b.log_prob(Y * 1e-3 + 2.0), a.log_prob(Y) + np.log(1e3), rtol=1e-2, atol=1e-2
    )


def test_a_constant_column_and_a_constant_target_are_harmless():
    x = np.concatenate([X[:, :2], np.full((60, 1), 3.0)], axis=1)
    posterior = sx.fit(build(), x, np.full(60, 2.5), METHOD, key=KEY)
    assert np.isfinite(posterior.predict(x).mean).all()


# ---------------------------------------------------------------------------------- early stopping


def test_the_best_state_is_kept_and_training_stops(monkeypatch):
    noise = RNG.normal(size=60)
    method = sx.NoiseTraining(
        steps=5000, chunk_steps=20, num_draws=2, validation_fraction=0.4, patience=3,
        learning_rate=0.05, batch_size=None,
    )  # fmt: skip
    posterior = sx.fit(build(), X, noise, method, key=KEY)
    scores = posterior.history.score
    assert len(posterior.history.objective) == 20 * len(scores) < 5000
    best = int(np.argmax(scores))
    assert len(scores) == best + 1 + 3
    # The state that is returned is that of the best chunk.
    up_to_best = sx.NoiseTraining(
        steps=5000, chunk_steps=20, num_draws=2, validation_fraction=0.4, patience=1000,
        learning_rate=0.05, batch_size=None,
    )  # fmt: skip
    seen = []

    def stop(progress):
        seen.append(progress.step)
        if progress.step == 20 * (best + 1):
            raise KeyboardInterrupt

    captured, keep = {}, loop._keep_best

    def spy(memory, score, patience):
        captured["memory"] = keep(memory, score, patience)
        return captured["memory"]

    monkeypatch.setattr(sx.fitting, "bar", lambda _: _reporting(stop))
    monkeypatch.setattr(loop, "_keep_best", spy)
    with pytest.raises(KeyboardInterrupt):
        sx.fit(build(), X, noise, up_to_best, key=KEY)
    kept = captured["memory"].best.learned.network.layers[0].weight[0]
    np.testing.assert_array_equal(kept, posterior.model.network.layers[0].weight)


def _reporting(report):
    return contextlib.nullcontext(report)


# ------------------------------------------------------------------------------------- checkpoints


def test_resuming_gives_the_run_that_was_not_interrupted(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, METHOD, key=KEY)

    def crash(progress):
        if progress.step == 30:
            raise RuntimeError("power cut")

    monkeypatch.setattr(sx.fitting, "bar", lambda _: _reporting(crash))
    with pytest.raises(RuntimeError, match="power cut"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, checkpoint_every=1)
    steps = []
    monkeypatch.setattr(sx.fitting, "bar", lambda _: _reporting(lambda p: steps.append(p.step)))
    resumed = sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True)
    # The chunk that crashed had not been saved.
    assert steps == [30, 40, 50]
    assert same(whole, resumed)
    # A finished run is not run again.
    assert same(whole, sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True))
    assert steps == [30, 40, 50]


def test_resuming_keeps_the_best_state_and_the_records(tmp_path, monkeypatch):
    method = sx.NoiseTraining(
        steps=60, chunk_steps=10, num_draws=2, validation_fraction=0.3, record_weights=True
    )
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, method, key=KEY)

    def interrupt(progress):
        if progress.step == 40:
            raise KeyboardInterrupt

    monkeypatch.setattr(sx.fitting, "bar", lambda _: _reporting(interrupt))
    with pytest.raises(KeyboardInterrupt):
        sx.fit(build(), X, Y, method, key=KEY, checkpoint=path, checkpoint_every=1000)
    monkeypatch.undo()
    resumed = sx.fit(build(), X, Y, method, key=KEY, checkpoint=path, resume=True)
    assert same(whole, resumed)
    np.testing.assert_array_equal(whole.history.score, resumed.history.score)
    for name, value in whole.history.recorded.items():
        np.testing.assert_array_equal(value, resumed.history.recorded[name])


def test_a_failed_write_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"

    calls = []

    def third_fails(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError("No space left on device")
        os.rename(source, target)

    monkeypatch.setattr(os, "replace", third_fails)
    with pytest.raises(OSError, match="No space left"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, checkpoint_every=1)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]
    resumed = sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True)
    assert same(sx.fit(build(), X, Y, METHOD, key=KEY), resumed)


def test_a_killed_process_loses_at_most_one_interval(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        import jax, numpy as np
        import scalemix as sx
        from scalemix.inference import checkpoint

        write = checkpoint.write
        def write_then_die(path, tree, facts):
            write(path, tree, facts)
            if tree.done == 20:
                os.kill(os.getpid(), signal.SIGKILL)
        checkpoint.write = write_then_die
        rng = np.random.default_rng(0)
        x = rng.normal(size=(60, 3))
        model = sx.Model(sx.networks.MLP(3, "scalar", 8, 1, key=jax.random.key(0)),
                         sx.ARD(sx.Bernoulli(0.95)), sx.likelihoods.Gaussian())
        method = sx.NoiseTraining(steps=50, chunk_steps=10, num_draws=2)
        done = sx.fit(model, x, x[:, 0], method, key=jax.random.key(0), checkpoint=sys.argv[1],
                      checkpoint_every=1, resume=True)
        print(repr(float(done.history.objective[-1])))
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run.ckpt")]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stderr
    x = np.random.default_rng(0).normal(size=(60, 3))
    whole = sx.fit(build(), x, x[:, 0], METHOD, key=KEY)
    assert float(resumed.stdout) == float(whole.history.objective[-1])


def test_foreign_checkpoints_are_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path)
    with pytest.raises(ValueError, match=r"exists\. Pass resume=True"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path)
    other = sx.NoiseTraining(steps=50, chunk_steps=10, num_draws=3)
    for model, y, method, key, what in [
        (build(), Y, METHOD, jax.random.key(1), "key"),
        (build(), Y + 1e-3 * X[:, 0], METHOD, KEY, "data"),
        (build(), Y, other, KEY, "method"),
        (build(jax.random.key(1)), Y, METHOD, KEY, "model"),
    ]:
        with pytest.raises(ValueError, match=f"another run: not the same {what}\\."):
            sx.fit(model, X, y, method, key=key, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="give checkpoint= its path"):
        sx.fit(build(), X, Y, METHOD, key=KEY, resume=True)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="not a checkpoint that can be read"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True)


# -------------------------------------------------------------------------------------- divergence


def test_divergence_is_reported_with_step_and_site():
    method = sx.NoiseTraining(steps=200, chunk_steps=50, learning_rate=1e30, num_draws=2)
    with pytest.raises(sx.DivergenceError, match=r"at step \d+: .*'layers\.[01]'.*learning rate"):
        sx.fit(build(), X, Y, method, key=KEY)


def test_divergence_names_the_model():
    models = [build(mixture=sx.Uniform(0.5, 1.5)), build(mixture=sx.Uniform(0.5, 1e30))]
    with pytest.raises(sx.DivergenceError, match=r"of model 1 diverged at step 0"):
        sx.fit_many(models, [X, X], [Y, Y], METHOD, keys=jax.random.split(KEY, 2))


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (X[:, :2], Y, r"does not take an example of shape \(2,\)"),
        (X, Y[:-1], "x has 60 rows and y has 59"),
        (X[:0], Y[:0], "no rows"),
        (np.where(X[7, 1] == X, np.nan, X), Y, "x is not finite at row 7, column 1"),
        (X, np.where(Y[4] == Y, np.inf, Y), "y is not finite at row 4"),
        (X.astype(object), Y, "x must be real numbers"),
        (X, np.array(["a"] * 60), "y must be real numbers"),
        (X, Y + 1j, "y must be real numbers"),
        (X, np.stack([Y, Y], axis=1), "one target a row.*not one-hot"),
    ],
)
def test_bad_data_are_refused(x, y, reason):
    with pytest.raises(ValueError, match=reason):
        sx.fit(build(), x, y, METHOD, key=KEY)


def test_impossible_targets_are_refused():
    model = sx.Model(
        MLP(3, "scalar", 8, 1, key=KEY), sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Bernoulli()
    )
    with pytest.raises(ValueError, match=r"y is 2 at row 5"):
        sx.fit(model, X, np.where(np.arange(60) == 5, 2, 0), METHOD, key=KEY)


def test_bad_arguments_are_refused():
    for change, reason in [
        ({"key": 0}, "key must be one PRNG key"),
        ({"key": jax.random.split(KEY, 2)}, "key must be one PRNG key"),
        ({"method": "lower_bound"}, "method must be one such as NoiseTraining"),
        ({"model": build().network}, "A model is a scalemix.Model, got MLP"),
    ]:
        arguments = {"model": build(), "x": X, "y": Y, "method": METHOD, "key": KEY} | change
        with pytest.raises(ValueError, match=reason):
            sx.fit(**arguments)
    with pytest.raises(ValueError, match=r"A model is a scalemix\.Model, got MLP"):
        sx.fit_many(build().network, [X], [Y], METHOD, keys=KEY[None])
    with pytest.raises(ValueError, match=r"jax\.random\.split\(key, 2\)"):
        sx.fit_many(build(), [X, X], [Y, Y], METHOD, keys=KEY)
    method = sx.NoiseTraining(epochs=4, batch_size=16)
    with pytest.raises(ValueError, match="steps instead of epochs"):
        sx.fit_many(build(), [X, X[:30]], [Y, Y[:30]], method, keys=jax.random.split(KEY, 2))


def test_keys_come_in_several_forms():
    typed = sx.fit(build(), X, Y, METHOD, key=KEY)
    assert same(typed, sx.fit(build(), X, Y, METHOD, key=jax.random.key_data(KEY)))
    keys = [KEY, jax.random.key(1)]
    (first, _) = sx.fit_many(build(), [X, X], [Y, Y], METHOD, keys=keys)
    close(first, typed)


def test_whole_numbers_and_truth_values_are_numbers():
    whole = np.round(3 * X).astype(int)
    assert same(
        sx.fit(build(), whole, Y, METHOD, key=KEY),
        sx.fit(build(), whole.astype(float), Y, METHOD, key=KEY),
    )
    assert np.isfinite(sx.fit(build(), X > 0, Y, METHOD, key=KEY).predict(X > 0).mean).all()


class Frame:
    """As much of a data frame as a message needs."""

    columns = ("a", "b", "c")
    dtypes = {"a": np.dtype(float), "b": np.dtype(object), "c": np.dtype(float)}  # noqa: RUF012


def test_a_text_column_is_named():
    class Dtypes(dict):
        def __iter__(self):
            return iter(self.values())

    frame = Frame()
    frame.dtypes = Dtypes(Frame.dtypes)
    with pytest.raises(ValueError, match="Column 'b' of x holds no plain numbers"):
        sx.fit(build(), frame, Y, METHOD, key=KEY)


@pytest.mark.parametrize("moment", ["chunk", "score", "best"])
def test_an_interrupt_at_any_point_resumes_to_the_same_run(moment, tmp_path, monkeypatch):
    method = sx.NoiseTraining(steps=60, chunk_steps=10, num_draws=2, validation_fraction=0.3)
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, method, key=KEY)
    place = {"chunk": (loop._Chunks, "run"), "score": (loop._Chunks, "score")}
    owner, name = place.get(moment, (loop, "_keep_best"))
    original, calls = getattr(owner, name), []

    def interrupted(*arguments):
        calls.append(name)
        result = original(*arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        sx.fit(build(), X, Y, method, key=KEY, checkpoint=path, checkpoint_every=1000)
    monkeypatch.undo()
    resumed = sx.fit(build(), X, Y, method, key=KEY, checkpoint=path, resume=True)
    assert same(whole, resumed)
    np.testing.assert_array_equal(whole.history.score, resumed.history.score)


def test_reprs_are_short():
    posterior = sx.fit(build(), X, Y, METHOD, key=KEY)
    assert len(repr(posterior)) < 120
    assert "after 50 steps" in repr(posterior)


def test_bad_weights_are_refused():
    for weight, reason in [
        (np.ones(3), "one number a row"),
        (np.zeros(60), "zero for every row"),
        (np.where(np.arange(60) == 3, -1.0, 1.0), "is -1.0 at row 3"),
    ]:
        with pytest.raises(ValueError, match=reason):
            sx.fit(build(), X, Y, METHOD, key=KEY, sample_weight=weight)


def test_the_bar_shows_itself_on_request(capsys):
    sx.fit(build(), X, Y, METHOD, key=KEY, progress=True)
    shown = capsys.readouterr().err
    assert "50/50" in shown
    assert "objective=" in shown
    sx.fit(build(), X, Y, METHOD, key=KEY)
    assert capsys.readouterr().err == ""


# -------------------------------------------------------------------------------------- ensembles


def test_members_start_from_the_same_values_in_another_order():
    jobs = sx.fitting.members(build(), sx.NoiseTraining(num_members=3), 0, KEY)
    starts = [job.model.weights["layers.0"] for job in jobs]
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
