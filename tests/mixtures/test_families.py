"""What is particular to a family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import scalemix as sx
from scalemix.mixtures.half_cauchy import _tan_half_pi


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: sx.Bernoulli(0.0), r"Bernoulli: keep .* \(0, 1\], got 0.0"),
        (lambda: sx.Bernoulli(1.2), r"got 1.2"),
        (lambda: sx.Bernoulli(float("nan")), r"keep"),
        (lambda: sx.Bernoulli(0.5, -1.0), r"value must be positive"),
        (lambda: sx.Bernoulli("0.5"), r"real number or an array of them, got '0.5'"),
        (lambda: sx.Bernoulli(None), r"real number"),
        (lambda: sx.Gaussian(-0.1), r"Gaussian: std must be positive, got -0.1"),
        (lambda: sx.Gaussian(0.1, float("inf")), r"mean must be finite"),
        (lambda: sx.Rayleigh(0), r"Rayleigh: scale must be positive"),
        (lambda: sx.InverseNakagami(-1.0, 1.0), r"InverseNakagami: shape"),
        (lambda: sx.InverseNakagami(1.0, 0.0), r"InverseNakagami: spread"),
        (lambda: sx.InverseGamma(0.0, 1.0), r"InverseGamma: shape"),
        (lambda: sx.InverseGamma(1.0, -2.0), r"InverseGamma: rate"),
        (lambda: sx.HalfCauchy(-1), r"HalfCauchy: scale must be positive, got -1.0"),
        (lambda: sx.HalfCauchy(jnp.array([1.0, -1.0])), r"HalfCauchy: scale"),
        (lambda: sx.Beta(0.0, 1.0), r"Beta: a"),
        (lambda: sx.Beta(1.0, 0.0), r"Beta: b"),
        (lambda: sx.Uniform(-1.0, 1.0), r"Uniform: low"),
        (lambda: sx.Uniform(1.0, 1.0), r"above low"),
        (lambda: sx.Gamma(0.0, 1.0), r"Gamma: shape"),
        (lambda: sx.Gamma(1.0, 0.0), r"Gamma: rate"),
        (lambda: sx.Exponential(0.0), r"Exponential: rate"),
        (lambda: sx.LogUniform().sample((2,), key=jax.random.key(0)), r"improper .* sampled"),
        (lambda: sx.LogUniform().marginal_sample((2,), key=jax.random.key(0)), r"improper"),
    ],
)
def test_impossible_requests_are_refused(build, reason):
    with pytest.raises(ValueError, match=reason):
        build()


def test_plain_and_inverted_dropout_are_one_prior(float64):
    plain = sx.Bernoulli(0.8)
    inverted = plain.inverted()
    assert inverted.mean == pytest.approx(1.0)
    assert inverted.plain() == plain
    w = np.linspace(-2, 2, 9)
    # Weights keep * w under inverted noise: the same density of the products.
    np.testing.assert_allclose(
        plain.marginal_log_prob(w, 0.5), inverted.marginal_log_prob(w, 0.8 * 0.5)
    )
    key = jax.random.key(0)
    np.testing.assert_allclose(
        0.8 * inverted.sample((50,), key=key), plain.sample((50,), key=key), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sx.Rayleigh(1.3), sx.Exponential(0.5 / 1.3**2)),
        (sx.Exponential(2.0), sx.Gamma(1.0, 2.0)),
        (sx.InverseNakagami(2.0, 0.5), sx.InverseGamma(2.0, 4.0)),
        (sx.Beta(1.0, 1.0), sx.Uniform(0.0, 1.0)),
    ],
)
def test_one_family_under_two_names(one, other, float64):
    x = np.array([0.01, 0.3, 0.9])
    np.testing.assert_allclose(one.log_prob(x), other.log_prob(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.variance_log_prob(x), other.variance_log_prob(x), rtol=1e-9)
    np.testing.assert_allclose(
        one.marginal_log_prob(x, 0.7), other.marginal_log_prob(x, 0.7), rtol=1e-9
    )
    np.testing.assert_allclose(
        [one.mean, one.second_moment, one.inverse_square_mean],
        [other.mean, other.second_moment, other.inverse_square_mean],
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("mixture", "marginal"),
    [
        (sx.Rayleigh(1.3), st.laplace(scale=0.5 * 1.3)),
        (sx.InverseNakagami(2.0, 0.25), st.t(4, scale=0.5 / 0.5)),
        (sx.InverseGamma(3.0, 3.0), st.t(6, scale=0.5)),
    ],
)
def test_noise_times_a_gaussian_is_what_the_paper_says(mixture, marginal):
    noise_key, normal_key = jax.random.split(jax.random.key(2))
    xi = mixture.sample((5000,), key=noise_key)
    w = xi * 0.5 * jax.random.normal(normal_key, (5000,))
    assert st.kstest(np.asarray(w, float), marginal.cdf).pvalue > 1e-3


@pytest.mark.parametrize("count", [1, 10, 1000])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_which_families_reach_zero_at_any_setting(scale, count):
    for family in (
        sx.HalfCauchy(scale),
        sx.Exponential(scale),
        sx.Rayleigh(scale),
        sx.LogUniform(),
    ):
        assert float(family.optimal_variance(0.0, count)) == 0, family
    assert float(sx.InverseGamma(scale, scale).optimal_variance(0.0, count)) > 0


@pytest.mark.parametrize(
    ("shape", "count", "zero"), [(2.0, 1, False), (2.0, 2, True), (6.0, 9, False), (6.0, 11, True)]
)
def test_the_gamma_reaches_zero_where_enough_weights_share_it(shape, count, zero):
    assert (float(sx.Gamma(shape, 0.7).optimal_variance(0.0, count)) == 0) == zero


def test_the_inverse_gamma_becomes_the_log_uniform_in_the_limit(float64):
    moments = np.linspace(0, 5, 21)
    limit = np.asarray(sx.LogUniform().optimal_variance(moments, 4))
    off = [
        np.max(np.abs(np.asarray(sx.InverseGamma(a, a).optimal_variance(moments, 4)) - limit))
        for a in (1.0, 0.1, 0.01, 0.001)
    ]
    # At first order the difference is linear in the parameters.
    np.testing.assert_allclose(np.array(off[2:]) / off[1:-1], 0.1, rtol=0.05)
    # And so do the priors of a weight, up to a constant.
    heavy = np.asarray(sx.InverseGamma(1e-4, 1e-12).marginal_log_prob(moments[1:]))
    np.testing.assert_allclose(np.diff(heavy), -np.diff(np.log(moments[1:])), rtol=1e-3)


def test_gaussian_noise_has_a_chi_squared_variance_at_mean_zero_only(float64):
    v = np.geomspace(0.01, 10, 31)
    central = st.chi2(1, scale=0.25)
    np.testing.assert_allclose(sx.Gaussian(0.5, 0.0).variance_log_prob(v), central.logpdf(v))
    usual = np.asarray(sx.Gaussian(0.5, 1.0).variance_log_prob(v))
    np.testing.assert_allclose(usual, st.ncx2(1, 4.0, scale=0.25).logpdf(v), rtol=1e-9)
    assert np.max(np.abs(usual - central.logpdf(v))) > 1


def test_instances_are_hashable_and_readable():
    assert hash(sx.HalfCauchy(1.0)) == hash(sx.HalfCauchy(1))
    assert repr(sx.InverseGamma(3, 0.5)) == "InverseGamma(shape=3, rate=0.5)"
    assert "f32[2]" in repr(sx.HalfCauchy(jnp.ones(2, jnp.float32)))


def test_heavy_noise_stays_representable():
    # One draw in seven of this family is above 1e38 in exact arithmetic.
    noise = sx.InverseGamma(0.01, 1.0).sample((1000,), key=jax.random.key(0), dtype=jnp.float32)
    assert np.all(np.isfinite(noise))
    assert np.all(np.isfinite(sx.HalfCauchy(1.0).sample((100_000,), key=jax.random.key(1))))


def test_the_quick_tangent_is_exact_to_single_precision():
    u = np.concatenate([[0.0, 2.0**-23, 0.5, 1 - 2.0**-24], np.linspace(0, 1, 20_001)[:-1]])
    u = u.astype(np.float32)
    exact = np.tan(0.5 * np.pi * u.astype(float))
    np.testing.assert_allclose(_tan_half_pi(jnp.asarray(u)), exact, rtol=4e-7)
