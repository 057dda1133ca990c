"""Passes one after the other have the value and the gradient of passes side by side."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.inference.training import passes
from scalemix.inference.training.passes import mean_one_by_one
from scalemix.networks.gaussians import find_uses
from scalemix.networks.sites import find_sites
from tests.networks.cases import NETWORKS

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def test_a_mean_one_by_one_has_its_gradient(float64):
    """Also within another one, mapped over and differentiated twice."""
    learned = {"a": jnp.asarray(RNG.normal(size=3)), "b": jnp.asarray(RNG.normal())}
    outer, inner = jnp.asarray(RNG.normal(size=(4, 3))), jnp.array([1.0, -1.0])

    def function(learned, x, sign):
        return jnp.sum(jnp.tanh(learned["a"] * x + sign * learned["b"]) ** 2)

    def one_by_one(learned, outer):
        def of_row(learned, x):
            return mean_one_by_one(lambda own, sign: (function(own, x, sign), sign), learned, inner)

        value, signs = mean_one_by_one(of_row, learned, outer)
        return 3 * value, signs

    def at_once(learned, outer):
        each = jax.vmap(jax.vmap(function, (None, None, 0)), (None, 0, None))
        return 3 * jnp.mean(each(learned, outer, inner))

    several = jnp.stack([outer, 2 * outer])
    slope = jax.vmap(jax.value_and_grad(one_by_one, has_aux=True), (None, 0))
    (values, signs), slopes = slope(learned, several)
    expected, slopes_expected = jax.vmap(jax.value_and_grad(at_once), (None, 0))(learned, several)
    np.testing.assert_array_equal(signs, np.broadcast_to(inner, (2, 4, 2)))
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), slopes, slopes_expected)
    twice = [
        jax.jacfwd(jax.grad(f))(learned, outer)["a"]["a"]
        for f in (lambda *given: one_by_one(*given)[0], at_once)
    ]
    np.testing.assert_allclose(*twice, rtol=1e-12)


def in_double(network):
    """The network in double precision, where sums in another order hardly differ."""
    return jax.tree.map(
        lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, network
    )


@pytest.mark.parametrize(("num_draws", "name"), [(2, "convolution"), (4, "at every position")])
def test_passes_one_by_one_are_passes_side_by_side(num_draws, name, monkeypatch, float64):
    model = sx.Model(
        in_double(NETWORKS[name][0]()), sx.ARD(sx.InverseGamma(3.0, 3.0)),
        sx.likelihoods.Gaussian(per_input=True), example=jnp.zeros(6),
    )  # fmt: skip
    engine = sx.VariationalEM(initial_deviation=0.5, num_draws=num_draws)
    state = engine.init(model)
    batch = tuple(jnp.asarray(RNG.normal(size=shape)) for shape in ((5, 6), 5))
    fills, asked = passes._fill_products, []

    def slope(one_by_one):
        def decide(uses):
            asked.append(fills(uses))
            return one_by_one

        monkeypatch.setattr(passes, "_fill_products", decide)
        loss = lambda learned: engine.loss(learned, state, model, batch, 5.0, key=KEY)  # noqa: E731
        return jax.jit(jax.value_and_grad(loss))(state.learned)

    results = [jax.tree.leaves(slope(one_by_one)) for one_by_one in (True, False)]
    # By itself it would go one by one.
    assert all(asked)
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_steps_of_a_loop_and_tables_go_side_by_side():
    for name, fills in (("scanned", False), ("dense", False), ("convolution", True)):
        network = NETWORKS[name][0]()
        uses = find_uses(network, find_sites(network), jnp.zeros((1, 6)))
        assert passes._fill_products(uses) == fills
