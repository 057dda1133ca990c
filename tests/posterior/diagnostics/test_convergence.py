"""R-hat against ArviZ's."""

import arviz
import numpy as np
import pytest
import xarray

from scalemix.posterior.diagnostics.convergence import find_rhat


def by_arviz(values):
    data = xarray.Dataset({"v": (("chain", "draw", "quantity"), values)})
    with np.errstate(all="ignore"):
        return arviz.rhat(data, method="rank")["v"].to_numpy()


@pytest.mark.parametrize(("chains", "samples"), [(1, 40), (4, 4), (4, 101), (8, 300)])
def test_rhat_is_that_of_arviz(chains, samples):
    rng = np.random.default_rng(chains * samples)
    values = rng.standard_t(2, size=(chains, samples, 5))
    values[:, :, 1] += 3 * np.arange(chains)[:, None]
    # Chains of one mean that differ in their spread, and values with ties.
    values[:, :, 2] *= 1 + np.arange(chains)[:, None]
    values[:, :, 3] = rng.integers(0, 3, (chains, samples))
    np.testing.assert_allclose(find_rhat(values), by_arviz(values), rtol=1e-12)


def test_values_equally_far_from_the_median_have_the_rhat_of_the_bulk():
    """Half of the chains are stuck at one of two values: the tails say nothing."""
    stuck = np.zeros((4, 50, 2))
    stuck[:2] = 1.0
    stuck[0, :, 1] = np.arange(50) % 2
    stuck[3, :, 1] = np.arange(50) % 2
    rhat = find_rhat(stuck)
    np.testing.assert_allclose(rhat[1], by_arviz(stuck)[1], rtol=1e-12)
    assert rhat[1] > 1.2
    # But for rounding there is no variance within a chain.
    assert rhat[0] > 1e10


def test_quantities_that_never_change_have_no_rhat():
    assert np.isnan(find_rhat(np.ones((4, 3, 2)))).all()
    values = np.random.default_rng(0).normal(size=(2, 20, 2, 3))
    values[:, :, 1] = 4.0
    rhat = find_rhat(values)
    assert rhat.shape == (2, 3)
    assert np.isfinite(rhat[0]).all()
    assert np.isnan(rhat[1]).all()
