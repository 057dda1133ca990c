"""One fit, and the loop behind it."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.batches import batch_rows, visits
from scalemix.inference.training import loop
from tests.fitting.common import KEY, METHOD, RNG, X, Y, build, close, reporting, same


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
    compilations = [r for r in caplog.messages if r.startswith("Compiling jit(run_chunk)")]
    assert len(compilations) == 1


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

    def spy(*arguments):
        captured["memory"] = keep(*arguments)
        return captured["memory"]

    monkeypatch.setattr(sx.fitting.front_door, "watch", lambda *_: reporting(stop))
    monkeypatch.setattr(loop, "_keep_best", spy)
    with pytest.raises(KeyboardInterrupt):
        sx.fit(build(), X, noise, up_to_best, key=KEY)
    kept = captured["memory"].best.learned.network.layers[0].weight[0]
    np.testing.assert_array_equal(kept, posterior.model.network.layers[0].weight)


def test_divergence_is_reported_with_step_and_site():
    method = sx.NoiseTraining(steps=200, chunk_steps=50, learning_rate=1e30, num_draws=2)
    with pytest.raises(sx.DivergenceError, match=r"at step \d+: .*'layers\.[01]'.*learning rate"):
        sx.fit(build(), X, Y, method, key=KEY)


def test_divergence_names_the_model():
    models = [build(mixture=sx.Uniform(0.5, 1.5)), build(mixture=sx.Uniform(0.5, 1e30))]
    with pytest.raises(sx.DivergenceError, match=r"of model 1 diverged at step 0"):
        sx.fit_many(models, [X, X], [Y, Y], METHOD, keys=jax.random.split(KEY, 2))


def test_the_bar_shows_itself_on_request(capsys):
    sx.fit(build(), X, Y, METHOD, key=KEY, progress=True)
    shown = capsys.readouterr().err
    assert "50/50" in shown
    assert "objective=" in shown
    sx.fit(build(), X, Y, METHOD, key=KEY)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("method", ["VariationalEM", "NoiseTraining"])
def test_fits_in_double_precision_mix_no_types(method, float64):
    """Tests run under strict promotion, where single and double precision do not go together."""
    mixture = sx.HalfCauchy(1.0) if method == "VariationalEM" else sx.Bernoulli(0.9)
    network = sx.networks.MLP(X.shape[1], "scalar", 4, 1, key=KEY)
    model = sx.Model(network, sx.ARD(mixture), sx.likelihoods.Gaussian())
    training = getattr(sx, method)(steps=5, batch_size=8)
    posterior = sx.fit(model, np.float64(X), np.float64(Y), training, key=KEY)
    weights = [leaf for leaf in jax.tree.leaves(posterior.model.network) if hasattr(leaf, "dtype")]
    assert {leaf.dtype for leaf in weights} == {jnp.dtype("float64")}
