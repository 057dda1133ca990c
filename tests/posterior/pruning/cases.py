"""Posteriors in which chosen rows are off, built by hand, and networks computed without JAX."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

import scalemix as sx
from scalemix.data.scaling import Scaling
from scalemix.networks import MLP, ResNet
from scalemix.posterior.networks import Ensemble, GaussianNetworks
from scalemix.posterior.posterior import History

KEY = jax.random.key(0)
IN, WIDTH = 3, 5
SCALING = Scaling(np.array([0.1, -2.0, 1 / 3]), np.array([1.0, 0.7, 3.0]), 5.1, 0.3)
HISTORY = History(np.zeros(4, np.float32), np.zeros(0, np.float32), {})
# The last two do not map zero to zero.
ACTIVATIONS = {
    "relu": (jax.nn.relu, lambda a: np.maximum(a, 0)),
    "tanh": (jnp.tanh, np.tanh),
    "sigmoid": (jax.nn.sigmoid, expit),
    "softplus": (jax.nn.softplus, lambda a: np.logaddexp(a, 0)),
}


@functools.cache
def model(kind, depth, activation="relu", prior=sx.ARD, use_bias=True):
    function = ACTIVATIONS[activation][0]
    if kind == "equinox":
        network = eqx.nn.MLP(
            IN, "scalar", WIDTH, depth, function, use_bias=use_bias, use_final_bias=use_bias,
            key=KEY,
        )  # fmt: skip
    else:
        built = {"mlp": MLP, "resnet": ResNet}[kind]
        network = built(IN, "scalar", WIDTH, depth, activation=function, key=KEY)
    return sx.Model(network, prior(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(0.3))


def gaussian(model, rng, rows_off):
    """Random weights, biases and deviations. `rows_off` by site have all but no signal.

    Deviations and scales of weights are told by the weights, scales of rows by their number.
    """
    network = jax.tree.map(
        lambda leaf: (
            jax.device_put(rng.normal(size=leaf.shape).astype(leaf.dtype))
            if eqx.is_array(leaf)
            else leaf
        ),
        model.network,
    )
    model = eqx.tree_at(lambda m: m.network, model, network)
    # In NumPy, where every operation on a new shape would be a program to compile.
    weights, deviations = jax.tree.map(np.asarray, dict(model.weights)), {}
    for name, weight in weights.items():
        off = rows_off.get(name, np.zeros(weight.shape[1], bool))[None]
        weights[name] = np.where(off, np.float32(1e-3) * weight, weight)
        deviations[name] = np.where(off, np.float32(1), deviation_of(weights[name]))
    variances = {
        name: {
            "unit": np.arange(1, weight.shape[1] + 1, dtype=np.float32),
            "output": np.arange(1, weight.shape[0] + 1, dtype=np.float32),
            "weight": weight**2,
            "layer": np.ones((), np.float32),
        }
        for name, weight in weights.items()
    }
    chosen = {n: {g: variances[n][g] for g in s.groups} for n, s in model.structures.items()}
    weights, deviations, chosen = jax.device_put((weights, deviations, chosen))
    return GaussianNetworks(model.with_weights(weights), deviations, chosen)


def deviation_of(weight):
    return 0.1 * abs(weight) + 0.01


def random_rows(model, rng, share=None):
    """By site, rows to switch off: some, or now and then all of them."""

    def some(num):
        off = rng.random(num) < (rng.random() if share is None else share)
        return off | (rng.random() < 0.2) if share is None else off

    return {site.name: some(site.num_rows) for site in model.sites}


def posterior(networks):
    return sx.Posterior(networks, SCALING, HISTORY, jax.random.key(8))


def ensemble(members):
    parts = [eqx.partition(one, eqx.is_array) for one in members]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(arrays for arrays, _ in parts))
    history = jax.tree.map(lambda values: np.stack([values] * len(members)), HISTORY)
    networks = Ensemble(eqx.combine(stacked, parts[0][1]), len(members))
    return sx.Posterior(networks, SCALING, history, jax.random.key(8))


def forward(network, x, activation="relu"):
    """What a network makes of rows, in double precision and by its definition."""
    f = ACTIVATIONS[activation][1]

    def dense(layer, h):
        out = h @ np.asarray(layer.weight, np.float64).T
        return out if layer.bias is None else out + np.asarray(layer.bias, np.float64)

    if isinstance(network, ResNet):
        h = f(dense(network.first, x))
        for block in network.blocks:
            h = f(dense(block, h)) + h
        return dense(network.last, h)[:, 0]
    for layer in network.layers[:-1]:
        x = f(dense(layer, x))
    return dense(network.layers[-1], x)[:, 0]
