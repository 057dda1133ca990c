"""Gaussian weights in a network: in training's pass they are what drawn weights are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks.gaussians import (
    draw_network,
    draw_noise,
    find_uses,
    gaussian_weights,
    run_with_weights,
)
from scalemix.networks.sites import find_sites
from tests.networks.cases import KEY, NETWORKS, Chain, assert_same_moments

NUM_PASSES = 20_000
X = np.random.default_rng(1).normal(size=6).astype(np.float32)


def both_ways(network, x, num=NUM_PASSES):
    """Outputs of training's pass and of networks with weights drawn, (num, outputs) each."""
    sites = find_sites(network)
    rng = np.random.default_rng(2)
    deviations = {
        site.name: rng.uniform(0.2, 0.8, size=site.shape).astype(np.float32) for site in sites
    }
    uses = find_uses(network, sites, x[None])

    def trained(key):
        noise = draw_noise(uses, (), key)
        sign = jax.random.rademacher(jax.random.fold_in(key, 2**31), (), float)
        weights = gaussian_weights(network, sites, uses, deviations, noise, sign)
        return run_with_weights(network, sites, weights, x)

    keys = jax.random.split(jax.random.key(2), num)
    drawn = jax.jit(jax.vmap(lambda key: draw_network(network, sites, deviations, key)(x)))
    return jax.jit(jax.vmap(trained))(keys), drawn(jax.random.split(jax.random.key(3), num))


# A weight that acts once is drawn in one way and all others in another: that all networks are told
# apart is asserted below. One of each kind of layer, and of each kind of loop, in `make test`; the
# networks that repeat one of them in other clothes in `make test-all`.
REPEATED = {
    "no bias", "kernel as large as the input", "called twice", "scanned, checkpointed",
    "a subclass that is not linear", "jit and checkpoint", "cond", "a matrix at once", "LSTM",
    "rounded", "complex", "half precision",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in REPEATED else []) for n in NETWORKS],
)
def test_a_pass_of_training_has_the_moments_of_drawn_weights(name):
    network = NETWORKS[name][0]()
    assert_same_moments(*both_ways(network, X))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_so_it_has_in_networks_made_up_at_random(seed):
    rng = np.random.default_rng(seed)
    network = Chain(rng)
    x = jnp.asarray(rng.normal(size=6), jnp.float32)
    assert_same_moments(*both_ways(network, x, 100_000))


@pytest.mark.parametrize("name", NETWORKS)
def test_tracing_tells_which_weights_act_once(name):
    build, once = NETWORKS[name]
    network = build()
    sites = find_sites(network)
    uses = find_uses(network, sites, jnp.zeros((1, 6)))
    assert set(uses.once) == once
    assert set(uses.often) == {site.name for site in sites} - once


def test_examples_of_a_batch_have_weights_of_their_own():
    """Flipout's perturbation is one for all, and yet no two examples covary."""
    network = NETWORKS["at every position"][0]()
    sites, x = find_sites(network), X
    deviations = {site.name: np.full(site.shape, 0.5, np.float32) for site in sites}
    uses = find_uses(network, sites, x[None])

    @jax.jit
    @jax.vmap
    def two_examples(key):
        noise = draw_noise(uses, (2,), key)

        def one(signs):
            own = noise._replace(normals=noise.normals[0], signs=signs)
            weights = gaussian_weights(network, sites, uses, deviations, own, jnp.ones(()))
            return run_with_weights(network, sites, weights, x)[0]

        return jax.vmap(one)(noise.signs)

    first, second = np.asarray(two_examples(jax.random.split(KEY, NUM_PASSES))).T
    products = (first - first.mean()) * (second - second.mean())
    assert abs(products.mean()) < 5 * products.std() / np.sqrt(NUM_PASSES)


@pytest.mark.parametrize("name", ["no bias", "at every position"])
def test_opposite_noise_is_opposite(name):
    """Where outputs are linear in the weight, the two passes of a pair lie around its mean's."""
    network = NETWORKS[name][0]()
    sites, x = find_sites(network), X
    deviations = {site.name: np.full(site.shape, 0.5, np.float32) for site in sites}
    uses = find_uses(network, sites, x[None])
    noise = draw_noise(uses, (), KEY)

    @jax.jit
    def output(sign):
        weights = gaussian_weights(network, sites, uses, deviations, noise, jnp.asarray(sign))
        return run_with_weights(network, sites, weights, x)

    one, other, middle = map(np.asarray, (output(1.0), output(-1.0), eqx.filter_jit(network)(x)))
    np.testing.assert_allclose(0.5 * (one + other), middle, atol=1e-5)
    assert np.abs(one - middle).max() > 1e-3


def test_a_unit_that_is_off_has_a_finite_gradient():
    layer = eqx.nn.Linear(3, 2, key=KEY)
    sites = find_sites(layer)

    def output(log_deviation, x):
        uses = find_uses(layer, sites, x[None])
        noise = draw_noise(uses, (), KEY)
        deviations = {"network": jnp.exp(log_deviation)}
        weights = gaussian_weights(layer, sites, uses, deviations, noise, jnp.ones(()))
        return jnp.sum(run_with_weights(layer, sites, weights, x))

    slope = jax.jit(jax.grad(output, argnums=(0, 1)))
    slopes = slope(np.full((2, 3), -18.0, np.float32), np.zeros(3, np.float32))
    assert all(np.isfinite(slope).all() for slope in slopes)
