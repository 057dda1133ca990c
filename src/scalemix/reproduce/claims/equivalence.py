"""Noise on units is a prior on weights: the two networks are one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.likelihoods import Gaussian
from scalemix.mixtures import Bernoulli, HalfCauchy
from scalemix.model.model import Model
from scalemix.networks import MLP, ResNet
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.structures import ADD, ARD

WIDTH, INPUTS = 20, 4


def measure(effort: float) -> Numbers:
    """The largest difference of two ways to the same output, relative to the largest output."""
    x = np.random.default_rng(0).normal(size=(INPUTS,)).astype(np.float32)
    network = MLP(INPUTS, "scalar", WIDTH, 2, key=jax.random.key(0))
    model = Model(network, ARD(HalfCauchy(1.0)), Gaussian())
    units = []
    for key in jax.random.split(jax.random.key(1), max(3, round(50 * effort))):
        noise = {name: np.asarray(of["unit"]) for name, of in model.draw(key=key).items()}
        # Equinox keeps outputs first, so that a row of the prior is a column of the matrix.
        scaled = {name: w * jnp.asarray(noise[name])[None] for name, w in model.weights.items()}
        by_weights = float(model.with_weights(scaled).network(jnp.asarray(x)))
        by_units = _noisy_mlp(network, x, noise)
        units.append(abs(by_weights - by_units) / max(1.0, abs(by_units)))
    return {"units": max(units), "depth": _depth(x, 0.0), "depth_with_bias": _depth(x, 1.0)}


def _noisy_mlp(network: MLP, x: np.ndarray, noise: dict[str, np.ndarray]) -> float:
    h = x.astype(float)
    for i, layer in enumerate(network.layers):
        h = np.asarray(layer.weight) @ (noise[f"layers.{i}"] * h) + np.asarray(layer.bias)
        h = np.maximum(h, 0) if i + 1 < len(network.layers) else h
    return float(np.ravel(h)[0])


def _depth(x: np.ndarray, bias: float) -> float:
    """Layers that are dropped whole, against Bernoulli scales of layers."""
    network = ResNet(INPUTS, "scalar", WIDTH, 4, key=jax.random.key(2))
    biased = [jnp.full(WIDTH, bias)] * len(network.blocks)
    network = eqx.tree_at(lambda n: [block.bias for block in n.blocks], network, biased)
    prior = {"blocks.*": ADD(Bernoulli(0.5))}
    model = Model(network, prior, Gaussian())
    worst = 0.0
    for key in jax.random.split(jax.random.key(3), 8):
        scales = model.draw(key=key)
        ours = float(model.with_scales(scales)(jnp.asarray(x)))
        h = np.maximum(np.asarray(network.first.weight) @ x + np.asarray(network.first.bias), 0)
        for i, block in enumerate(network.blocks):
            kept = float(np.ravel(scales[f"blocks.{i}"]["layer"])[0])
            inside = np.asarray(block.weight) @ h + np.asarray(block.bias)
            h = kept * np.maximum(inside, 0) + h
        theirs = float(np.ravel(np.asarray(network.last.weight) @ h + network.last.bias)[0])
        worst = max(worst, abs(ours - theirs) / max(1.0, abs(theirs)))
    return worst


def judge(numbers: Numbers) -> list[Verdict]:
    """Both are exact, up to rounding in single precision."""
    return [
        Verdict(
            numbers["units"] < 1e-4,
            f"Noise on the units of a network and weights multiplied by that noise give the same "
            f"output: the largest relative difference is {numbers['units']:.0e}.",
        ),
        Verdict(
            numbers["depth"] < 1e-4,
            f"Layers under Bernoulli scales are stochastic depth: the largest difference is "
            f"{numbers['depth']:.0e} where their biases are zero. Biases are not under the prior "
            f"here, so that a layer that is off still adds what its bias gives: with biases of one "
            f"the difference is {numbers['depth_with_bias']:.1f}.",
        ),
    ]


EQUIVALENCE = Claim(
    name="equivalence",
    title="Noise is a prior, without approximation",
    source="Sections 3.2 and 4",
    statement=(
        "A network with noise on its units is exactly the network whose weights are multiplied "
        "by the noise, whatever the activation. With one Bernoulli scale for each residual layer "
        "it is stochastic depth."
    ),
    method=(
        "Networks with rectified units, in both forms: one computed by hand with the noise "
        "on units, or with whole layers left out; one by this package with the noise in the "
        "weights."
    ),
    measure=measure,
    judge=judge,
)
