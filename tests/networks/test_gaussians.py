"""Gaussian weights in a network, drawn as pre-activations and as weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks.gaussians import draw_network, noise_sizes, put_gaussians
from scalemix.networks.sites import find_sites

KEY = jax.random.key(0)
LAYERS = {
    "Linear": (lambda: eqx.nn.Linear(3, 2, key=KEY), (3,)),
    "Linear without bias": (lambda: eqx.nn.Linear(3, 2, use_bias=False, key=KEY), (3,)),
    "Conv2d": (lambda: eqx.nn.Conv2d(2, 2, 3, padding=1, key=KEY), (2, 3, 3)),
    "Conv1d grouped": (lambda: eqx.nn.Conv1d(4, 2, 2, groups=2, key=KEY), (4, 4)),
}


def noise_of(network, sites, x, key):
    sizes = noise_sizes(network, sites, x)
    return {name: jax.random.normal(key, (size,)) for name, size in sizes.items()}


@pytest.mark.parametrize("name", LAYERS)
def test_pre_activations_have_the_moments_that_weights_give(name):
    build, shape = LAYERS[name]
    layer = build()
    sites = find_sites(layer)
    (site,) = sites
    deviations = {site.name: 0.1 + jax.random.uniform(KEY, site.shape)}
    x = jax.random.normal(jax.random.key(1), shape)
    keys = jax.random.split(jax.random.key(2), 20_000)

    def pass_of(key):
        return put_gaussians(layer, sites, deviations, noise_of(layer, sites, x, key))(x)

    local = jax.vmap(pass_of)(keys)
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
        noise = noise_of(layer, sites, x, KEY)
        return jnp.sum(put_gaussians(layer, sites, deviations, noise)(x))

    slopes = jax.grad(output, argnums=(0, 1))(jnp.full((2, 3), -18.0), jnp.zeros(3))
    assert all(np.isfinite(slope).all() for slope in slopes)


def test_a_layer_that_is_called_twice_has_one_draw_that_fits_both():
    class Twice(eqx.Module):
        conv: eqx.nn.Conv1d
        unused: eqx.nn.Linear

        def __call__(self, x):
            return jnp.sum(self.conv(x)) + jnp.sum(self.conv(x[:, :3]))

    network = Twice(eqx.nn.Conv1d(2, 2, 2, use_bias=False, key=KEY), eqx.nn.Linear(2, 2, key=KEY))
    sites, x = find_sites(network), jnp.ones((2, 5))
    assert noise_sizes(network, sites, x) == {"conv": 8, "unused": 0}
    zero = {site.name: jnp.zeros(site.shape) for site in sites}
    drawn = put_gaussians(network, sites, zero, noise_of(network, sites, x, KEY))(x)
    np.testing.assert_allclose(drawn, network(x), rtol=1e-4)
