"""Fits to batches from any loader, and callbacks."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.batches import Batch
from scalemix.data.preparation import prepare
from scalemix.data.scaling import Moments, find_scaling
from scalemix.inference import Progress

KEY = jax.random.key(0)
NUM, SIZE = 30, 10
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM, 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, -1.0]
Y = X[:, 0] + 0.1 * X[:, 1] + 0.1 * RNG.normal(size=NUM)
NET = eqx.nn.MLP(3, "scalar", 4, 1, key=KEY)
MODEL = sx.Model(NET, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian())
EM = sx.VariationalEM(steps=7, chunk_steps=3, learning_rate=0.01)


class Endless:
    """A loader that repeats itself for ever."""

    def __iter__(self):
        while True:
            yield X[:SIZE], Y[:SIZE]


def loader(size=SIZE, num=NUM):
    return [(X[i : i + size][: num - i], Y[i : i + size][: num - i]) for i in range(0, num, size)]


def test_steps_take_the_batches_in_their_order():
    """The same steps by hand."""
    post = sx.fit_batches(MODEL, loader(), EM, num_rows=NUM, key=KEY)
    scaling = find_scaling(X, Y, np.ones(NUM), inputs=True, targets=True)
    for mine, expected in zip(post.scaling, scaling, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-12)
    seen = np.asarray(scaling.inputs(X), np.float32), np.asarray(scaling.targets(Y), np.float32)
    from scalemix._random import noise_key

    fit_key, _, _ = jax.random.split(KEY, 3)
    step_key = noise_key(jax.random.split(fit_key)[1])
    state = EM.init(MODEL, EM.optimizer_for(MODEL, 7))
    step = eqx.filter_jit(EM.step)
    for i in range(7):
        rows = slice(SIZE * (i % 3), SIZE * (i % 3) + SIZE)
        batch = Batch(
            jnp.asarray(seen[0][rows]), jnp.asarray(seen[1][rows]), jnp.ones(SIZE),
            jnp.float32(SIZE),
        )  # fmt: skip
        key = jax.random.fold_in(step_key, i)
        state, _ = step(state, MODEL, batch, jnp.float32(NUM), jnp.int32(i), 7, key)
    got = eqx.filter(post.model, post.model.learnable())
    for mine, theirs in zip(
        jax.tree.leaves(got), jax.tree.leaves(state.learned.means), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


def test_all_rows_in_one_batch_are_a_fit_of_all_rows():
    """The same keys, steps and rows; rows that fill up a table draw noise and count for nothing."""
    num = 64
    x, y = np.resize(X, (num, 3)), np.resize(Y, num)
    post = sx.fit_batches(MODEL, [(x, y)], EM, num_rows=num, key=KEY)
    expected = sx.fit(MODEL, x, y, dataclasses.replace(EM, batch_size=None), key=KEY)
    np.testing.assert_allclose(post.predict(x).mean, expected.predict(x).mean, rtol=1e-4)


def test_a_short_batch_weighs_what_others_do():
    """Its rows are those of a batch in which each is there twice."""
    twice = np.tile(X[20:25], (2, 1)), np.tile(Y[20:25], 2)
    method = sx.NoiseTraining(objective="hierarchical", steps=6, chunk_steps=6)
    short = sx.fit_batches(
        MODEL, [*loader(num=25)], method, num_rows=25, key=KEY, standardize=False
    )
    full = sx.fit_batches(
        MODEL, [*loader()[:2], twice], method, num_rows=25, key=KEY, standardize=False
    )
    np.testing.assert_allclose(short.predict(X).mean, full.predict(X).mean, rtol=1e-5)


def test_weights_make_no_difference_to_what_is_per_datum():
    method = sx.NoiseTraining(objective="hierarchical", steps=3)
    heavy = [(x, y, np.full(len(y), 10.0)) for x, y in loader()]
    post = sx.fit_batches(MODEL, heavy, method, num_rows=NUM, key=KEY)
    light = sx.fit_batches(MODEL, loader(), method, num_rows=NUM, key=KEY)
    # At the first step both have the same weights, and only the prior counts for a tenth.
    less = float(MODEL.penalty("hierarchical")) * (1 / NUM - 1 / (10 * NUM))
    gain = post.history.objective[0] - light.history.objective[0]
    assert gain == pytest.approx(less, rel=1e-4)


def test_an_epoch_is_a_pass_and_padding_is_not_looked_at():
    method = sx.NoiseTraining(objective="hierarchical", epochs=1)
    post = sx.fit_batches(MODEL, loader(num=25), method, num_rows=25, key=KEY)
    assert len(post.history.objective) == 3
    model = sx.Model(NET, MODEL.structures["layers.0"], sx.likelihoods.LogNormal())
    filled = [(X[:SIZE], np.append(np.ones(SIZE - 1), 0.0), np.append(np.ones(SIZE - 1), 0.0))]
    sx.fit_batches(model, filled, sx.VariationalEM(steps=1), num_rows=SIZE, key=KEY)


def test_a_checkpoint_skips_what_is_done(tmp_path):
    whole = sx.fit_batches(MODEL, loader(), EM, num_rows=NUM, key=KEY)

    def stop(progress):
        if progress.step == 6:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        sx.fit_batches(MODEL, loader(), EM, num_rows=NUM, key=KEY, checkpoint=path, callback=stop)
    resumed = sx.fit_batches(
        MODEL, loader(), EM, num_rows=NUM, key=KEY, checkpoint=path, resume=True
    )
    np.testing.assert_array_equal(resumed.predict(X).mean, whole.predict(X).mean)


def test_an_iterator_is_enough_without_a_pass_of_its_own():
    seen = X.astype(np.float32) / 100, Y / 10
    batches = ((jnp.asarray(seen[0][:SIZE]), seen[1][:SIZE], np.ones(SIZE)) for _ in range(7))
    post = sx.fit_batches(MODEL, batches, EM, num_rows=NUM, key=KEY, standardize=False)
    assert post.scaling.x_mean.size == 0
    assert post.history.objective.shape == (7,)


def test_several_targets_and_positive_ones_are_scaled_as_in_memory():
    both = np.stack([Y, 1000 + Y**2], axis=1)
    gaussian, positive = sx.likelihoods.Gaussian(), sx.likelihoods.LogNormal()
    for y, likelihood in ((both, sx.likelihoods.Independent(gaussian, 2)), (Y**2 + 1, positive)):
        network = eqx.nn.MLP(3, likelihood.num_outputs, 4, 1, key=KEY)
        model = sx.Model(network, MODEL.structures["layers.0"], likelihood)
        batches = [(X[:SIZE], y[:SIZE]), (X[SIZE : 2 * SIZE], y[SIZE : 2 * SIZE])]
        method = sx.VariationalEM(steps=2)
        post = sx.fit_batches(model, batches, method, num_rows=2 * SIZE, key=KEY)
        _, expected = prepare(model, X[: 2 * SIZE], y[: 2 * SIZE], None, True)
        for mine, theirs in zip(post.scaling, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_members_see_the_same_batches():
    method = sx.VariationalEM(steps=3, num_members=2)
    post = sx.fit_batches(MODEL, loader(), method, num_rows=NUM, key=KEY)
    assert len(post.networks.members) == 2
    assert post.predict(X).mean.shape == (NUM,)


@pytest.mark.parametrize(
    ("batches", "settings", "message"),
    [
        (5, {}, "must be an iterable"),
        ([], {}, "There are no batches"),
        ([X], {}, r"must be \(x, y\)"),
        ([(X, Y[:5])], {}, "Batch 0: x has 30 rows and y has 5"),
        ([(X[:5], Y[:5]), (X[5:], Y[5:])], {}, "Batch 1 has 25 rows, and the first one has 5"),
        ([(X, np.full(NUM, np.nan))], {}, "Batch 0: y is not finite"),
        ([(X[:1], np.array(1.0))], {}, "Batch 0: y must have one target a row"),
        (
            [*loader()[:2], (np.ma.masked_greater(X[20:], X[25:26]), Y[20:])],
            {},
            "Batch 2: x is masked at row",
        ),
        (
            [*loader()[:2], (X[20:], np.ma.masked_equal(Y[20:], Y[27]))],
            {"standardize": False},
            "Batch 2: y is masked at row 7",
        ),
        (
            [(x, y, np.full(SIZE, w)) for (x, y), w in zip(loader(), (1, 1e-9, 1), strict=True)],
            {"standardize": False},
            "Batch 1: sample_weight adds up to 1e-08",
        ),
        (
            [*loader()[:2], (X[20:], Y[20:] + 1e30 * (np.arange(SIZE) == 4))],
            {"standardize": False},
            "Batch 2: y is 1e.30 at row 4",
        ),
        ([(X, Y)], {"num_rows": 31}, "num_rows=31, and one pass over all batches has 30"),
        ([(X, Y)], {"num_rows": 29}, "num_rows=29, and the first batch has 30"),
        (Endless(), {}, "one pass over all batches has more rows"),
        ([(X, Y)], {"num_rows": 0}, "num_rows must be"),
        (iter([(X, Y)]), {}, "only once"),
        (iter([(X, Y)]), {"standardize": False}, "ended after 1"),
        ([(X, Y)], {"standardize": "all"}, "standardize must be"),
        ([(X, Y)], {"method": sx.VariationalEM(validation_fraction=0.1)}, "have none"),
        ([(X, Y)], {"method": sx.MCMC()}, "MCMC needs all rows at once"),
    ],
)
def test_bad_batches_are_refused(batches, settings, message):
    settings = {"num_rows": NUM, "method": EM} | settings
    with pytest.raises(ValueError, match=message):
        sx.fit_batches(MODEL, batches, settings.pop("method"), key=KEY, **settings)


def test_classes_that_are_not_there_are_refused():
    network = eqx.nn.MLP(3, 2, 4, 1, key=KEY)
    model = sx.Model(network, MODEL.structures["layers.0"], sx.likelihoods.Categorical(2))
    batches = [(X[:SIZE], np.arange(SIZE) % 2), (X[SIZE:], np.full(2 * SIZE, 2))]
    with pytest.raises(ValueError, match=r"Batch 1: y is 2 at row 0, which .* no probability"):
        sx.fit_batches(model, batches, EM, num_rows=NUM, key=KEY)


def test_moments_of_parts_are_those_of_the_whole():
    rng = np.random.default_rng(1)
    values = 1e8 + rng.normal(size=(50, 3)) * [1.0, 1e-3, 0.0]
    weight = rng.uniform(0.1, 3.0, size=50)
    moments = Moments()
    for rows in (slice(20), slice(20, 21), slice(21, 50)):
        moments.add(values[rows], weight[rows])
    expected = find_scaling(values, values[:, 0], weight, inputs=True, targets=False)
    mean, scale = moments.spread()
    np.testing.assert_allclose(mean, expected.x_mean, rtol=1e-14)
    np.testing.assert_allclose(scale, expected.x_scale, rtol=1e-6)


def test_moments_of_parts_of_very_different_sizes():
    """Zeros beside numbers whose squares are none, and anything in rows that do not count."""
    small = np.array([1e-200, 3e-200])[:, None]
    for parts in ((np.zeros((2, 1)), small), (small, np.zeros((2, 1)))):
        moments = Moments()
        for part in parts:
            moments.add(part, np.ones(2))
        mean, scale = moments.spread()
        np.testing.assert_allclose(mean, 1e-200)
        np.testing.assert_allclose(scale, 1.5**0.5 * 1e-200)
    moments = Moments()
    moments.add(np.array([[1e300], [1e-10], [3e-10]]), np.array([0.0, 1.0, 1.0]))
    np.testing.assert_allclose(moments.spread(), [[2e-10], [1e-10]])


def test_a_loader_may_fill_the_same_arrays_again():
    class Reusing:
        x, y = np.empty((SIZE, 3)), np.empty(SIZE)

        def __iter__(self):
            for x, y in loader():
                self.x[:], self.y[:] = x, y
                yield self.x, self.y

    post, expected = (
        sx.fit_batches(MODEL, batches, EM, num_rows=NUM, key=KEY)
        for batches in (Reusing(), loader())
    )
    np.testing.assert_array_equal(post.predict(X).mean, expected.predict(X).mean)


def test_a_callback_is_told_of_every_chunk():
    told: list[Progress] = []
    method = sx.VariationalEM(steps=7, chunk_steps=3, validation_fraction=0.2)
    post = sx.fit(MODEL, X, Y, method, key=KEY, callback=told.append)
    assert [each.step for each in told] == [3, 6, 7]
    assert {each.num_steps for each in told} == {7}
    assert [each.objective for each in told] == [post.history.objective[i] for i in (2, 5, 6)]
    assert told[-1].metrics.keys() == {"kl", "log_hyperprior", "log_likelihood", "score"}
    np.testing.assert_allclose([each.metrics["score"] for each in told], post.history.score)
    with pytest.raises(ValueError, match="callback must be"):
        sx.fit(MODEL, X, Y, method, key=KEY, callback="print")
