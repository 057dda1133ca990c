"""Dense layers laid out for batches compute what they computed."""

import equinox as eqx
import jax
import numpy as np
import pytest

from scalemix.networks import MLP, ResNet
from scalemix.networks.columns import ColumnLinear, with_columns

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (7, 3))


@pytest.mark.parametrize("network", [MLP(3, 2, 4, 2, key=KEY), ResNet(3, "scalar", 4, 2, key=KEY)])
def test_the_function_and_its_gradient_stay_the_same(network):
    def loss(network):
        return (jax.vmap(network)(X) ** 2).sum()

    (value, slope), (other, other_slope) = (
        jax.value_and_grad(loss)(net) for net in (network, with_columns(network))
    )
    np.testing.assert_allclose(value, other, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(other_slope), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_other_layers_are_left_alone():
    layers = {
        "dense": eqx.nn.Linear(3, 2, key=KEY),
        "plain": eqx.nn.Linear(3, 2, use_bias=False, key=KEY),
        "scalar": eqx.nn.Linear(3, "scalar", key=KEY),
        "norm": eqx.nn.LayerNorm(3),
    }
    changed = with_columns(layers)
    assert isinstance(changed["dense"], ColumnLinear)
    assert isinstance(changed["dense"], eqx.nn.Linear)
    for name in ("plain", "scalar", "norm"):
        assert type(changed[name]) is type(layers[name])
