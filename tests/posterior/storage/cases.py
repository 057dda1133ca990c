"""Posteriors to save, built by hand: what a fit leaves, without the fit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import scalemix as sx
from scalemix.data.scaling import Scaling
from scalemix.model.unknowns import Unknowns
from scalemix.networks import MLP
from scalemix.posterior.networks import (
    Ensemble,
    GaussianNetworks,
    NoisyNetworks,
    OneNetwork,
    SampledNetworks,
)
from scalemix.posterior.posterior import History

KEY = jax.random.key(3)
X = np.random.default_rng(0).normal(size=(4, 3))
SCALING = Scaling(np.array([0.1, -2.0, 1 / 3]), np.array([1.0, 0.7, 3.0]), 5.1, 0.3)
HISTORY = History(
    np.linspace(-3, -1, 7, dtype=np.float32),
    np.zeros(0, np.float32),
    {"importance_weights": np.full((2, 3, 4), 0.25, np.float32)},
)


def as_fitted(model):
    """Priors and likelihoods come out of a fit with arrays as parameters."""
    parts = jax.tree.map(jnp.float32, (model.structures, model.likelihood))
    return eqx.tree_at(lambda m: (m.structures, m.likelihood), model, parts)


def build(mixture=None, likelihood=None, network=None):
    network = network or MLP(3, "scalar", 5, 1, key=KEY)
    likelihood = likelihood or sx.likelihoods.Gaussian(0.3)
    return as_fitted(sx.Model(network, sx.ARD(mixture or sx.Gaussian(0.3)), likelihood))


def posterior(networks, scaling=SCALING, history=HISTORY):
    return sx.Posterior(networks, scaling, history, jax.random.key(8))


def noisy(**arguments):
    return posterior(NoisyNetworks(build(**arguments)))


def gaussian_networks(model):
    return GaussianNetworks(
        model,
        {name: jnp.full_like(weight, 0.1) for name, weight in model.weights.items()},
        {
            site: {group: jnp.full(shape, 0.5) for group, shape in groups.items()}
            for site, groups in model.scale_shapes.items()
        },
    )


# Of chains: two of them, seven steps, three samples.
CHAIN_HISTORY = History(
    np.zeros((2, 7), np.float32), np.zeros(0), {"acceptance": np.ones((2, 3), np.float32)}
)


def sampled_networks(model):
    unknowns = Unknowns(model, "expanded", 1.0, 3.0)
    size = sum(leaf.size for leaf in jax.tree.leaves(unknowns.form()))
    positions = jax.random.normal(KEY, (2, 3, size))
    return SampledNetworks(
        model, unknowns, positions, jnp.zeros((2, 3, 0), bool), jnp.zeros((2, 3))
    )


# One of each distribution over networks, and the history of its fit. A new one is one more row.
NETWORKS = {
    "NoisyNetworks": (lambda: NoisyNetworks(build()), HISTORY),
    "OneNetwork": (lambda: OneNetwork(build()), HISTORY),
    "GaussianNetworks": (lambda: gaussian_networks(build(sx.HalfCauchy(1.0))), HISTORY),
    "SampledNetworks": (lambda: sampled_networks(build(sx.HalfCauchy(1.0))), CHAIN_HISTORY),
}


def ensemble(num_members=3, network=None):
    networks = gaussian_networks(build(sx.HalfCauchy(1.0), network=network))
    arrays, static = eqx.partition(networks, eqx.is_array)
    members = [jax.tree.map(lambda leaf, i=i: leaf * (1 + i), arrays) for i in range(num_members)]
    stacked = eqx.combine(jax.tree.map(lambda *leaves: jnp.stack(leaves), *members), static)
    history = jax.tree.map(lambda values: np.stack([values] * num_members), HISTORY)
    # Files of earlier versions have no ends, as those of other cases.
    scaling = SCALING._replace(x_ends=np.array([[-1.0, -3.0, 0.0], [1.0, 0.5, 0.0]]))
    return posterior(Ensemble(stacked, num_members), scaling, history)


def assert_same(one, other):
    """Bit for bit: the form, every leaf and its type, and so every prediction."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if hasattr(a, "dtype") and jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert type(a) is type(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
