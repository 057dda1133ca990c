"""The tails of importance weights of noise, against ArviZ on likelihoods made by hand."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import scalemix as sx
from scalemix.data.scaling import Scaling
from scalemix.posterior import History
from scalemix.posterior.diagnostics import importance
from scalemix.posterior.networks import Ensemble, NoisyNetworks, OneNetwork

KEY, NUM_DRAWS, SIGMA = jax.random.key(0), 400, 0.5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3)).astype(np.float32)
W = np.array([0.7, -0.4, 0.2], np.float32)
Y = X @ W + SIGMA * RNG.normal(size=20)
SCALING = Scaling(np.zeros(0), np.zeros(0), 1.0, 2.0)
HISTORY = History(np.zeros(1), np.zeros(1), {})


def posterior(std, kind=NoisyNetworks):
    network = eqx.nn.Linear(3, "scalar", use_bias=False, key=KEY)
    network = eqx.tree_at(lambda n: n.weight, network, jnp.asarray(W[None]))
    likelihood = sx.likelihoods.Gaussian(SIGMA)
    model = sx.Model(network, sx.ARD(sx.Gaussian(std)), likelihood)
    return sx.Posterior(kind(model), SCALING, HISTORY, KEY)


def targets():
    """In units that the scaling takes off again."""
    return SCALING.y_mean + SCALING.y_scale * Y


def by_hand(std):
    model = posterior(std).model
    (site,) = model.sites
    draw = jax.vmap(lambda key: model.draw(key=key)[site.name]["unit"])
    noise = draw(jax.random.split(KEY, NUM_DRAWS))
    values = st.norm(X @ (W * np.asarray(noise, float)).T, SIGMA).logpdf(Y[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    batch = values.sum(axis=0)
    weights = np.exp(batch - batch.max())
    return arviz.psislw(batch)[1], arviz.psislw(values)[1], weights.sum() ** 2 / sum(weights**2)


@pytest.mark.parametrize("std", [0.1, 2.0])
def test_the_tails_are_those_of_arviz(std):
    diagnosis = posterior(std).pareto_k(X, targets(), num_draws=NUM_DRAWS)
    batch, examples, effective = by_hand(std)
    np.testing.assert_allclose(diagnosis.batch, batch, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(diagnosis.examples, examples, rtol=1e-2, atol=1e-2)
    # Noise that hardly matters is harmless, and noise that few draws get right is not.
    assert (diagnosis.batch < diagnosis.threshold) == (std == 0.1)
    assert f"k-hat {diagnosis.batch:.2f}, 400 draws worth {effective:.0f}\n" in str(diagnosis)
    np.testing.assert_allclose(diagnosis.effective_batch, effective, rtol=1e-3)
    assert diagnosis.effective_examples.shape == (20,)
    assert (diagnosis.effective_examples > diagnosis.effective_batch).all()


def test_ties_are_told_from_tails():
    """Most draws of mild dropout drop nothing and tie, so that no tail can be fitted."""
    values = np.zeros(NUM_DRAWS, np.float32)
    k, worth = importance._tail(jnp.asarray(values))
    assert (k, worth) == (-jnp.inf, pytest.approx(NUM_DRAWS, rel=1e-4))
    # Three draws stand out, a little or beyond all others.
    for gain, effective in ((0.1, NUM_DRAWS), (30.0, 3)):
        values[:3] = gain
        k, worth = importance._tail(jnp.asarray(values))
        assert (k, worth) == (jnp.inf, pytest.approx(effective, rel=1e-2))


def test_rows_come_in_blocks_and_count_as_often_as_they_are_said_to(monkeypatch):
    post, y = posterior(0.5), targets()
    whole = post.pareto_k(X, y, num_draws=NUM_DRAWS)
    monkeypatch.setattr(importance, "ROWS_AT_A_TIME", 16)
    blocks = post.pareto_k(X, y, num_draws=NUM_DRAWS)
    np.testing.assert_allclose(blocks.batch, whole.batch, rtol=1e-5)
    np.testing.assert_array_equal(blocks.examples, whole.examples)
    twice = np.r_[np.arange(20), 0, 0]
    counted = post.pareto_k(X, y, num_draws=NUM_DRAWS, sample_weight=[3.0] + [1.0] * 19)
    repeated = post.pareto_k(X[twice], y[twice], num_draws=NUM_DRAWS)
    np.testing.assert_allclose(counted.batch, repeated.batch, rtol=1e-4)
    assert counted.batch != whole.batch
    assert post.pareto_k(X, y, num_draws=NUM_DRAWS, key=jax.random.key(1)).batch != whole.batch


def test_only_noise_has_weights():
    with pytest.raises(ValueError, match=r"NoiseTraining with noise in the network"):
        posterior(0.5, OneNetwork).pareto_k(X, Y)
    one = posterior(0.5)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), one.networks)
    both = sx.Posterior(Ensemble(two, 2), SCALING, HISTORY, KEY)
    with pytest.raises(ValueError, match=r"posterior\.members"):
        both.pareto_k(X, Y)
    with pytest.raises(ValueError, match="at least 21"):
        one.pareto_k(X, Y, num_draws=20)
    with pytest.raises(ValueError, match="x has 20 rows and y has 19"):
        one.pareto_k(X, Y[1:])


def test_rows_without_a_fit_are_not_counted_as_bad():
    """Under dropout that seldom drops, few draws are above the rest, and all are worth the same."""
    diagnosis = importance.ParetoK(
        -np.inf, np.array([np.inf, 0.3, np.inf]), 399.0, np.full(3, 398.0), NUM_DRAWS
    )
    shown = "k-hat at most 0.30, above 0.62 for 0 of 3, no fit for 2 of 3, 400 draws worth at least"
    assert shown in str(diagnosis)
    diagnosis = importance.ParetoK(0.1, np.full(3, np.inf), 399.0, np.full(3, 398.0), NUM_DRAWS)
    assert "by example: no fit for 3 of 3, 400 draws" in str(diagnosis)


def test_effective_draws_keep_their_digits_far_from_zero():
    values = np.float32(-1e6) + RNG.normal(size=NUM_DRAWS).astype(np.float32)
    weights = np.exp(values.astype(float) - values.max())
    _, worth = importance._tail(jnp.asarray(values))
    np.testing.assert_allclose(worth, weights.sum() ** 2 / np.sum(weights**2), rtol=1e-4)
