"""Noise levels of rows outside the training data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.preparation import prepare
from scalemix.data.scaling import Scaling
from scalemix.likelihoods import Correlated, Gamma, Independent, StudentT
from scalemix.likelihoods.targets import TARGETS
from scalemix.networks import MLP
from scalemix.posterior import streaming
from scalemix.posterior.networks import NoisyNetworks
from scalemix.posterior.posterior import History

KEY = jax.random.key(0)
ENDS = np.array([[-1.0, 10.0], [1.0, 14.0]])
SCALING = Scaling(np.array([0.2, 12.0]), np.array([0.7, 2.0]), np.zeros(2), np.ones(2), ENDS)
# Both ends of both columns; a row at an end and one in the middle lie inside.
ROWS = np.array([[0.0, 12.0], [5.0, 12.0], [-1.0, 14.0], [0.5, 3.0], [-9.0, 20.0]])
IS_OUTSIDE = np.array([False, True, False, True, True])


def posterior(scaling):
    """Two targets with two outputs each, of noisy networks."""
    likelihood = Independent(StudentT(4.0, per_input=True), 2)
    model = sx.Model(MLP(2, 4, 8, 1, key=KEY), sx.ARD(sx.Gaussian(0.3)), likelihood)
    return sx.Posterior(NoisyNetworks(model), scaling, History(np.zeros(1), np.zeros(0), {}), KEY)


@pytest.fixture(scope="module")
def plain():
    """A posterior that does not know the ends, as files of earlier versions do not."""
    return posterior(SCALING._replace(x_ends=None))


def levels(predictive):
    """The noise of each draw, row and target."""
    (scales,) = predictive._stream(
        lambda draws, outputs: (
            draws.each(lambda one, out: one._each(lambda t, o: t.scale(o), out), outputs),
        )
    )
    return scales


def test_noise_outside_is_no_less_than_at_the_nearest_point_inside(plain):
    here, known = plain.predict(ROWS), posterior(SCALING).predict(ROWS)
    inside = plain.predict(np.clip(ROWS, *ENDS))
    # Means are extrapolated, and rows inside are what they were, to the last bit.
    np.testing.assert_array_equal(known.mean, here.mean)
    np.testing.assert_array_equal(known.epistemic, here.epistemic)
    np.testing.assert_array_equal(known.aleatoric[~IS_OUTSIDE], here.aleatoric[~IS_OUTSIDE])
    extrapolated, at_ends = levels(here), levels(inside)
    larger = np.maximum(extrapolated, at_ends)
    np.testing.assert_allclose(levels(known), larger, rtol=1e-6)
    # Of both there is something to see.
    for less in (extrapolated, at_ends):
        assert np.any(larger[IS_OUTSIDE] > 1.1 * less[IS_OUTSIDE])


def test_few_rows_of_a_large_block_are_the_same_as_many(monkeypatch):
    rows = np.tile(ROWS, (6, 1))
    whole = posterior(SCALING).predict(rows).aleatoric
    monkeypatch.setattr(streaming, "BLOCKS", {})
    monkeypatch.setattr(streaming, "ROWS_AT_A_TIME", 16)
    for most in (4, 12):
        # 8 to 10 of 16 rows lie outside: more than few, and few.
        monkeypatch.setattr(streaming, "FEW_ROWS", most)
        np.testing.assert_allclose(posterior(SCALING).predict(rows).aleatoric, whole, rtol=1e-6)


@pytest.mark.parametrize(
    "likelihood",
    [
        *(sx.likelihoods.for_target(kind, per_input=True) for kind in TARGETS),
        Gamma(per_input=True),
        Independent(sx.likelihoods.LogNormal(per_input=True), 2),
        Correlated(StudentT(per_input=True), 3),
    ],
    ids=lambda likelihood: likelihood.title,
)
def test_noise_rises_with_its_outputs_and_no_others(likelihood):
    places = np.array(likelihood.noise_outputs)
    np.testing.assert_array_equal(places, np.arange(1, likelihood.num_outputs, 2))
    low = jnp.zeros(likelihood.num_outputs)
    before, after = (likelihood.variance(out) for out in (low, low.at[places].set(1.0)))
    assert np.all(after > before)


def test_one_level_for_all_rows_is_known_everywhere():
    for likelihood in (sx.likelihoods.Gaussian(), sx.likelihoods.Categorical(3)):
        assert likelihood.noise_outputs == ()


def test_ends_are_those_of_the_rows_that_count():
    model = sx.Model(MLP(2, 2, 4, 1, key=KEY), sx.ARD(sx.Gaussian(0.3)), StudentT(per_input=True))
    x = np.array([[0.0, 1e8], [2.0, 1e8 + 1], [-7.0, 0.0], [1.0, 1e8 + 3]])
    _, scaling = prepare(model, x, np.arange(4.0), [1.0, 2.0, 0.0, 1.0], True)
    np.testing.assert_array_equal(scaling.x_ends, [[0.0, 1e8], [2.0, 1e8 + 3]])
    np.testing.assert_array_equal(scaling.keeping_inputs([1]).x_ends, [[1e8], [1e8 + 3]])
    for standardize in ("target", False):
        assert prepare(model, x, np.arange(4.0), None, standardize)[1].x_ends is None
