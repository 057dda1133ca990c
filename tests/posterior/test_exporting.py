"""Exported functions predict what the posterior does."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import scalemix as sx

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = (RNG.normal(size=(20, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 1.0]).astype(np.float32)
Y = 100 + X[:, 0] + 0.1 * X[:, 1]
NET = eqx.nn.MLP(3, "scalar", 4, 1, key=KEY)
ARD = sx.ARD(sx.InverseGamma(3.0, 3.0))
GAUSSIAN = sx.likelihoods.Gaussian()
# The compiled function takes rows as they are, in single precision.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [
        (GAUSSIAN, sx.VariationalEM(steps=20, num_members=2)),
        (sx.likelihoods.Categorical(3), sx.VariationalEM(steps=20)),
        (sx.likelihoods.StudentT(5.0, per_input=True), sx.NoiseTraining(steps=20)),
    ],
)
def test_a_function_gives_what_the_posterior_does(likelihood, method, tmp_path):
    outputs = "scalar" if likelihood.num_outputs == 1 else likelihood.num_outputs
    network = eqx.nn.MLP(3, outputs, 4, 1, key=KEY)
    y = np.arange(20) % 3 if likelihood.num_outputs == 3 else Y
    post = sx.fit(sx.Model(network, ARD, likelihood), X, y, method, key=KEY)
    # As the estimators have it, and as `fit` does.
    draws_in = likelihood is not GAUSSIAN
    post = eqx.tree_at(lambda p: p.scaling, post, post.scaling._replace(draws_in=draws_in))
    post.export(tmp_path / "file")
    function = export.deserialize(bytearray((tmp_path / "file").read_bytes()))
    with pytest.raises(
        ValueError, match=r"cannot be loaded: .* a function, such as .*export writes"
    ):
        sx.load(tmp_path / "file")
    # Some rows lie outside.
    for rows in (X[:1], X[:7], X[:7] + np.float32([0, 90, 0])):
        out, predicted = function.call(rows), post.predict(rows)
        for name in ("mean", "std", "epistemic", "aleatoric"):
            np.testing.assert_allclose(out[name], getattr(predicted, name), **CLOSE)


def test_jax_alone_runs_it(tmp_path):
    post = sx.fit(sx.Model(NET, ARD, GAUSSIAN), X, Y, sx.VariationalEM(steps=5), key=KEY)
    post.export(tmp_path / "file", num_draws=3)
    code = (
        "import sys, numpy as np; from jax import export;"
        f"f = export.deserialize(bytearray(open({str(tmp_path / 'file')!r}, 'rb').read()));"
        "print(f.call(np.ones((2, 3), np.float32))['mean'].tolist(), 'scalemix' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    expected = post.predict(np.ones((2, 3)), num_draws=3).mean
    numbers, _, imported = done.stdout.strip().rpartition(" ")
    np.testing.assert_allclose(eval(numbers), expected, **CLOSE)
    assert imported == "False"


def test_several_inputs_and_whole_numbers(tmp_path):
    layers = {"words": eqx.nn.Embedding(5, 3, key=KEY), "last": eqx.nn.Linear(3, "scalar", key=KEY)}

    def call(layers, x):
        return layers["last"](layers["words"](x["word"]) + x["table"])

    model = sx.Model(layers, ARD, GAUSSIAN, call=call, example={"table": X[0], "word": 3})
    inputs = {"table": X, "word": np.arange(20, dtype=np.int32) % 5}
    post = sx.fit(model, inputs, Y, sx.VariationalEM(steps=2), key=KEY)
    post.export(tmp_path / "file", num_draws=4)
    function = export.deserialize(bytearray((tmp_path / "file").read_bytes()))
    mean = function.call(jax.tree.map(jnp.asarray, inputs))["mean"]
    np.testing.assert_allclose(mean, post.predict(inputs, num_draws=4).mean, **CLOSE)
    # No table has these words, and neither do the nearest ones stand for them.
    inputs["word"][[1, 3]] = [5, -1]
    again = function.call(jax.tree.map(jnp.asarray, inputs))["mean"]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(again)), [1, 3])
    np.testing.assert_array_equal(np.delete(again, [1, 3]), np.delete(mean, [1, 3]))


def test_positions_among_numbers_are_whole(tmp_path):
    network = sx.networks.MLP(((0, 1), (0, 1), (0, 5)), "scalar", 4, 1, key=KEY)
    x = np.stack([X[:, 0], np.arange(20) % 5], axis=1).astype(np.float32)
    prior = {"layers.0.*": sx.ARD(sx.HalfCauchy(1.0), by="column")}
    post = sx.fit(sx.Model(network, prior, GAUSSIAN), x, Y, sx.VariationalEM(steps=2), key=KEY)
    post.export(tmp_path / "file", num_draws=2)
    function = export.deserialize(bytearray((tmp_path / "file").read_bytes()))
    x[[1, 2, 3], 1] = [5, -1, 2.5]
    for values in function.call(x).values():
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(values)), [1, 2, 3])


def test_an_input_must_be_known(tmp_path):
    layers = {"a": eqx.nn.Linear(3, "scalar", key=KEY)}
    model = sx.Model(layers, ARD, GAUSSIAN, call=lambda layers, x: layers["a"](x["table"]))
    post = sx.fit(model, {"table": X}, Y, sx.VariationalEM(steps=2), key=KEY)
    with pytest.raises(ValueError, match="example="):
        post.export(tmp_path / "file")
    assert not (tmp_path / "file").exists()
