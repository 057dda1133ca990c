"""Networks with a key, with a state, with several inputs and named outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix.networks import CalledNetwork, compute_in, find_sites, with_call
from scalemix.networks.demands import batch_axis

KEY = jax.random.key(0)
NUM = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM, 3)).astype(np.float32)
Y = X[:, 0] - X[:, 1] ** 2 + 0.1 * RNG.normal(size=NUM)
GAUSSIAN = sx.likelihoods.Gaussian()
PRIOR = sx.ARD(sx.InverseGamma(3.0, 3.0))
STILL = sx.NoiseTraining(objective="hierarchical", steps=4, learning_rate=0.01)


class Normed(eqx.Module):
    """A BatchNorm and a Dropout between two dense layers; its output has a name."""

    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, key=KEY, axis_name="rows", mode="ema"):
        keys = jax.random.split(key)
        self.first = eqx.nn.Linear(3, 4, key=keys[0])
        self.norm = eqx.nn.BatchNorm(4, axis_name=axis_name, mode=mode, momentum=0.5)
        self.drop = eqx.nn.Dropout(0.5)
        self.last = eqx.nn.Linear(4, "scalar", key=keys[1])

    def __call__(self, x, state, key=None):
        h, state = self.norm(self.first(x), state)
        return {"mean": self.last(self.drop(jnp.tanh(h), key=key))}, state


def call(network, x, state, key=None):
    output, state = network(x["table"], state, key=key)
    return output["mean"], state


def normed(prior=PRIOR, function=call):
    network, state = eqx.nn.make_with_state(Normed)()
    example = {"table": X[0]}
    return sx.Model(network, prior, GAUSSIAN, call=function, state=state, example=example)


class Dropped(eqx.Module):
    first: eqx.nn.Linear
    drop: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self):
        keys = jax.random.split(KEY)
        self.first = eqx.nn.Linear(3, 4, key=keys[0])
        self.drop = eqx.nn.Dropout(0.5)
        self.last = eqx.nn.Linear(4, "scalar", key=keys[1])

    def __call__(self, x, key=None):
        return self.last(self.drop(jnp.tanh(self.first(x)), key=key))


def always(network, x, key):
    return network(x, key=key)


def in_training(network, x, key=None):
    return network(x, key=key)


def dropped(function):
    return sx.Model(Dropped(), PRIOR, GAUSSIAN, call=function)


# ----------------------------------------------------------------------------------------- names


def test_names_are_those_of_the_network_itself():
    model = normed()
    assert [site.name for site in model.sites] == ["first", "last"]
    assert repr(model) == "Model(Normed, ARD on 2 sites, Gaussian)"
    assert model.describe().without_prior == ("first.bias", "norm.weight", "norm.bias", "last.bias")
    frozen = sx.Model(
        model.network, {"last": PRIOR}, GAUSSIAN, example=model.example, frozen=["first", "norm"]
    )
    assert frozen.frozen == ("first.weight", "first.bias", "norm.weight", "norm.bias")


def test_a_tree_that_cannot_be_called_becomes_a_network():
    layers = {"a": eqx.nn.Linear(3, 4, key=KEY), "b": eqx.nn.Linear(4, "scalar", key=KEY)}
    network = with_call(layers, lambda layers, x: layers["b"](jnp.tanh(layers["a"](x))))
    assert [site.name for site in find_sites(network)] == ["a", "b"]
    with pytest.raises(ValueError, match="or come with call="):
        sx.Model(layers, PRIOR, GAUSSIAN)
    expected = layers["b"](jnp.tanh(layers["a"](jnp.asarray(X[0]))))
    assert sx.Model(network, PRIOR, GAUSSIAN).network(X[0]) == expected


# ---------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("method", [sx.VariationalEM(steps=4, batch_size=8), STILL])
def test_several_inputs_are_as_good_as_one(method):
    network = eqx.nn.MLP(3, "scalar", 4, 1, key=KEY)
    plain = sx.Model(network, PRIOR, GAUSSIAN)

    def joined(network, x):
        return network(jnp.concatenate([x[0], x[1]["rest"]]))

    example = (X[0, :1], {"rest": X[0, 1:]})
    several = sx.Model(network, PRIOR, GAUSSIAN, call=joined, example=example)
    inputs = (X[:, :1], {"rest": X[:, 1:]})
    one = sx.fit(plain, X, Y, method, key=KEY, standardize="target")
    other = sx.fit(several, inputs, Y, method, key=KEY, standardize="target")
    expected, mean = one.predict(X).mean, other.predict(inputs).mean
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
    np.testing.assert_allclose(other.predict(inputs).log_prob(Y), one.predict(X).log_prob(Y), 1e-5)
    shares = one.relevance().units["layers.1"]
    np.testing.assert_allclose(other.relevance().units["layers.1"], shares, rtol=1e-5)


def test_whole_numbers_stay_whole_where_the_network_needs_them():
    layers = {"words": eqx.nn.Embedding(5, 3, key=KEY), "last": eqx.nn.Linear(3, "scalar", key=KEY)}

    def look_up(layers, x):
        return layers["last"](layers["words"](x["word"]) + x["table"])

    example = {"table": X[0], "word": 3}
    model = sx.Model(layers, PRIOR, GAUSSIAN, call=look_up, example=example)
    assert model.example["word"].dtype == jnp.int32
    inputs = {"table": X.astype(int), "word": np.arange(NUM) % 5}
    post = sx.fit(model, inputs, Y, sx.VariationalEM(steps=2), key=KEY)
    assert post.predict(inputs).mean.shape == (NUM,)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"table": X[:-1], "more": X}, r"x\['more'\] has 30, x\['table'\] has 29"),
        ({"table": np.full((NUM, 3), np.nan)}, r"x\['table'\] is not finite at row 0"),
        ({"table": X[:, :2]}, r"of the shapes x\['table'\]: \(2,\)"),
        ({"other": X}, "It says"),
        ({"table": [["a"] * 3] * NUM}, r"x\['table'\] must be real numbers"),
        ({"table": np.float32(1)}, r"x\['table'\] must hold examples"),
        ({}, "x is empty"),
    ],
)
def test_bad_inputs_are_named(inputs, message):
    with pytest.raises(ValueError, match=message):
        sx.fit(normed(), inputs, Y, STILL, key=KEY)


KEY_ALONE = (
    r"Dropout wants a key: say Model\(..., call=lambda net, x, key=None: net\(x, key=key\)\)"
)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda: Dropped(), KEY_ALONE),
        (
            lambda: eqx.nn.make_with_state(Normed)()[0],
            r"Dropout wants a key and BatchNorm wants a state: .*net\(x, state, key=key\), state=",
        ),
        (
            lambda: eqx.nn.inference_mode(eqx.nn.make_with_state(Normed)()[0]),
            r"BatchNorm wants a state: say Model\(..., state=state\).*make_with_state gives",
        ),
    ],
)
def test_a_network_that_wants_a_key_or_a_state_is_told_how_to_get_it(network, message):
    with pytest.raises(ValueError, match=message):
        sx.fit(sx.Model(network(), PRIOR, GAUSSIAN), X, Y, STILL, key=KEY)


def test_a_network_of_another_width_is_told_of_no_key():
    network = with_call(Dropped(), lambda net, x, key=None: net(x, key=key))
    for plain in (eqx.nn.MLP(2, "scalar", 4, 1, key=KEY), network):
        with pytest.raises(ValueError, match="It says: ") as error:
            sx.fit(sx.Model(plain, PRIOR, GAUSSIAN), X[:, :1], Y, STILL, key=KEY)
        assert "wants" not in str(error.value)


# ----------------------------------------------------------------------------------------- state


def test_running_statistics_are_those_of_the_rows_and_of_no_padding():
    """One full batch of 30 rows, which the loop would fill up to 64."""
    model = normed()
    post = sx.fit(
        model, {"table": X}, Y, sx.NoiseTraining(objective="hierarchical", steps=1), key=KEY
    )
    hidden = X @ np.asarray(model.weights["first"]).T + np.asarray(
        model.network.wrapped_network.first.bias
    )
    network, state = post.model.network.wrapped_network, post.model.network.state
    mean, variance = state.get(network.norm.ema_state_index)
    assert not state.get(network.norm.ema_first_time_index)
    np.testing.assert_allclose(mean, hidden.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, hidden.var(axis=0), rtol=1e-4)


def test_a_step_is_that_of_a_loop_by_hand():
    """The gradient passes through the statistics of the batch, and the state does not learn."""
    model = normed(PRIOR, lambda net, x, state: call(off(net), x, state))

    def loss(learned, state):
        current = model.with_learned(learned)
        network = off(current.network.wrapped_network)
        outputs, state = jax.vmap(
            lambda x, state: network(x, state), in_axes=(0, None), out_axes=(0, None),
            axis_name="rows",
        )(jnp.asarray(X), state)  # fmt: skip
        values = jax.vmap(current.likelihood.log_prob)(outputs["mean"], jnp.asarray(seen))
        return current.penalty("hierarchical") / NUM - values.mean(), state

    seen = ((Y - Y.mean()) / Y.std()).astype(np.float32)
    learned = eqx.filter(model, model.learnable())
    state = jax.tree.map(lambda leaf: leaf, model.network.state)
    slope, state = eqx.filter_jit(jax.grad(loss, has_aux=True))(learned, state)
    rate = 0.01
    method = sx.NoiseTraining(objective="hierarchical", steps=1, optimizer=optax.sgd(rate))
    post = sx.fit(model, {"table": X}, Y, method, key=KEY)
    expected = jax.tree.map(
        lambda value, change: np.asarray(value) - rate * np.asarray(change), learned, slope
    )
    got = eqx.filter(post.model, post.model.learnable())
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    for mine, theirs in zip(
        jax.tree.leaves(post.model.network.state), jax.tree.leaves(state), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def off(network):
    """The network without dropout, its norm still in training."""
    return eqx.tree_at(lambda net: net.drop, network, eqx.nn.Dropout(0.0))


@pytest.mark.parametrize(
    "method",
    [
        sx.VariationalEM(steps=6, batch_size=8, num_draws=4, chunk_steps=3),
        sx.NoiseTraining(steps=6, batch_size=8, num_draws=2, chunk_steps=3, num_members=2),
    ],
)
def test_a_state_goes_with_files_and_checkpoints(method, tmp_path):
    model = normed(PRIOR if isinstance(method, sx.VariationalEM) else sx.ARD(sx.Bernoulli(0.9)))
    inputs = {"table": X}
    post = sx.fit(model, inputs, Y, method, key=KEY, checkpoint=tmp_path / "run")
    again = sx.fit(model, inputs, Y, method, key=KEY, checkpoint=tmp_path / "run", resume=True)
    mean = post.predict(inputs).mean
    np.testing.assert_array_equal(again.predict(inputs).mean, mean)
    post.save(tmp_path / "file")
    network, state = eqx.nn.make_with_state(Normed)(jax.random.key(1))
    loaded = sx.load(tmp_path / "file", network=with_call(network, call, state=state))
    np.testing.assert_array_equal(loaded.predict(inputs).mean, mean)
    assert loaded.model.example == model.example


def test_a_state_that_differs_between_rows_is_refused():
    def last_seen(network, x, state):
        return network(x), x

    network = eqx.nn.MLP(3, "scalar", 4, 1, key=KEY)
    model = sx.Model(network, PRIOR, GAUSSIAN, call=last_seen, state=jnp.zeros(3))
    with pytest.raises(ValueError, match=r"jax.lax.pmean\(value, 'batch'\)"):
        sx.fit(model, X, Y, STILL, key=KEY)


def test_a_batch_has_one_name():
    network, _ = eqx.nn.make_with_state(Normed)()
    assert batch_axis(network) == "rows"
    assert batch_axis(eqx.nn.MLP(1, 1, 1, 1, key=KEY)) == "batch"
    other, _ = eqx.nn.make_with_state(lambda: Normed(axis_name="batch"))()
    with pytest.raises(ValueError, match="batch, rows"):
        batch_axis((network, other))


# ------------------------------------------------------------------------------------------ keys


def test_dropout_is_off_in_prediction_if_the_key_has_a_default():
    post = sx.fit(dropped(in_training), X, Y, STILL, key=KEY)
    assert post.predict(X, num_draws=5).epistemic.max() < 1e-6
    network = eqx.nn.inference_mode(post.model.network.wrapped_network)
    inputs = post.scaling.inputs(X)
    np.testing.assert_allclose(
        post.predict(X).mean,
        post.scaling.y_mean + post.scaling.y_scale * jax.vmap(network)(inputs),
        rtol=1e-5,
    )


def test_dropout_is_on_in_prediction_if_the_key_has_none():
    """A drawn network is a function: its units are off at all rows, or at none."""
    model = dropped(always)
    post = sx.fit(model, X, Y, STILL, key=KEY)
    num = 400
    predicted = post.predict(X[:3], num_draws=num)
    network, inputs = post.model.network.wrapped_network, post.scaling.inputs(X[:3])
    masks = np.array(np.meshgrid(*[[0, 2]] * 4)).reshape(4, -1).T
    hidden = np.tanh(inputs @ np.asarray(network.first.weight).T + np.asarray(network.first.bias))
    outputs = (hidden[:, None] * masks) @ np.asarray(network.last.weight)[0] + float(
        network.last.bias[0]
    )
    spread = post.scaling.y_scale * outputs.std(axis=1)
    error = predicted.mean - (post.scaling.y_mean + post.scaling.y_scale * outputs.mean(axis=1))
    assert (np.abs(error) < 4 * spread / np.sqrt(num)).all()
    # A variance of N draws has the relative error sqrt((kurtosis - 1) / N), of a bounded variable.
    np.testing.assert_allclose(predicted.epistemic, spread, rtol=4 * np.sqrt(2 / num))
    assert post.predict(X[:3]).num_draws == 100
    again = post.predict(X[:3], num_draws=num)
    np.testing.assert_array_equal(again.mean, predicted.mean)


def test_every_row_and_draw_of_training_has_noise_of_its_own():
    model = dropped(in_training)
    same = np.repeat(X[:1], 64, axis=0)
    outputs, state = model.training_outputs(same, None, key=KEY)
    # Sixteen masks of four units: 64 rows have nearly all of them.
    assert state is None
    assert len(np.unique(outputs)) > 8
    twice, _ = model.training_outputs(same, None, key=KEY)
    np.testing.assert_array_equal(outputs, twice)


def test_training_alone_is_told():
    told = []

    def note(network, x, training):
        told.append(training)
        return network(x)

    model = sx.Model(eqx.nn.MLP(3, "scalar", 4, 1, key=KEY), PRIOR, GAUSSIAN, call=note)
    assert told
    assert not any(told)
    model.training_outputs(X, model.draw(NUM, key=KEY), key=KEY)
    assert told[-1]


def test_mcmc_wants_a_function():
    method = sx.MCMC(num_chains=1, num_warmup=2, num_samples=2, warm_start=False)
    with pytest.raises(ValueError, match="key a default"):
        sx.fit(dropped(always), X, Y, method, key=KEY)
    with pytest.raises(ValueError, match="inference_mode"):
        sx.fit(normed(), {"table": X}, Y, method, key=KEY)


@pytest.mark.filterwarnings("ignore::scalemix.posterior.diagnostics.ConvergenceWarning")
def test_mcmc_takes_several_inputs_and_a_state_that_stays(tmp_path):
    settled = eqx.nn.inference_mode(normed().network.wrapped_network)
    state = normed().network.state
    model = sx.Model(settled, PRIOR, GAUSSIAN, call=call, state=state, example={"table": X[0]})
    method = sx.MCMC(num_chains=1, num_warmup=2, num_samples=4, warm_start=False)
    post = sx.fit(model, {"table": X}, Y, method, key=KEY)
    post.save(tmp_path / "file")
    loaded = sx.load(tmp_path / "file", network=with_call(settled, call, state=state))
    np.testing.assert_array_equal(
        loaded.predict({"table": X}).mean, post.predict({"table": X}).mean
    )
    assert loaded.diagnostics().divergences.shape == (1,)


# -------------------------------------------------------------------------------------- precision


@pytest.mark.parametrize("method", [sx.VariationalEM(steps=3), STILL])
def test_computing_in_bfloat16_is_close(method):
    network = eqx.nn.MLP(3, "scalar", 4, 1, key=KEY)
    half = compute_in(network, jnp.bfloat16)
    assert isinstance(half, CalledNetwork)
    assert half(X[0]).dtype == jnp.float32
    exact = sx.fit(sx.Model(network, PRIOR, GAUSSIAN), X, Y, method, key=KEY)
    rough = sx.fit(sx.Model(half, PRIOR, GAUSSIAN), X, Y, method, key=KEY)
    assert rough.model.dtype == np.float32
    assert np.isfinite(rough.predict(X).mean).all()
    assert not np.array_equal(rough.predict(X).mean, exact.predict(X).mean)
    # At the same weights: inputs, weights, products and biases are rounded to eight bits, twice.
    network = rough.model.network
    first, last = network.wrapped_network.layers
    hidden = np.abs(X) @ np.abs(first.weight).T + np.abs(first.bias)
    largest = np.abs(last.weight) @ hidden.T + np.abs(last.bias)[:, None]
    change = jax.vmap(network)(X) - jax.vmap(network.wrapped_network)(X)
    assert (np.abs(change) <= 8 * 2.0**-8 * largest[0]).all()


def test_keys_and_states_pass_through_another_precision():
    half = compute_in(with_call(Dropped(), in_training), jnp.bfloat16)
    model = sx.Model(half, PRIOR, GAUSSIAN)
    outputs, _ = model.training_outputs(np.repeat(X[:1], 64, axis=0), None, key=KEY)
    assert len(np.unique(outputs)) > 8
    assert outputs.dtype == jnp.float32
    network, state = eqx.nn.make_with_state(Normed)(mode="batch")
    half = compute_in(with_call(network, call, state=state), jnp.bfloat16)
    # A norm of Equinox multiplies data by its state in another type.
    with jax.numpy_dtype_promotion("standard"):
        model = sx.Model(half, PRIOR, GAUSSIAN, example={"table": X[0]})
        post = sx.fit(model, {"table": X}, Y, STILL, key=KEY)
    mean, _ = post.model.network.state.get(network.norm.batch_state_index)
    assert mean.dtype == jnp.float32
    assert np.abs(mean).max() > 0
    # A second call= around it would not reach the first.
    with pytest.raises(ValueError, match="has a call of its own"):
        sx.Model(half, PRIOR, GAUSSIAN, call=lambda net, x, key=None: net(x))


def test_inputs_may_come_in_bfloat16():
    post = sx.fit(dropped(in_training), jnp.asarray(X, jnp.bfloat16), Y, STILL, key=KEY)
    assert np.isfinite(post.predict(jnp.asarray(X, jnp.bfloat16)).mean).all()


# ------------------------------------------------------------------------------------- bad calls


@pytest.mark.parametrize(
    ("function", "state", "message"),
    [
        (lambda network: network, None, r"got a function of \(network\)"),
        (lambda network, x, flag: x, None, r"any of key, state, training"),
        (lambda network, x, state: (x, state), None, "pass the first one as state="),
        (lambda network, x: x, jnp.zeros(1), "call does not take it"),
        ("predict", None, "call must be a function"),
        (lambda network, x, state: network(x), jnp.zeros(1), r"must return \(output, state\)"),
    ],
)
def test_bad_calls_are_refused(function, state, message):
    network = eqx.nn.MLP(3, "scalar", 4, 1, key=KEY)
    with pytest.raises(ValueError, match=message):
        sx.Model(network, PRIOR, GAUSSIAN, call=function, state=state, example=X[0])


def test_a_network_with_a_state_needs_no_call():
    class Plain(Normed):
        def __call__(self, x, state):
            output, state = super().__call__(x, state, key=KEY)
            return output["mean"], state

    network, state = eqx.nn.make_with_state(Plain)()
    model = sx.Model(network, PRIOR, GAUSSIAN, state=state)
    post = sx.fit(model, X, Y, sx.VariationalEM(steps=2), key=KEY)
    assert np.isfinite(post.predict(X).mean).all()
