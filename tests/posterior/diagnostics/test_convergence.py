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


def test_quantities_that_never_change_have_no_rhat():
    values = np.random.default_rng(0).normal(size=(2, 20, 2, 3))
    values[:, :, 1] = 4.0
    rhat = find_rhat(values)
    assert rhat.shape == (2, 3)
    assert np.isfinite(rhat[0]).all()
    assert np.isnan(rhat[1]).all()
