"""Every kind of group passes these unasked."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks.groups import GROUPS

KEY = jax.random.key(0)
LAYERS = {
    "Linear": eqx.nn.Linear(4, 3, key=KEY),
    "Conv2d grouped": eqx.nn.Conv2d(4, 6, 2, groups=2, key=KEY),
}


def spread(group, layer):
    """The number of the scale that each weight has."""
    (site,) = sx.networks.find_sites(layer)
    shape = group.shape(site)
    numbers = jnp.arange(np.prod(shape, dtype=int), dtype=jnp.float32).reshape(shape)
    return site, numbers, np.broadcast_to(group.expand(site, layer, numbers), site.shape)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", GROUPS)
def test_sums_run_over_the_weights_that_share_a_scale(name, layer):
    group, layer = GROUPS[name], LAYERS[layer]
    site, numbers, owner = spread(group, layer)
    values = np.asarray(jax.random.normal(KEY, site.shape))
    sums = group.sum_weights(site, layer, jnp.asarray(values))
    expected = [values[owner == number].sum() for number in np.ravel(numbers)]
    np.testing.assert_allclose(np.ravel(sums), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", [name for name, group in GROUPS.items() if group.by_row])
def test_rows_are_between_scales_and_weights(name, layer):
    group, layer = GROUPS[name], LAYERS[layer]
    site, numbers, owner = spread(group, layer)
    rows = jnp.broadcast_to(group.rows(site, numbers), (site.num_rows,))
    np.testing.assert_array_equal(np.broadcast_to(site.rule.expand(layer, rows), site.shape), owner)
    values = np.arange(1.0, site.num_rows + 1, dtype=np.float32)
    expected = [values[np.asarray(rows) == number].sum() for number in np.ravel(numbers)]
    sums = group.sum_rows(site, jnp.asarray(values))
    np.testing.assert_allclose(np.ravel(sums), expected, rtol=1e-6)


@pytest.mark.parametrize("name", GROUPS)
def test_a_smaller_layer_keeps_the_scales_of_what_is_left(name):
    group, layer = GROUPS[name], LAYERS["Linear"]
    _, numbers, owner = spread(group, layer)
    rows, outputs = [0, 3], [1, 2]
    small = eqx.nn.Linear(2, 2, key=KEY)
    (site,) = sx.networks.find_sites(small)
    left = group.take(np.asarray(numbers), rows, outputs)
    assert left.shape == group.shape(site)
    kept = np.broadcast_to(group.expand(site, small, jnp.asarray(left)), site.shape)
    np.testing.assert_array_equal(kept, owner[outputs][:, rows])
