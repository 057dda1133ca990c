"""A weight is the number of rows that a row counts as, whatever the batches."""

import jax
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix import Candidate
from scalemix.data.preparation import prepare
from scalemix.networks import MLP
from tests.fitting.common import KEY, X, Y, build, close, same

# Every other row is there only to be left out.
WIDE_X = np.stack([X, X[::-1] + 50.0], axis=1).reshape(120, 3)
WIDE_Y = np.stack([Y, Y[::-1] - 99.0], axis=1).reshape(120)
ON_AND_OFF = np.tile([1.0, 0.0], 60)


def flat_model():
    """A chance for all rows alike, with next to no prior."""
    prior = sx.ARD(sx.InverseGamma(3.0, 3.0), scale=1e3)
    network = MLP(1, "scalar", 4, 1, key=KEY)
    return sx.Model(network, prior, sx.likelihoods.Bernoulli())


@pytest.mark.parametrize("weight", [99.0, 396.0])
def test_small_batches_find_the_weighted_mean(weight):
    """Ten rows of 1,000 have most of the weight, and most batches of 32 have none of them."""
    y = (np.arange(1000) < 10).astype(int)
    weights = np.where(y == 1, weight, 1.0)
    steps, num = 2000, 6
    method = sx.NoiseTraining(
        "hierarchical", steps=steps, batch_size=32,
        optimizer=optax.sgd(optax.cosine_decay_schedule(0.1, steps)),
    )  # fmt: skip
    fits = sx.fit_many(
        flat_model(), [np.zeros((1000, 1))] * num, [y] * num, method,
        keys=jax.random.split(KEY, num), sample_weights=[weights] * num,
    )  # fmt: skip
    means = np.array([fit.predict(np.zeros((1, 1))).mean[0] for fit in fits])
    # Steps of finite size are off by less than the fits differ among themselves.
    assert abs(means.mean() - np.average(y, weights=weights)) < 4 * means.std(ddof=1)
    assert means.std(ddof=1) < 0.01


def test_rows_of_weight_zero_leave_before_anything_else():
    """All of inference, chains too, has its data from here."""
    model = build()
    wide, scaling = prepare(model, WIDE_X, WIDE_Y, ON_AND_OFF, True)
    data, expected = prepare(model, X, Y, None, True)
    for one, other in zip((*wide, *scaling), (*data, *expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_of_weight_zero_are_neither_held_out_nor_counted():
    """With these rows still there, some that were held out would have no weight."""
    model = build(mixture=sx.InverseGamma(3.0, 3.0))
    method = sx.VariationalEM(epochs=8, chunk_steps=10, batch_size=16, validation_fraction=0.1)
    with_them = sx.fit(model, WIDE_X, WIDE_Y, method, key=KEY, sample_weight=ON_AND_OFF)
    without = sx.fit(model, X, Y, method, key=KEY)
    assert same(with_them, without)
    np.testing.assert_array_equal(with_them.history.score, without.history.score)


def test_rows_of_weight_zero_choose_no_setting():
    model = build(mixture=sx.InverseGamma(3.0, 3.0))
    candidates = [
        Candidate(model, sx.VariationalEM(steps=40, batch_size=16, temperature=t))
        for t in (0.1, 1.0)
    ]
    settings = {"key": KEY, "num_members": 2, "num_trial_members": 1}
    with_them = sx.fit_stacked(candidates, WIDE_X, WIDE_Y, sample_weight=ON_AND_OFF, **settings)
    without = sx.fit_stacked(candidates, X, Y, **settings)
    np.testing.assert_array_equal(with_them.scores, without.scores)
    np.testing.assert_array_equal(with_them.weights, without.weights)
    assert with_them.posterior.score_spread == without.posterior.score_spread


def test_a_held_out_part_always_counts():
    """Three rows in a hundred have a weight: of ten held out, most often none would."""
    weight = np.zeros(1000)
    weight[::33] = 1.0
    x = np.random.default_rng(1).normal(size=(1000, 3))
    y = 3 * x[:, 0]
    method = sx.NoiseTraining(
        steps=60, chunk_steps=10, num_draws=2, learning_rate=0.05, validation_fraction=0.05
    )
    posterior = sx.fit(build(), x, y, method, key=KEY, sample_weight=weight)
    assert np.isfinite(posterior.history.score).all()
    assert not np.allclose(posterior.model.weights["layers.0"], build().weights["layers.0"])


@pytest.mark.parametrize("batch_size", [16, None])
def test_a_weight_for_all_rows_only_says_how_many_there_are(batch_size):
    """Without a prior the number of rows means nothing, and the objective is per datum."""
    model = sx.Model(
        MLP(3, "scalar", 8, 1, key=KEY),
        sx.ARD(sx.Bernoulli(0.9), scale=np.inf),
        sx.likelihoods.Gaussian(),
    )
    method = sx.NoiseTraining(steps=30, num_draws=2, batch_size=batch_size)
    plain = sx.fit(model, X, Y, method, key=KEY)
    for weight in (1e-3, 1e9):
        close(sx.fit(model, X, Y, method, key=KEY, sample_weight=np.full(60, weight)), plain)


def test_weights_count_rows_exactly(float64):
    """All rows in each step, and no noise: repeated rows and counted ones are one fit."""
    counts = np.arange(60) % 4
    model = build(mixture=sx.InverseGamma(3.0, 3.0))
    method = sx.NoiseTraining("hierarchical", steps=60, batch_size=None)
    counted = sx.fit(model, X, Y, method, key=KEY, sample_weight=counts)
    repeated = sx.fit(model, np.repeat(X, counts, axis=0), np.repeat(Y, counts), method, key=KEY)
    np.testing.assert_allclose(counted.predict(X).mean, repeated.predict(X).mean, rtol=1e-9)
    np.testing.assert_allclose(counted.history.objective, repeated.history.objective, rtol=1e-6)


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (np.ones(3), "one number a row"),
        (np.zeros(60), "zero for every row"),
        (np.where(np.arange(60) == 3, -1.0, 1.0), "is -1.0 at row 3: none may be negative"),
        (np.where(np.arange(60) == 3, np.inf, 1.0), "is inf at row 3.*all must be finite"),
        (np.full(60, 1e-30), "adds up to 6e-29. A weight is the number of rows"),
        (np.full(60, 1e300), r"adds up to 6e\+301"),
        (np.full(60, 1.7e308), "adds up to inf"),
        (["1.0"] * 60, "sample_weight must be real numbers, got the type <U3"),
        (np.ma.masked_equal(np.arange(60.0), 7.0), "sample_weight is masked at row 7"),
    ],
)
def test_bad_weights_are_refused(weight, reason):
    with pytest.raises(ValueError, match=reason):
        sx.fit(build(), X, Y, sx.NoiseTraining(steps=5), key=KEY, sample_weight=weight)


def test_rows_too_light_to_count_are_left_out():
    weight = np.where(np.arange(60) < 30, 1.0, 1e-60)
    method = sx.NoiseTraining(steps=5, num_draws=2)
    light = sx.fit(build(), X, Y, method, key=KEY, sample_weight=weight)
    assert same(light, sx.fit(build(), X[:30], Y[:30], method, key=KEY))
