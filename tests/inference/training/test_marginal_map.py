"""Importance weights by batch and by example, against every mask of a small linear model.

With three inputs there are eight masks, so that the likelihood with the noise averaged out is a sum
of eight terms, and the mean of an objective over its draws a sum over tuples of masks: both exact.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix.inference.training import objectives as ob

KEEP, SIGMA = 0.7, 0.8
W = np.array([0.9, -0.6, 0.4])
RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 3))
Y = X @ W + SIGMA * RNG.normal(size=6)
MASKS = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
CHANCES = np.prod(np.where(MASKS > 0, KEEP, 1 - KEEP), axis=1)
# Twice the same row; and a row that asks for its input beside one that asks for its absence.
TWINS = np.array([[1.0, 0.0, 0.0]] * 2), np.array([0.9, 0.9])
RIVALS = np.array([[1.0, 0.0, 0.0]] * 2), np.array([1.2, -0.6])


def log_likelihoods(x, y):
    """`l[mask, n]`"""
    residual = (y - (MASKS * W) @ x.T) / SIGMA
    return -0.5 * residual**2 - np.log(SIGMA) - 0.5 * np.log(2 * np.pi)


def one_noise_for_all(x, y):
    """`log E p(y | X, Xi)`, the marginal MAP objective without its penalty, per datum."""
    return np.log(CHANCES @ np.exp(log_likelihoods(x, y).sum(axis=1))) / len(y)


def noise_for_each_row(x, y):
    """`sum_n log E p(y_n | x_n, Xi)`, per datum."""
    return np.mean(np.log(CHANCES @ np.exp(log_likelihoods(x, y))))


def mean_over_draws(num_draws):
    """The exact mean of the objective by batch over all draws of so many masks."""
    places = np.array(list(itertools.product(range(8), repeat=num_draws)))
    by_batch = jax.vmap(lambda v: ob.importance_weighted(v, weighting="batch"))
    objectives = jax.jit(by_batch)(log_likelihoods(X, Y)[places])
    return float(np.prod(CHANCES[places], axis=1) @ np.asarray(objectives))


def test_by_batch_it_is_a_bound_that_every_draw_tightens(float64):
    bounds = [mean_over_draws(num) for num in (1, 2, 3, 4)]
    np.testing.assert_allclose(bounds[0], CHANCES @ log_likelihoods(X, Y).mean(axis=1), rtol=1e-12)
    assert np.all(np.diff(bounds) > 0)
    assert bounds[-1] < one_noise_for_all(X, Y)


def trained(x, y, **settings):
    """The objective of a first step on all rows, by the library's own draws, without penalty."""
    network = eqx.nn.Linear(3, "scalar", use_bias=False, key=jax.random.key(0))
    network = eqx.tree_at(lambda n: n.weight, network, jnp.asarray(W[None], jnp.float32))
    prior = sx.ARD(sx.Bernoulli(KEEP), scale=np.inf)
    model = sx.Model(network, prior, sx.likelihoods.Gaussian(SIGMA))
    method = sx.NoiseTraining(
        "importance_weighted", steps=1, batch_size=None, optimizer=optax.sgd(0.0), **settings
    )
    posterior = sx.fit(model, x, y, method, key=jax.random.key(1), standardize=False)
    return float(posterior.history.objective[0])


NUM_DRAWS = 20_000


def relative_variance(likelihoods):
    """Of a mean of likelihoods over the draws: by how much its logarithm varies."""
    mean = CHANCES @ likelihoods
    return (CHANCES @ likelihoods**2 / mean**2 - 1) / NUM_DRAWS


@pytest.mark.parametrize(("x", "y"), [(X, Y), TWINS, RIVALS], ids=["rows", "twins", "rivals"])
def test_what_each_kind_tends_to(x, y):
    values = log_likelihoods(x, y)
    # Where nothing is said, it is the paper's equation.
    error = np.sqrt(relative_variance(np.exp(values.sum(axis=1)))) / len(y)
    assert abs(trained(x, y, num_draws=NUM_DRAWS) - one_noise_for_all(x, y)) < 4 * error
    error = np.sqrt(np.sum(relative_variance(np.exp(values)))) / len(y)
    by_example = trained(x, y, num_draws=NUM_DRAWS, noise_sharing="example")
    assert abs(by_example - noise_for_each_row(x, y)) < 4 * error
    assert abs(one_noise_for_all(x, y) - noise_for_each_row(x, y)) > 20 * error


def test_neither_kind_bounds_the_other():
    # By example each row has the noise that suits it; one noise has to suit them all.
    assert noise_for_each_row(*RIVALS) > one_noise_for_all(*RIVALS) + 0.01
    assert noise_for_each_row(*TWINS) < one_noise_for_all(*TWINS) - 0.01


def test_batches_lie_between_the_two():
    """With a batch's own sum, a batch of one is by example, a batch of all the paper's equation.

    A sum scaled up to all rows would exceed the latter in the mean over batches: a log of a mean
    of exponentials is convex, so that what batches leave to chance raises it.
    """
    values = log_likelihoods(X, Y)

    def over_batches(size, scale):
        batches = itertools.combinations(range(len(Y)), size)
        return np.mean(
            [np.log(CHANCES @ np.exp(scale * values[:, b].sum(axis=1))) for b in map(list, batches)]
        ) / (scale * size)

    np.testing.assert_allclose(over_batches(1, 1), noise_for_each_row(X, Y), rtol=1e-12)
    np.testing.assert_allclose(over_batches(6, 1), one_noise_for_all(X, Y), rtol=1e-12)
    for size in (1, 2, 3):
        assert over_batches(size, len(Y) / size) > one_noise_for_all(X, Y)
        # And the objective on a batch is of its own sum.
        rows = values[:, :size]
        np.testing.assert_allclose(
            ob.importance_weighted(jnp.asarray(rows, jnp.float32), weighting="batch"),
            np.log(np.mean(np.exp(rows.sum(axis=1)))) / size,
            rtol=1e-5,
        )
