"""What `fit` takes, and what it refuses."""

import jax
import numpy as np
import pytest

import scalemix as sx
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


def test_bad_weights_are_refused():
    for weight, reason in [
        (np.ones(3), "one number a row"),
        (np.zeros(60), "zero for every row"),
        (np.where(np.arange(60) == 3, -1.0, 1.0), "is -1.0 at row 3"),
    ]:
        with pytest.raises(ValueError, match=reason):
            sx.fit(build(), X, Y, METHOD, key=KEY, sample_weight=weight)
