"""Scales by output, and scales under bases that are not Gaussian, in variational EM."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

import scalemix as sx
from scalemix.bases import Laplace, Normal, StudentT
from scalemix.inference.training import scales as sc
from scalemix.model.site_prior import SitePrior

KEY = jax.random.key(0)
HYPERPRIORS = [
    sx.InverseGamma(3.0, 3.0),
    sx.HalfCauchy(0.7),
    sx.LogUniform(),
    sx.Gamma(2.0, 1.5),
]
RNG = np.random.default_rng(0)


def prior_on(layer, structure):
    (site,) = sx.networks.find_sites(layer)
    return SitePrior(site, structure, site.weight(layer))


def site_bound(prior, mean, deviation, variances):
    kl = sc.kl_divergence(prior, mean, jnp.log(deviation), variances)
    return sc.log_hyperprior(prior, variances) - kl


@pytest.mark.parametrize("mixture", HYPERPRIORS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("base", [Laplace(), StudentT(4.0)], ids=lambda b: type(b).__name__)
def test_the_best_variance_is_that_of_an_optimiser(base, mixture, float64):
    """By output, for each of two outputs of four weights, at moments large and small."""
    structure = sx.ARD(mixture, scale=0.6, base=base, by="output")
    prior = prior_on(eqx.nn.Linear(4, 2, key=KEY), structure)
    bound = jax.jit(lambda *arguments: site_bound(prior, *arguments))

    @jax.jit
    def improve(mean, deviation, variances):
        return sc.best_variances(prior, mean, jnp.log(deviation), variances)

    for size in (0.03, 1.0, 30.0):
        mean, deviation = size * RNG.normal(size=(2, 4)), size * RNG.uniform(0.1, 1.0, size=(2, 4))
        variances = {"output": np.ones(2)}
        for _ in range(3):
            # Student-t may take longer than one call, which starts where the last step ended.
            variances = improve(mean, deviation, variances)
        best = np.asarray(variances["output"])
        for output in range(2):

            def height(log_v, output=output, best=best, mean=mean, deviation=deviation):
                v = np.where(np.arange(2) == output, np.exp(log_v), best)
                return -float(bound(mean, deviation, {"output": v}))

            optimum = minimize_scalar(height, bounds=(-18, 18), method="bounded")
            assert np.log(best[output]) == pytest.approx(optimum.x, abs=2e-3)


@pytest.mark.parametrize("base", [Laplace(), StudentT(4.0)], ids=lambda b: type(b).__name__)
def test_rounds_never_lower_the_bound(base, float64):
    """With two groups of scales, from far off."""
    structure = sx.ARDADD(sx.HalfCauchy(0.7), scale=0.6, base=base, by="output")
    prior = prior_on(eqx.nn.Linear(4, 3, key=KEY), structure)
    mean = jnp.asarray(RNG.normal(size=(3, 4)))
    log_deviation = jnp.log(jnp.asarray(RNG.uniform(0.01, 2.0, size=(3, 4))))

    @jax.jit
    def better(current):
        moment = sc.moments(prior, mean, log_deviation, current)
        return sc.optimal_variances(prior, moment, current)

    bound = jax.jit(lambda current: site_bound(prior, mean, jnp.exp(log_deviation), current))
    for v in (1e-6, 1e3):
        current = {"output": jnp.full(3, v), "layer": jnp.array(1 / v)}
        values = [bound(current)]
        for _ in range(6):
            current = better(current)
            values.append(bound(current))
        assert np.all(np.diff(values) >= -1e-10 * np.abs(values[0]))
        assert values[-1] > values[0] + 1.0


@pytest.mark.parametrize(
    ("base", "twin"), [(Normal(), st.norm), (Laplace(), st.laplace), (StudentT(4.0), st.t(4.0))]
)
def test_the_divergence_is_that_of_quadrature(base, twin, float64):
    structure = sx.ARD(sx.HalfCauchy(1.0), scale=0.6, base=base, by="output")
    prior = prior_on(eqx.nn.Linear(2, 1, key=KEY), structure)
    mean, deviation, v = np.array([[0.3, -1.0]]), np.array([[0.5, 0.2]]), 0.8
    exact = 0.0
    for m, d in zip(mean[0], deviation[0], strict=True):
        q, s = st.norm(m, d), 0.6 * np.sqrt(v)
        exact += quad(
            lambda w, q=q, s=s: q.pdf(w) * (q.logpdf(w) - twin.logpdf(w / s) + np.log(s)),
            m - 10 * d, m + 10 * d, points=[0.0, m], epsabs=1e-12,
        )[0]  # fmt: skip
    variances = {"output": jnp.full(1, v)}
    ours = sc.kl_divergence(prior, jnp.asarray(mean), jnp.log(jnp.asarray(deviation)), variances)
    if isinstance(base, StudentT):
        assert exact < ours < exact + 0.5
    else:
        np.testing.assert_allclose(ours, exact, rtol=1e-6)


def test_under_a_gaussian_the_output_has_the_closed_form_of_its_moment():
    layer = eqx.nn.Conv2d(4, 6, 2, groups=2, key=KEY)
    prior = prior_on(layer, sx.ARD(sx.LogUniform(), by="output"))
    best = sc.best_variances(
        prior, layer.weight, jnp.full_like(layer.weight, -2.0), {"output": jnp.ones(6)}
    )
    # M / (K + 2), with two input channels of four places each.
    moment = jnp.sum(layer.weight**2, axis=(1, 2, 3)) + 8 * np.exp(-4.0)
    np.testing.assert_allclose(best["output"], moment / 10, rtol=1e-5)


@pytest.mark.slow
def test_filters_that_the_data_do_not_need_are_switched_off():
    """A convolution of four filters, of which one would do."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1, 6)).astype(np.float32)
    y = np.maximum(x[:, 0, 1:] - x[:, 0, :-1], 0).sum(axis=1) + 0.05 * rng.normal(size=300)
    prior = {
        "layers.0": sx.ARD(sx.HalfCauchy(0.5), by="output"),
        "layers.3": sx.ARD(sx.HalfCauchy(0.5)),
    }
    network = eqx.nn.Sequential(
        [
            eqx.nn.Conv1d(1, 4, 2, key=KEY),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(20, "scalar", key=KEY),
        ]
    )
    model = sx.Model(network, prior, sx.likelihoods.Gaussian(0.3), example=x[0])
    method = sx.VariationalEM(steps=1500, batch_size=64, learning_rate=0.02)
    posterior = sx.fit(model, x, y, method, key=KEY)
    relevance = posterior.relevance()
    on = relevance.outputs_on["layers.0"]
    assert on.shape == (4,)
    assert 1 <= on.sum() <= 2
    assert relevance.outputs["layers.0"][on].sum() > 0.9
    assert f"{on.sum()} of 4 outputs on" in str(relevance)
    error = posterior.predict(x).mean - y
    assert np.sqrt(np.mean(error**2)) < 0.3 * y.std()
    # The same filters go under a mask, and predictions hardly change.
    pruned = posterior.prune(x, mask_only=True)
    assert pruned.report.outputs_off["layers.0"] == (4 - on.sum(), 4)
    assert "outputs of weights set to zero: layers.0" in str(pruned)
    assert pruned.report.mean_change < 0.1
    assert not np.any(np.asarray(pruned.network.layers[0].weight)[~on])
