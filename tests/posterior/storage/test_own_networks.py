"""Networks that scalemix does not know: the file has the arrays, the caller the code."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks import MLP
from scalemix.posterior import storage
from scalemix.posterior.storage.skeletons import check_settings, settings_of
from tests.posterior.storage import cases
from tests.posterior.storage.cases import KEY, X, assert_same, noisy


class Net(eqx.Module):
    parts: dict
    gain: float
    table: jax.Array
    act: object

    def __init__(self, width=4, gain=2.0, *, key=KEY):
        one, two = jax.random.split(key)
        self.parts = {
            "in": eqx.nn.Linear(3, width, key=one),
            "norm": eqx.nn.LayerNorm(width),
            "out": eqx.nn.Linear(width, "scalar", key=two),
        }
        self.gain, self.table, self.act = gain, jnp.arange(3), jnp.sin

    def __call__(self, x):
        x = x + self.table.astype(x.dtype)
        return self.parts["out"](self.parts["norm"](self.gain * self.act(self.parts["in"](x))))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.scalemix"


def test_a_skeleton_takes_the_arrays(path):
    posterior = noisy(network=Net())
    posterior.save(path)
    told = storage.info(path)
    assert (told.network, told.needs_network) == ("Net", True)
    other = Net(key=jax.random.key(77))
    before = np.asarray(other.parts["in"].weight)
    loaded = sx.load(path, network=other)
    assert_same(posterior, loaded)
    np.testing.assert_array_equal(posterior.predict(X).mean, loaded.predict(X).mean)
    # The skeleton itself is left alone, and need not hold any numbers.
    np.testing.assert_array_equal(before, other.parts["in"].weight)
    assert_same(posterior, sx.load(path, network=eqx.filter_eval_shape(Net)))


def test_ensembles_take_the_skeleton_of_one_member(path):
    posterior = cases.ensemble(network=Net())
    posterior.save(path)
    loaded = sx.load(path, network=Net())
    assert_same(posterior, loaded)
    assert loaded.model.sites == noisy(network=Net()).model.sites


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (None, "holds no code, and its network is of the class 'Net'.*Pass network="),
        (Net(width=5), r"'parts.in.weight' has the shape \(4, 3\) in the file and \(5, 3\)"),
        (
            eqx.tree_at(lambda n: n.table, Net(), jnp.zeros(3)),
            "'table' has the dtype int32 in the file and float32 in the network",
        ),
        (MLP(3, 1, 4, 1, key=KEY), "the file has an array 'parts.in.weight', and the network"),
        (
            eqx.tree_at(lambda n: n.act, Net(), jnp.zeros(3)),
            "the network has an array 'act', and the file has none",
        ),
        (Net(gain=3.0), "'gain' is 2.0 in the file and 3.0 in the network"),
    ],
)
def test_the_first_difference_is_named(network, reason, path):
    noisy(network=Net()).save(path)
    with pytest.raises(ValueError, match=reason) as error:
        sx.load(path, network=network)
    assert str(error.value).startswith(str(path))


def test_activations_of_ones_own_need_the_skeleton(path):
    def wave(x):
        return jnp.sin(x)

    network = MLP(3, "scalar", 4, 1, activation=wave, key=KEY)
    posterior = noisy(network=network)
    posterior.save(path)
    with pytest.raises(ValueError, match=r"an activation that is not in jax\.nn"):
        sx.load(path)
    assert_same(posterior, sx.load(path, network=network))


def test_a_layer_put_into_a_known_network_needs_the_skeleton(path):
    class Doubled(eqx.nn.Linear):
        def __call__(self, x, *, key=None):
            return 2 * super().__call__(x)

    network = MLP(3, 1, 4, 1, key=KEY)
    network = eqx.tree_at(lambda n: n.layers[0], network, Doubled(3, 4, key=KEY))
    posterior = noisy(network=network)
    posterior.save(path)
    assert storage.info(path).needs_network
    assert_same(posterior, sx.load(path, network=network))


def test_a_skeleton_may_be_given_for_a_known_network(path):
    posterior = cases.ensemble()
    posterior.save(path)
    assert_same(posterior, sx.load(path, network=MLP(3, "scalar", 5, 1, key=jax.random.key(1))))
    with pytest.raises(ValueError, match=r"has the shape \(5, 3\) in the file and \(6, 3\)"):
        sx.load(path, network=MLP(3, "scalar", 6, 1, key=KEY))


def test_keys_inside_a_network_are_refused(path):
    network = eqx.tree_at(lambda n: n.table, Net(), jax.random.key(0))
    with pytest.raises(ValueError, match=r"'network.table' is a PRNG key"):
        cases.posterior(
            eqx.tree_at(lambda n: n.model.network, noisy(network=Net()).networks, network)
        ).save(path)


@pytest.mark.parametrize(
    ("saved", "other", "says"),
    [
        (
            lambda: eqx.nn.MLP(3, "scalar", 4, 1, key=KEY),
            lambda: eqx.nn.MLP(3, "scalar", 4, 1, activation=jnp.tanh, key=KEY),
            "'activation' is relu in the file and tanh in the network",
        ),
        (
            lambda: Mixed(eqx.nn.MultiheadAttention(2, 4, key=KEY)),
            lambda: Mixed(eqx.nn.MultiheadAttention(4, 4, key=KEY)),
            "'mixer.num_heads' is 2 in the file and 4 in the network",
        ),
    ],
)
def test_a_network_with_the_same_arrays_and_other_settings_is_refused(saved, other, says, tmp_path):
    shape = (3,) if "activation" in says else (2, 4)
    likelihood = sx.likelihoods.Gaussian()
    model = sx.Model(saved(), sx.ARD(sx.Bernoulli(0.9)), likelihood, example=jnp.ones(shape))
    rng = np.random.default_rng(0)
    method = sx.NoiseTraining(steps=1, num_draws=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = sx.fit(model, rng.normal(size=(9, *shape)), rng.normal(size=9), method, key=KEY)
    post.save(tmp_path / "one")
    sx.load(tmp_path / "one", network=saved())
    with pytest.raises(ValueError, match=says):
        sx.load(tmp_path / "one", network=other())


class Valued(eqx.Module):
    value: Any


def test_one_number_is_written_in_one_way():
    one = settings_of(Valued(1.0))
    for same in (1, 1.0, np.float64(1.0), np.float32(1.0)):
        check_settings(Valued(same), one)
        check_settings(Valued(1.0), settings_of(Valued(same)))
    for other in (1.5, np.float32(2.0), "1.0"):
        with pytest.raises(ValueError, match=r"'value' is 1\.0 in the file"):
            check_settings(Valued(other), one)


class Mixed(eqx.Module):
    mixer: eqx.nn.MultiheadAttention

    def __call__(self, x):
        return self.mixer(x, x, x)[0, 0]
