"""The weights of draws: against their formulas, and ArviZ for those that are smoothed."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from scalemix._pareto import LEAST_DRAWS, LEAST_TAIL, fit_tail, smooth, tail_length
from scalemix.inference.training import objectives as ob
from scalemix.inference.training import weights as wt

RNG = np.random.default_rng(3)
# From draws that hardly differ to some of which one has all the weight.
SPREADS = np.array([0.1, 1.0, 2.0, 4.0, 10.0])
CONSTANT = ("truncated", "pareto_smoothed", "tail_adaptive")
smoothed = jax.jit(jax.vmap(smooth))
# One program each, where every operation would be one of its own.
importance_weights = jax.jit(wt.importance_weights, static_argnums=0)
SLOPES = {name: jax.jit(jax.grad(objective)) for name, objective in ob.OBJECTIVES.items()}
VALUES = 2.0 * np.random.default_rng(2).normal(size=(25, 4)).astype(np.float32)


def log_weights(num_draws):
    return RNG.normal(size=(len(SPREADS), num_draws)) * SPREADS[:, None]


def by_arviz(values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    smooth, k = arviz.psislw(np.array(values, float), normalize=False)
    return smooth - values.max(axis=1, keepdims=True), k


def test_tail_adaptive_weights_follow_the_formula():
    values = np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 0.5], [2.0, 3.0]], np.float32)
    tail_adaptive_weights = jax.jit(wt.tail_adaptive_weights)
    weights = tail_adaptive_weights(values)
    # Column one: the two best tie and both count two; then three, then four.
    raw = np.array([[1 / 4, 1 / 3], [1 / 2, 1 / 3], [1 / 3, 1 / 4], [1 / 2, 1.0]])
    np.testing.assert_allclose(weights, raw / raw.sum(axis=0), rtol=1e-6)
    equal = tail_adaptive_weights(np.zeros((5, 1), np.float32))
    np.testing.assert_allclose(equal, 0.2, rtol=1e-6)


@pytest.mark.parametrize("num_draws", [2, 10, 100])
def test_truncated_weights_follow_the_formula(num_draws):
    values = log_weights(num_draws).T
    raw = np.exp(values)
    cut = np.minimum(raw, raw.mean(axis=0) * np.sqrt(num_draws))
    weights = jax.jit(wt.truncated_weights)(values.astype(np.float32))
    np.testing.assert_allclose(weights, cut / cut.sum(axis=0), rtol=1e-4, atol=1e-7)
    # Something was cut, and not everything.
    assert (cut < raw).any()
    assert (cut == raw).any()


@pytest.mark.parametrize("num_draws", [20, 21, 100, 400])
def test_smoothed_weights_are_those_of_arviz(num_draws, float64):
    values = log_weights(num_draws)
    # Half of the draws tie, as draws of Bernoulli noise do.
    values[0, : num_draws // 2] = values[0, 0]
    # All but a few tie, so that there is no tail.
    values[1, :-3] = -1.0
    ours, (theirs, k) = smoothed(values), by_arviz(values)
    np.testing.assert_allclose(ours.log_weights, theirs, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.k, k, rtol=1e-9)
    assert np.isinf(k).all() == (num_draws < LEAST_DRAWS)
    assert np.isinf(ours.k[1])


def test_smoothed_weights_hold_in_float32():
    values = log_weights(100)
    ours, (theirs, k) = smoothed(values.astype(np.float32)), by_arviz(values)
    assert ours.k.dtype == jnp.float32
    np.testing.assert_allclose(ours.k, k, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.exp(ours.log_weights), np.exp(theirs), rtol=1e-3, atol=1e-5)


def test_few_draws_have_no_tail():
    assert tail_length(LEAST_DRAWS - 1) < LEAST_TAIL == tail_length(LEAST_DRAWS)
    assert [tail_length(num) for num in (21, 100, 225, 400, 10_000)] == [5, 20, 45, 60, 300]
    values = log_weights(20).T.astype(np.float32)
    ours, plain = (jax.jit(f)(values) for f in (wt.pareto_smoothed_weights, wt.plain_weights))
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("k", [-0.3, 0.2, 0.7])
def test_the_shape_of_a_tail_is_found(k, float64):
    # With so many the estimate is within a few of its standard errors, (1 + k) / sqrt(n).
    excess = np.sort(st.genpareto(k, scale=2.0).rvs(5000, random_state=1))
    shape, scale = jax.jit(fit_tail)(excess, np.ones(5000, bool))
    assert abs(shape - k) < 4 * (1 + k) / np.sqrt(5000)
    # That of the scale is sqrt(2 (1 + k)) times the scale, over sqrt(n).
    assert abs(scale - 2.0) < 4 * 2.0 * np.sqrt(2 * (1 + k)) / np.sqrt(5000)


@pytest.mark.parametrize("name", CONSTANT)
def test_weights_are_constant_in_the_gradient(name):
    weights = np.asarray(importance_weights(name, VALUES))
    np.testing.assert_allclose(SLOPES[name](VALUES), weights / 4, rtol=1e-5)


@pytest.mark.parametrize("name", wt.WEIGHTS)
def test_weights_sum_to_one_in_any_shape(name):
    weights = np.asarray(importance_weights(name, VALUES))
    np.testing.assert_allclose(np.sum(weights, axis=0), 1.0, rtol=1e-5)
    alone = importance_weights(name, VALUES[:, 0])
    np.testing.assert_allclose(alone, weights[:, 0], rtol=1e-5)
    # A constant added to all draws of an example changes nothing.
    shifted = importance_weights(name, VALUES + np.float32(1000.0))
    np.testing.assert_allclose(shifted, weights, rtol=1e-3, atol=1e-5)
    if name in wt.OF_DRAWS:
        place = jnp.asarray(wt.OF_DRAWS.index(name))
        np.testing.assert_allclose(
            jax.jit(wt.importance_weights)(place, VALUES), weights, rtol=1e-6
        )


@pytest.mark.parametrize("name", ["importance_weighted", "truncated", "pareto_smoothed"])
def test_a_draw_that_is_impossible_counts_for_nothing(name):
    values = VALUES.copy()
    values[3] = -np.inf
    assert np.isfinite(jax.jit(ob.OBJECTIVES[name])(values))
    slope = SLOPES[name](values)
    assert np.isfinite(slope).all()
    assert (slope[3] == 0).all()


def test_less_variance_for_a_little_bias():
    # exp l is log-normal. The mean of l under weights exp l is 4, that of all draws is 0.
    values = 2.0 * np.random.default_rng(5).normal(size=(400, 100, 1)).astype(np.float32)

    def spread(name):
        weights = jax.jit(jax.vmap(lambda v: wt.importance_weights(name, v)))(values)
        of_draws = np.sum(np.asarray(weights, float) * values, axis=(1, 2))
        return of_draws.mean(), of_draws.std()

    (plain, plain_std), (cut, cut_std) = spread("importance_weighted"), spread("truncated")
    smoothed, smoothed_std = spread("pareto_smoothed")
    assert max(cut_std, smoothed_std) < plain_std
    assert 0 < cut < smoothed < 4
    assert abs(plain - smoothed) < plain_std
