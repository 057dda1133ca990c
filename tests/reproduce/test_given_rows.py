"""Noise given the rows of training, against every mask of a small linear model."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import scalemix as sx
from scalemix.data.batches import Data, stack
from scalemix.reproduce.given_rows import (
    NUM_KEPT,
    NUM_WEIGHED,
    given_rows,
    held_out_log_probs,
)

KEEP, SIGMA = 0.7, 0.8
RNG = np.random.default_rng(5)
W = np.array([0.9, -0.6, 0.4])
X = RNG.normal(size=(6, 3)).astype(np.float32)
Y = (X @ W + SIGMA * RNG.normal(size=6)).astype(np.float32)
NEW = Data(X[:2] + 1, Y[:2] - 1, np.ones(2, np.float32))
# A row of weight zero is none, and one of weight two is two.
ROWS = Data(X, Y, np.array([1, 2, 1, 1, 1, 0], np.float32))
MASKS = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
KEY = jax.random.key(3)


def noise_training():
    network = eqx.nn.Linear(3, "scalar", use_bias=False, key=KEY)
    network = eqx.tree_at(lambda n: n.weight, network, jnp.asarray(W[None], jnp.float32))
    model = sx.Model(network, sx.ARD(sx.Bernoulli(KEEP)), sx.likelihoods.Gaussian(SIGMA))
    method = sx.NoiseTraining(steps=1, num_draws=1, learning_rate=1e-12)
    return sx.fit(model, X, Y, method, key=KEY, standardize=False)


def log_likelihoods(data):
    residual = (data.y - (MASKS * W) @ data.x.T) / SIGMA
    return -0.5 * residual**2 - np.log(SIGMA) - 0.5 * np.log(2 * np.pi)


def exact():
    """The probability of each mask given the rows."""
    chances = np.prod(np.where(MASKS > 0, KEEP, 1 - KEEP), axis=1)
    joint = chances * np.exp(log_likelihoods(ROWS) @ ROWS.weight)
    return joint / joint.sum()


def error_of(values):
    """The deviation of a self-normalised mean over weighed draws, of which some are kept."""
    chances = np.prod(np.where(MASKS > 0, KEEP, 1 - KEEP), axis=1)
    squares = (values - exact() @ values) ** 2
    return np.sqrt((exact() ** 2 / chances) @ squares / NUM_WEIGHED + exact() @ squares / NUM_KEPT)


def test_the_noise_kept_is_that_of_the_posterior():
    posterior = given_rows(noise_training(), ROWS, KEY)
    kept = np.asarray(posterior.networks.scales["network"]["unit"])
    assert kept.shape == (NUM_KEPT, 3)
    for mask, chance in zip(MASKS, exact(), strict=True):
        is_mask = np.all(mask == MASKS, axis=1).astype(float)
        assert abs(np.mean(np.all(kept == mask, axis=1)) - chance) < 4 * error_of(is_mask)
    predicted = posterior.predict(NEW.x, num_draws=NUM_KEPT)
    means = (MASKS * W) @ NEW.x.T
    for i in range(2):
        assert abs(predicted.mean[i] - exact() @ means[:, i]) < 4 * error_of(means[:, i])
    moments = posterior.networks.weight_moments()["network"]
    np.testing.assert_allclose(moments.mean[0], kept.mean(axis=0) * W, rtol=1e-5)
    np.testing.assert_allclose(moments.variance[0], kept.var(axis=0) * W**2, rtol=1e-4)


def test_held_out_rows_are_scored_under_it():
    model = noise_training().model
    arrays, static = eqx.partition(model, eqx.is_array)
    models = eqx.combine(jax.tree.map(lambda a: jnp.stack([a, a]), arrays), static)
    train, held_out = stack([ROWS, ROWS]), stack([NEW, NEW])
    scores = held_out_log_probs(models, train, held_out, np.array([1, 0]), jax.random.split(KEY, 2))
    for row in range(2):
        likelihood = np.exp(log_likelihoods(NEW)[:, row])
        error = error_of(likelihood) / (exact() @ likelihood)
        assert np.all(np.abs(scores[:, row] - np.log(exact() @ likelihood)) < 4 * error)
