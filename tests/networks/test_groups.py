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
    "Linear stacked": eqx.filter_vmap(lambda key: eqx.nn.Linear(4, 3, key=key))(
        jax.random.split(KEY, 2)
    ),
    "Embedding": eqx.nn.Embedding(5, 4, key=KEY),
    "ColumnLinear": sx.networks.ColumnLinear((1, 0, 1, 1), 3, (0, 1, 2, 2), key=KEY),
    "LevelTable": sx.networks.LevelTable(4, 3, key=KEY),
    "heads": eqx.nn.MultiheadAttention(2, 4, key=KEY),
}


def has(group, layer):
    """Whether a layer has such groups; what it says where it has not is tested below."""
    try:
        GROUPS[group].shape(site_of(LAYERS[layer]))
    except ValueError:
        return False
    return True


def site_of(layer):
    return sx.networks.find_sites(layer)[-1]


PAIRS = [(name, layer) for name in GROUPS for layer in LAYERS if has(name, layer)]


def test_every_group_has_a_layer_and_others_say_what_they_lack():
    assert {name for name, _ in PAIRS} == set(GROUPS)
    says = {
        "output": "output_axis=",
        "token": "token_axis=",
        "head": "MultiheadAttention has them",
        "column": "Only ColumnLinear and LevelTable of",
    }
    for name, message in says.items():
        lacking = [layer for layer in LAYERS if not has(name, layer)]
        with pytest.raises(ValueError, match=message):
            GROUPS[name].shape(site_of(LAYERS[lacking[0]]))


def spread(group, layer):
    """The number of the scale that each weight has."""
    site = site_of(layer)
    shape = group.full_shape(site)
    numbers = jnp.arange(np.prod(shape, dtype=int), dtype=jnp.float32).reshape(shape)
    return site, numbers, np.broadcast_to(group.expand(site, numbers), site.shape)


@pytest.mark.parametrize(("name", "layer"), PAIRS)
def test_sums_run_over_the_weights_that_share_a_scale(name, layer):
    group, layer = GROUPS[name], LAYERS[layer]
    site, numbers, owner = spread(group, layer)
    values = np.asarray(jax.random.normal(KEY, site.shape))
    sums = group.sum_weights(site, jnp.asarray(values))
    expected = [values[owner == number].sum() for number in np.ravel(numbers)]
    np.testing.assert_allclose(np.ravel(sums), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "layer"), [pair for pair in PAIRS if GROUPS[pair[0]].by_row])
def test_rows_are_between_scales_and_weights(name, layer):
    group, layer = GROUPS[name], LAYERS[layer]
    site, numbers, owner = spread(group, layer)
    rows = group.vector(site, numbers)
    assert rows.shape == (*site.stack, site.num_rows)
    np.testing.assert_array_equal(
        np.broadcast_to(GROUPS["unit"].expand(site, rows), site.shape), owner
    )
    values = 1 + np.arange(np.prod(rows.shape), dtype=np.float32).reshape(rows.shape)
    expected = [values[np.asarray(rows) == number].sum() for number in np.ravel(numbers)]
    sums = group.sum_rows(site, jnp.asarray(values))
    np.testing.assert_allclose(np.ravel(sums), expected, rtol=1e-6)


def test_scales_that_a_layer_lacks_are_sent_to_those_that_have_them():
    mixer = eqx.nn.MultiheadAttention(2, 4, key=KEY)
    message = r"on 'query_proj'.*layers that have them \(output_proj\): \{'output_proj': ARD"
    with pytest.raises(ValueError, match=message):
        sx.Model(mixer, sx.ARD(sx.HalfCauchy(1.0), by="head"), sx.likelihoods.Gaussian())
