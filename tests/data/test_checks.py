"""What `fit` takes, and what it refuses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.checks import check_inputs
from scalemix.data.preparation import InputWarning, prepare
from scalemix.networks import MLP
from tests.fitting.common import KEY, METHOD, X, Y, build, close, same


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


@pytest.mark.parametrize(
    ("unit", "shift"),
    [(1.0, 1e8), (1e39, 0.0), (1e290, 0.0), (1e-200, 0.0), (3600.0, 1.7e9)],
    ids=["far from zero", "beyond float32", "near the end", "tiny", "an hour of Unix time"],
)
def test_inputs_are_centred_before_they_are_rounded(unit, shift):
    """Whatever float64 can tell apart is as good as any other unit."""
    moved = X * unit + shift
    plain, far = (sx.fit(build(), x, Y, METHOD, key=KEY) for x in (X, moved))
    close(far, plain)
    np.testing.assert_allclose(far.predict(moved).mean, plain.predict(X).mean, rtol=1e-3)


def test_whole_numbers_are_centred_too():
    moments = 1_700_000_000 + np.round(1000 * X).astype(np.int64)
    plain, far = (sx.fit(build(), x, Y, METHOD, key=KEY) for x in (np.round(1000 * X), moments))
    close(far, plain)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_targets_may_be_huge_or_tiny(unit):
    plain, huge = (sx.fit(build(), X, y, METHOD, key=KEY) for y in (Y, Y * unit))
    one, other = plain.predict(X), huge.predict(X)
    np.testing.assert_allclose(other.mean / unit, one.mean, rtol=1e-4)
    np.testing.assert_allclose(other.std / unit, one.std, rtol=1e-4)
    np.testing.assert_allclose(
        other.log_prob(Y * unit) + np.log(unit), one.log_prob(Y), rtol=1e-3, atol=1e-3
    )


def test_embeddings_take_whole_numbers_as_they_are():
    class Embedded(eqx.Module):
        table: eqx.nn.Embedding
        last: eqx.nn.Linear

        def __call__(self, x):
            return self.last(jax.vmap(self.table)(x).reshape(-1))[0]

    keys = jax.random.split(KEY)
    network = Embedded(eqx.nn.Embedding(9, 2, key=keys[0]), eqx.nn.Linear(6, 1, key=keys[1]))
    model = sx.Model(network, sx.ARD(sx.Bernoulli(0.95)), sx.likelihoods.Gaussian())
    words = np.arange(180).reshape(60, 3) % 9
    data, scaling = prepare(model, words, Y, None, True)
    np.testing.assert_array_equal(data.x, words)
    assert data.x.dtype == words.dtype
    assert scaling.x_mean.size == 0


def test_images_are_not_doubled():
    class Mean(eqx.Module):
        last: eqx.nn.Linear

        def __call__(self, x):
            return self.last(x.reshape(-1))[0]

    model = sx.Model(
        Mean(eqx.nn.Linear(8, 1, key=KEY)), sx.ARD(sx.Bernoulli(0.95)), sx.likelihoods.Gaussian()
    )
    images = np.arange(480, dtype=np.uint8).reshape(60, 2, 4)
    assert check_inputs(images, model).dtype == np.float32
    with pytest.raises(ValueError, match="x is too large a number for float32 at row 1"):
        check_inputs(images * np.where(np.arange(60) == 1, 1e39, 1.0)[:, None, None], model)


def test_whole_targets_that_would_wrap_are_refused():
    network = MLP(3, "scalar", 8, 1, key=KEY)
    counts = np.where(np.arange(60) == 7, 2**33, 3)
    labels = np.where(np.arange(60) == 9, 2**32, 1)
    for likelihood, y, reason in [
        (sx.likelihoods.Poisson(), counts, "y is 8589934592 at row 7: Poisson counts no further"),
        (sx.likelihoods.Poisson(), counts.astype(float), "y is 8589934592.0 at row 7"),
        (sx.likelihoods.Bernoulli(), labels, "y is 4294967296 at row 9: Bernoulli counts"),
    ]:
        model = sx.Model(network, sx.ARD(sx.Bernoulli(0.9)), likelihood)
        with pytest.raises(ValueError, match=reason):
            sx.fit(model, X, y, METHOD, key=KEY)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x": np.ma.masked_greater(X, 2.0)}, r"x is masked at row \d+, column \d.*x\.filled"),
        ({"y": np.ma.masked_equal(Y, Y[5])}, "y is masked at row 5"),
        ({"x": X * 1e300}, r"x is beyond 1e\+300 at row 2, column 0. Divide it"),
        ({"y": np.where(np.arange(60) == 2, 1e308, Y)}, r"y is beyond 1e\+300 at row 2"),
        ({"y": Y * 1e200, "standardize": False}, r"y is .*e\+200 at row 0, .*standardize it"),
        ({"x": X * 1e39, "standardize": False}, "x is too large a number for float32 at row 0"),
    ],
)
def test_numbers_that_cannot_be_used_are_refused(changes, reason):
    arguments = {"x": X, "y": Y, "standardize": True} | changes
    x, y = arguments.pop("x"), arguments.pop("y")
    with pytest.raises(ValueError, match=reason):
        sx.fit(build(), x, y, METHOD, key=KEY, **arguments)


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


def test_columns_whose_digits_single_precision_has_lost_are_told_of():
    x = X + np.array([0.0, 1e8, 0.0])
    with pytest.warns(InputWarning, match="Column 1 of x has the mean 1e\\+08 .* single precision"):
        sx.fit(build(), x.astype(np.float32), Y, METHOD, key=KEY)
    sx.fit(build(), x, Y, METHOD, key=KEY)
    sx.fit(build(), X.astype(np.float32), Y, METHOD, key=KEY)


@pytest.mark.parametrize("bad", ["x", [1.0, 0.0, 1.0], [[True]]])
def test_what_to_standardize_is_one_of_four(bad):
    with pytest.raises(ValueError, match="standardize must be True, False, 'target', or one truth"):
        sx.fit(build(), X, Y, METHOD, key=KEY, standardize=bad)
    with pytest.raises(ValueError, match="2 truth values, and x has 3 columns"):
        sx.fit(build(), X, Y, METHOD, key=KEY, standardize=[True, False])


def test_columns_that_keep_their_unit_are_centred():
    post = sx.fit(build(), 5 + 10 * X, Y, METHOD, key=KEY, standardize=[True, False, True])
    whole = sx.fit(build(), 5 + 10 * X, Y, METHOD, key=KEY)
    np.testing.assert_array_equal(post.scaling.x_mean, whole.scaling.x_mean)
    expected = np.where([True, False, True], whole.scaling.x_scale, 1.0)
    np.testing.assert_array_equal(post.scaling.x_scale, expected)
    assert post.scaling.y_scale == whole.scaling.y_scale


def test_networks_in_bfloat16_train_and_predict():
    def halve(leaf):
        return leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf

    network = jax.tree.map(halve, build().network)
    model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian())
    with jax.numpy_dtype_promotion("standard"):
        post = sx.fit(model, X, Y, sx.VariationalEM(steps=20), key=KEY)
        assert np.isfinite(post.predict(X).mean).all()


def test_whole_inputs_beyond_what_is_counted_are_refused():
    class Lookup(eqx.Module):
        table: eqx.nn.Embedding
        last: eqx.nn.Linear

        def __call__(self, x):
            return self.last(self.table(x))

    network = Lookup(eqx.nn.Embedding(4, 3, key=KEY), eqx.nn.Linear(3, "scalar", key=KEY))
    model = sx.Model(
        network, sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Gaussian(), example=jnp.int32(1)
    )
    with pytest.raises(ValueError, match=r"x is a whole number beyond .* at row 1"):
        sx.fit(model, np.array([1, 2**32 + 1, 3]), np.arange(3.0), METHOD, key=KEY)
