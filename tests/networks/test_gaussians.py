"""Gaussian weights in a network, drawn as pre-activations and as weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks.gaussians import draw_network, put_gaussians
from scalemix.networks.sites import find_sites

KEY = jax.random.key(0)
LAYERS = {
    "Linear": (lambda: eqx.nn.Linear(3, 2, key=KEY), (3,)),
    "Linear without bias": (lambda: eqx.nn.Linear(3, 2, use_bias=False, key=KEY), (3,)),
    "Conv2d": (lambda: eqx.nn.Conv2d(2, 2, 3, padding=1, key=KEY), (2, 3, 3)),
    "Conv1d grouped": (lambda: eqx.nn.Conv1d(4, 2, 2, groups=2, key=KEY), (4, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_pre_activations_have_the_moments_that_weights_give(name):
    build, shape = LAYERS[name]
    layer = build()
    sites = find_sites(layer)
    (site,) = sites
    deviations = {site.name: 0.1 + jax.random.uniform(KEY, site.shape)}
    x = jax.random.normal(jax.random.key(1), shape)
    keys = jax.random.split(jax.random.key(2), 20_000)
    local = jax.vmap(lambda k: put_gaussians(layer, sites, deviations, k)(x))(keys)
    drawn = jax.vmap(lambda k: draw_network(layer, sites, deviations, k)(x))(keys)
    error = np.sqrt(2.0 / len(keys))
    deviation = np.asarray(drawn.std(axis=0))
    assert np.all(np.abs(local.mean(axis=0) - layer(x)) < 5 * error * deviation)
    assert np.all(np.abs(drawn.mean(axis=0) - layer(x)) < 5 * error * deviation)
    np.testing.assert_allclose(local.std(axis=0), deviation, rtol=5 * error)


def test_a_unit_that_is_off_has_a_finite_gradient():
    layer = eqx.nn.Linear(3, 2, key=KEY)
    sites = find_sites(layer)

    def output(log_deviation, x):
        deviations = {"network": jnp.exp(log_deviation)}
        return jnp.sum(put_gaussians(layer, sites, deviations, KEY)(x))

    slopes = jax.grad(output, argnums=(0, 1))(jnp.full((2, 3), -18.0), jnp.zeros(3))
    assert all(np.isfinite(slope).all() for slope in slopes)


def test_the_other_sign_is_the_mirror_image():
    layer = eqx.nn.Linear(3, 2, key=KEY)
    sites = find_sites(layer)
    x = jnp.ones(3)
    plus, minus = (
        put_gaussians(layer, sites, {"network": jnp.ones((2, 3))}, KEY, sign)(x)
        for sign in (1.0, -1.0)
    )
    np.testing.assert_allclose(0.5 * (plus + minus), layer(x), rtol=1e-5)
    assert not np.allclose(plus, minus)
