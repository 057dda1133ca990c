"""Dense layers laid out for batches compute what they computed."""

import equinox as eqx
import jax
import numpy as np
import pytest

from scalemix.networks import MLP, ResNet
from scalemix.networks.layouts import ColumnLinear, RowLinear, in_columns, in_rows

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
LAYERS = {
    "dense": eqx.nn.Linear(3, 2, key=KEY),
    "plain": eqx.nn.Linear(3, 2, use_bias=False, key=KEY),
    "to scalar": eqx.nn.Linear(3, "scalar", key=KEY),
    "norm": eqx.nn.LayerNorm(3),
}


@pytest.mark.parametrize("lay_out", [in_rows, in_columns])
@pytest.mark.parametrize("network", [MLP(3, 2, 4, 2, key=KEY), ResNet(3, "scalar", 4, 2, key=KEY)])
def test_the_function_and_its_gradient_stay_the_same(network, lay_out):
    def loss(network):
        return (jax.vmap(network)(X) ** 2).sum()

    (value, slope), (other, other_slope) = (
        eqx.filter_jit(jax.value_and_grad(loss))(net) for net in (network, lay_out(network))
    )
    np.testing.assert_allclose(value, other, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(other_slope), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_rows_are_for_every_dense_layer():
    changed = in_rows({**LAYERS, "from scalar": eqx.nn.Linear("scalar", 2, key=KEY)})
    for name in ("dense", "plain", "to scalar"):
        assert isinstance(changed[name], RowLinear)
        np.testing.assert_allclose(changed[name](X[0]), LAYERS[name](X[0]), rtol=1e-5)
        assert changed[name](X[0]).shape == LAYERS[name](X[0]).shape
    assert changed["from scalar"](X[0, 0]).shape == (2,)
    assert type(changed["norm"]) is eqx.nn.LayerNorm


def test_columns_leave_other_layers_alone():
    changed = in_columns(LAYERS)
    assert isinstance(changed["dense"], ColumnLinear)
    assert isinstance(changed["dense"], eqx.nn.Linear)
    for name in ("plain", "to scalar", "norm"):
        assert type(changed[name]) is type(LAYERS[name])
