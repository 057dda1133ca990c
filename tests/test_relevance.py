"""What relevance says of posteriors whose answer is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.distributions import Ensemble, GaussianNetworks, OneNetwork
from scalemix.networks import MLP, ResNet
from scalemix.networks.readers import input_sites
from scalemix.networks.sites import find_sites
from scalemix.posterior import History, Posterior
from scalemix.scaling import Scaling

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()
SCALING = Scaling(np.zeros(0), np.ones(0), 0.0, 1.0)
HISTORY = History(np.zeros(1), np.zeros(0), {})


def posterior_of(networks):
    return Posterior(networks, SCALING, HISTORY, KEY)


def gaussians(model, deviation, variances):
    deviations = {name: jnp.full_like(w, deviation) for name, w in model.weights.items()}
    return GaussianNetworks(model, deviations, variances)


@pytest.fixture(scope="module")
def networks():
    """Two inputs, three hidden units; the middle unit's outgoing weight is all noise."""
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    model = model.with_weights(
        {
            "layers.0": jnp.array([[1.0, 0.1], [1.0, 0.1], [1.0, 0.1]]),
            "layers.1": jnp.array([[2.0, 0.001, 1.0]]),
        }
    )
    variances = {"layers.0": {"unit": jnp.array([3.0, 1.0])}, "layers.1": {"unit": jnp.ones(3)}}
    return gaussians(model, 0.1, variances)


def test_shares_and_ratios_are_those_of_the_definition(networks):
    found = posterior_of(networks).relevance()
    np.testing.assert_allclose(found.inputs, [0.75, 0.25], rtol=1e-6)
    np.testing.assert_allclose(found.signal_to_noise.inputs, [100.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose(found.units["layers.1"], np.full(3, 1 / 3), rtol=1e-6)
    np.testing.assert_allclose(
        found.signal_to_noise.units["layers.1"], [400.0, 1e-4, 100.0], rtol=1e-4
    )
    # Layer 0 has a prior variance of 2 a weight, layer 1 of 1.
    assert found.layers == pytest.approx({"layers.0": 2 / 3, "layers.1": 1 / 3})
    assert found.signal_to_noise.layers["layers.1"] == pytest.approx(5.000001 / 0.03, rel=1e-4)
    assert set(found.units) == {"layers.1"}


def test_a_unit_without_signal_is_off(networks):
    found = posterior_of(networks).relevance()
    np.testing.assert_array_equal(found.units_on["layers.1"], [True, False, True])
    assert found.effective_width == {"layers.1": 2.0}
    assert found.effective_depth == 1.0
    assert "2 of 3 units on" in str(found)
    # A laxer and a stricter rule.
    assert posterior_of(networks).relevance(threshold=1e-5).effective_width["layers.1"] == 3
    assert posterior_of(networks).relevance(threshold=200.0).effective_width["layers.1"] == 1


def test_weights_that_are_nothing_are_off_however_sure():
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    weights = model.weights | {"layers.1": jnp.array([[1.0, 1e-6, 1.0]])}
    found = posterior_of(OneNetwork(model.with_weights(weights))).relevance()
    np.testing.assert_array_equal(found.units_on["layers.1"], [True, False, True])
    assert np.isinf(found.signal_to_noise.units["layers.1"][0])


def test_a_layer_is_off_with_all_its_units():
    model = sx.Model(ResNet(2, "scalar", 4, 3, key=KEY), sx.ARDADD(sx.HalfCauchy(1.0)), GAUSSIAN)
    weights = {name: jnp.ones_like(w) for name, w in model.weights.items()}
    weights["blocks.1"] = jnp.full((4, 4), 1e-3)
    variances = {
        name: {group: jnp.ones(shape) for group, shape in groups.items()}
        for name, groups in model.scale_shapes.items()
    }
    found = posterior_of(gaussians(model.with_weights(weights), 0.1, variances)).relevance()
    assert {name: bool(on) for name, (on,) in found.layers_on.items()} == {
        "first": True,
        "blocks.0": True,
        "blocks.1": False,
        "last": True,
    }
    assert found.effective_depth == 2
    assert "0 of 4 units on, off" in str(found)


def test_members_of_an_ensemble_are_averaged_but_their_units_are_not(networks):
    other = eqx.tree_at(lambda n: n.variances["layers.0"]["unit"], networks, jnp.array([1.0, 3.0]))
    stacked = jax.tree.map(lambda a, b: jnp.stack([a, b]), networks, other)
    history = History(np.zeros((2, 1)), np.zeros((2, 0)), {})
    posterior = Posterior(Ensemble(stacked, 2), SCALING, history, KEY)
    found = posterior.relevance()
    np.testing.assert_allclose(found.inputs, [0.5, 0.5], rtol=1e-6)
    assert found.units["layers.1"].shape == (2, 3)
    assert found.effective_width == {"layers.1": 2.0}
    assert "2 of 3 units on" in str(found)


def test_noise_has_a_ratio_of_its_family():
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.Bernoulli(0.8)), GAUSSIAN)
    x = np.random.default_rng(0).normal(size=(20, 2))
    posterior = sx.fit(model, x, x[:, 0], sx.NoiseTraining(steps=5), key=KEY)
    found = posterior.relevance()
    # mean^2 / variance of Bernoulli noise, whatever the weights.
    np.testing.assert_allclose(found.signal_to_noise.inputs, [0.8 / 0.2] * 2, rtol=1e-4)
    squares = np.asarray(posterior.model.weights["layers.0"]) ** 2
    np.testing.assert_allclose(found.inputs, squares.sum(0) / squares.sum(), rtol=1e-4)


def test_noise_without_a_variance_is_refused():
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    x = np.random.default_rng(0).normal(size=(20, 2))
    posterior = sx.fit(model, x, x[:, 0], sx.NoiseTraining(steps=5), key=KEY)
    with pytest.raises(ValueError, match=r"noise on 'layers\.0' has no variance"):
        posterior.relevance()


def test_names_must_fit(networks):
    found = posterior_of(networks).relevance()
    assert "age" in found.table(["age", "height"])
    assert "... and 1 inputs more" in found.table(["age", "height"], top=1)
    with pytest.raises(ValueError, match="2 inputs and 1 names"):
        found.table(["age"])
    with pytest.raises(ValueError, match="threshold"):
        posterior_of(networks).relevance(threshold=-1.0)


class TwoReaders(eqx.Module):
    """A hidden layer, and a linear way past it from the same inputs."""

    deep: eqx.nn.Linear
    out: eqx.nn.Linear
    past: eqx.nn.Linear

    def __call__(self, x):
        return self.out(jnp.tanh(self.deep(x))) + self.past(x)


class Doubled(eqx.Module):
    """Reads a changed input, so that no layer is called on the input as it is."""

    layer: eqx.nn.Linear

    def __call__(self, x):
        return self.layer(2 * x)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (MLP(5, "scalar", 3, 2, key=KEY), ["layers.0"]),
        (ResNet(5, "scalar", 3, 3, key=KEY), ["first"]),
        (eqx.nn.MLP(5, 1, 3, 2, key=KEY), ["layers.0"]),
        (
            TwoReaders(
                eqx.nn.Linear(4, 6, key=KEY),
                eqx.nn.Linear(6, 1, key=KEY),
                eqx.nn.Linear(4, 1, key=KEY),
            ),
            ["deep", "past"],
        ),
        (Doubled(eqx.nn.Linear(3, 1, key=KEY)), ["layer"]),
        (eqx.nn.Conv2d(3, 2, 3, key=KEY), ["network"]),
    ],
)
def test_the_layers_that_read_the_inputs_are_found(network, expected):
    assert [site.name for site in input_sites(network, find_sites(network))] == expected
