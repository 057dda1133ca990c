"""Dense layers laid out for batches compute what they computed."""

import equinox as eqx
import jax
import numpy as np
import pytest

from scalemix.networks import MLP, ResNet
from scalemix.networks.layouts import ColumnLinear, in_columns

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
LAYERS = {
    "dense": eqx.nn.Linear(3, 2, key=KEY),
    "plain": eqx.nn.Linear(3, 2, use_bias=False, key=KEY),
    "to scalar": eqx.nn.Linear(3, "scalar", key=KEY),
    "norm": eqx.nn.LayerNorm(3),
}


@pytest.mark.parametrize("network", [MLP(3, 2, 4, 2, key=KEY), ResNet(3, "scalar", 4, 2, key=KEY)])
def test_the_function_and_its_gradient_stay_the_same(network):
    def loss(network):
        return (jax.vmap(network)(X) ** 2).sum()

    (value, slope), (other, other_slope) = (
        eqx.filter_jit(jax.value_and_grad(loss))(net) for net in (network, in_columns(network))
    )
    np.testing.assert_allclose(value, other, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(other_slope), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_columns_leave_other_layers_alone():
    changed = in_columns(LAYERS)
    assert isinstance(changed["dense"], ColumnLinear)
    assert isinstance(changed["dense"], eqx.nn.Linear)
    for name in ("plain", "to scalar", "norm"):
        assert type(changed[name]) is type(LAYERS[name])
