"""Stochastic depth as a prior."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx

KEY = jax.random.key(0)


class TwoLayerBlocks(eqx.Module):
    """A residual network of the user's own, whose blocks have two layers."""

    inner: list[eqx.nn.Linear]
    outer: list[eqx.nn.Linear]
    head: eqx.nn.Linear

    def __init__(self, num_blocks, key):
        keys = jax.random.split(key, 2 * num_blocks + 1)
        self.inner = [eqx.nn.Linear(4, 4, key=k) for k in keys[:num_blocks]]
        self.outer = [eqx.nn.Linear(4, 4, use_bias=False, key=k) for k in keys[num_blocks:-1]]
        self.head = eqx.nn.Linear(4, "scalar", key=keys[-1])

    def __call__(self, x):
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = x + outer(jax.nn.relu(inner(x)))
        return self.head(x)


def keeps(prior):
    assert {type(structure) for structure in prior.values()} == {sx.ADD}
    return [structure.mixture.keep for structure in prior.values()]


@pytest.mark.parametrize(("num", "last"), [(1, 0.3), (4, 0.5), (54, 0.5), (3, 1.0)])
def test_survival_falls_linearly(num, last):
    names = [f"blocks.{i}" for i in range(num)]
    prior = sx.stochastic_depth(names, last, scale=2.0)
    assert list(prior) == names
    np.testing.assert_allclose(keeps(prior), np.linspace(1, last, num + 1)[1:], rtol=1e-9)
    assert {structure.scale for structure in prior.values()} == {2.0}


def test_layers_of_a_resnet_survive_as_often_as_they_should():
    network = sx.networks.ResNet(3, "scalar", 6, 4, key=KEY)
    prior = sx.stochastic_depth(network, 0.4)
    model = sx.Model(network, prior, sx.likelihoods.Gaussian(), frozen=["blocks.*.bias"])
    num = 4000
    scales = model.draw(num, key=KEY)
    assert list(scales) == ["blocks.0", "blocks.1", "blocks.2"]
    for survival, site in zip((0.8, 0.6, 0.4), scales.values(), strict=True):
        error = np.sqrt(survival * (1 - survival) / num)
        assert abs(np.mean(site["layer"]) - survival) < 4 * error
    # Without their weights, and with biases of zero, the layers are not there.
    none = jax.tree.map(jnp.zeros_like, model.draw(key=KEY))
    x = jnp.array([0.3, -1.0, 2.0])
    shallow = network.last(jax.nn.relu(network.first(x)))
    np.testing.assert_allclose(model.with_scales(none)(x), shallow, rtol=1e-6)


def test_blocks_of_a_network_of_ones_own_are_dropped_whole():
    network = TwoLayerBlocks(2, KEY)
    prior = sx.stochastic_depth(["outer.0", "outer.1"])
    model = sx.Model(network, prior, sx.likelihoods.Gaussian())
    assert [model.structures[name].mixture.keep for name in prior] == [0.75, 0.5]
    x = jnp.array([0.3, -1.0, 2.0, 0.5])
    scales = jax.tree.map(jnp.zeros_like, model.draw(key=KEY))
    np.testing.assert_allclose(model.with_scales(scales)(x), network.head(x), rtol=1e-6)


def test_what_it_cannot_make_a_prior_of():
    with pytest.raises(ValueError, match=r"one of each residual block.*inner.0, .*head"):
        sx.stochastic_depth(TwoLayerBlocks(2, KEY))  # pyright: ignore
    for blocks in ("blocks.0", [], [0, 1]):
        with pytest.raises(ValueError, match="one of each residual block"):
            sx.stochastic_depth(blocks)
    with pytest.raises(ValueError, match="named twice"):
        sx.stochastic_depth(["a", "b", "a"])
    with pytest.raises(ValueError, match="depth of 2"):
        sx.stochastic_depth(sx.networks.ResNet(3, 1, 4, 1, key=KEY))
    for last in (0.0, 1.5, "half"):
        with pytest.raises(ValueError, match=r"must lie in \(0, 1\]"):
            sx.stochastic_depth(["a"], last)
    # A layer that nothing leads around is refused by the model.
    network = sx.networks.MLP(3, "scalar", 4, 2, key=KEY)
    with pytest.raises(ValueError, match="no path leads around this layer"):
        sx.Model(network, sx.stochastic_depth(["layers.1"]), sx.likelihoods.Gaussian())
