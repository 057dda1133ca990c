"""A small model and its data, for all tests of fitting."""

import contextlib

import jax
import numpy as np

import scalemix as sx
from scalemix.networks import MLP

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = 5.0 + 3.0 * np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)


def build(key=KEY, mixture=None):
    mixture = mixture or sx.Bernoulli(0.95)
    return sx.Model(MLP(3, "scalar", 8, 1, key=key), sx.ARD(mixture), sx.likelihoods.Gaussian())


METHOD = sx.NoiseTraining(steps=50, chunk_steps=10, num_draws=2)


def same(one: sx.Posterior, other: sx.Posterior) -> bool:
    a, b = jax.tree.leaves(one.model.weights), jax.tree.leaves(other.model.weights)
    equal = [np.array_equal(p, q) for p, q in zip(a, b, strict=True)]
    return all(equal) and np.array_equal(one.history.objective, other.history.objective)


def close(one, other, rtol=1e-4):
    for p, q in zip(
        jax.tree.leaves(one.model.weights), jax.tree.leaves(other.model.weights), strict=True
    ):
        np.testing.assert_allclose(p, q, rtol=rtol, atol=1e-4)


def reporting(report):
    """A bar that hands each report over."""
    return contextlib.nullcontext(report)
