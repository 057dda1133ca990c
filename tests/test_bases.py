"""Every base passes these unasked: one row a base, with its twin in scipy."""

import inspect
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from scipy.integrate import quad

import scalemix as sx
from scalemix import bases
from scalemix.bases import Base
from scalemix.model.unknowns import Unknowns
from scalemix.posterior.storage.classes import BASE_CLASSES
from tests.posterior.storage.cases import as_fitted, gaussian_networks, sampled_networks

KEY = jax.random.key(0)
# The mixture whose marginal each base is, if it is one of ours, with a Gaussian first level.
CASES = {
    "Normal": (bases.Normal(), st.norm(), None),
    "Laplace": (bases.Laplace(), st.laplace(), sx.Rayleigh(1.0)),
    "StudentT": (bases.StudentT(3.5), st.t(3.5), sx.InverseGamma(1.75, 1.75)),
}
each = pytest.mark.parametrize(("base", "twin", "mixture"), CASES.values(), ids=CASES)
EXACT = ("Normal", "Laplace")


def test_every_base_has_a_row():
    defined = {
        name
        for name, value in vars(bases).items()
        if inspect.isclass(value) and issubclass(value, Base) and value is not Base
    }
    assert defined == CASES.keys() == BASE_CLASSES.keys()


@each
def test_it_is_scipys(base, twin, mixture, float64):
    z = np.array([-40.0, -1.3, 0.0, 1e-4, 0.7, 9.0])
    log_prob, energy = (jax.jit(function)(z) for function in (base.log_prob, base.energy))
    np.testing.assert_allclose(log_prob, twin.logpdf(z), rtol=1e-12)
    np.testing.assert_allclose(energy, twin.logpdf(0) - twin.logpdf(z), atol=1e-12)
    np.testing.assert_allclose(base.variance, twin.var())
    draws = base.sample((4000,), key=KEY)
    assert st.kstest(np.asarray(draws), twin.cdf).pvalue > 1e-3
    if mixture is not None:
        # A base of this form is a scale mixture of Gaussians, with a scale for each weight.
        marginal = jax.jit(mixture.marginal_log_prob)(z)
        np.testing.assert_allclose(log_prob, marginal, rtol=1e-9)


@each
def test_it_keeps_to_single_precision(base, twin, mixture):
    for made in (base, jax.tree.map(jnp.float32, base)):
        z = np.array([1e-18, 1e-3, 1.0, 1e3, 1e18], np.float32)
        assert made.log_prob(z).dtype == made.sample((2,), key=KEY).dtype == jnp.float32
        slopes = jax.jit(jax.vmap(jax.grad(lambda z, b=made: b.log_prob(z))))(z)
        assert np.isfinite(slopes).all()
        ours, expected = (eqx.filter_jit(b.energy)(z) for b in (made, base))
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
        both = jax.jit(jax.grad(lambda *q, b=made: jnp.sum(b.expected_energy(*q)), argnums=(0, 1)))
        for deviation in (1e-18, 1.0, 1e18):
            for slope in both(z, np.full_like(z, deviation)):
                assert np.isfinite(slope).all()


@each
def test_expected_energy_is_the_mean_or_more(base, twin, mixture, float64):
    for mean, deviation in [(0.0, 1.0), (0.7, 0.2), (-3.0, 2.0), (1e-3, 0.1)]:
        q = st.norm(mean, deviation)
        places = mean + deviation * np.linspace(-9, 9, 19)
        exact = sum(
            quad(lambda z, q=q: q.pdf(z) * (twin.logpdf(0) - twin.logpdf(z)), a, b)[0]
            for a, b in itertools.pairwise(places)
        )
        ours = float(base.expected_energy(jnp.array(mean), jnp.array(deviation)))
        if type(base).__name__ in EXACT:
            assert ours == pytest.approx(exact, rel=1e-5)
        else:
            # Jensen, and no further off than where the posterior is as wide as the prior.
            assert exact < ours < 1.5 * exact


@each
def test_the_gaussian_touches_from_above(base, twin, mixture, float64):
    """As functions of the precision `1 / v`, with equality where the variance is as it is."""
    mean, deviation = jnp.array(0.8), jnp.array(0.5)

    def energy(precision):
        return base.expected_energy(mean * jnp.sqrt(precision), deviation * jnp.sqrt(precision))

    @jax.jit
    def at(here):
        value, slope = jax.value_and_grad(energy)(here)
        return base.moment(mean, deviation, here**-0.5), value, slope

    there = np.geomspace(1e-4, 1e4, 50)
    energies = np.asarray(jax.jit(jax.vmap(energy))(there))
    for here in (0.01, 1.0, 30.0):
        moment, value, slope = map(float, at(here))
        np.testing.assert_allclose(0.5 * moment, slope, rtol=1e-10)
        assert (energies <= value + 0.5 * moment * (there - here) + 1e-12).all()


# ----------------------------------------------------------------------------- in both forms


def one_weight(base, mixture, scale=0.6):
    network = eqx.nn.Linear(1, "scalar", use_bias=False, key=KEY)
    return sx.Model(network, sx.ARD(mixture, scale=scale, base=base), sx.likelihoods.Gaussian())


@pytest.mark.parametrize("form", ["expanded", "hierarchical"])
@each
def test_chains_have_the_marginal_of_one_weight(base, twin, mixture, form, float64):
    """The density of a weight, with its scale integrated out, is that which scipy integrates."""
    scale, shape, rate = 0.6, 3.0, 2.0
    model = one_weight(base, sx.InverseGamma(shape, rate), scale)
    unknowns = Unknowns(model, form, 1.0, 3.0)
    u = np.linspace(-9.0, 9.0, 3001)

    @jax.jit
    def density(w):
        def at(u):
            # `z = w / xi` in the expanded form, and then dz = dw / xi.
            z, jacobian = (w * jnp.exp(-u), -u) if form == "expanded" else (w, 0.0)
            learned, scales = unknowns.form()
            learned = eqx.tree_at(lambda m: m.network.weight, learned, jnp.reshape(z, (1, 1)))
            flat = jax.flatten_util.ravel_pytree((learned, {"network": {"unit": u[None]}}))[0]
            assert scales.keys() == {"network"}
            return unknowns.log_prior(flat, jnp.zeros(0, bool)) + jacobian

        return jnp.trapezoid(jnp.exp(jax.vmap(at)(u)), u)

    # The likelihood's noise level has a prior too, the same number at every weight.
    raw = st.norm(0, 3).pdf(float(model.likelihood.raw_scale))
    variance = st.invgamma(shape, scale=rate)
    for w in (0.05, 0.9, 4.0):

        def integrand(u, w=w):
            s = scale * np.exp(u)
            return twin.pdf(w / s) / s * variance.pdf(np.exp(2 * u)) * 2 * np.exp(2 * u)

        exact = quad(integrand, -9, 9, points=[0.0], epsabs=1e-13)[0]
        np.testing.assert_allclose(density(w) / raw, exact, rtol=1e-6)


@each
def test_prior_samples_are_one_in_both_forms(base, twin, mixture):
    model = one_weight(base, sx.Uniform(0.5, 1.5))

    @jax.jit
    @jax.vmap
    def draws(key):
        w, _ = model.prior_sample(key)
        z, scales = model.prior_sample(key, parametrization="expanded")
        return w["network"][0, 0], z["network"][0, 0] * scales["network"]["unit"][0], z["network"]

    w, product, z = draws(jax.random.split(KEY, 3000))
    np.testing.assert_allclose(w, product, rtol=1e-5)
    assert st.kstest(np.ravel(z) / 0.6, twin.cdf).pvalue > 1e-3


@each
def test_the_penalty_of_noise_is_minus_the_log_density(base, twin, mixture):
    model = one_weight(base, sx.Bernoulli(0.9))

    def penalty(w):
        return float(model.with_weights({"network": jnp.full((1, 1), w)}).penalty("expanded"))

    for w in (0.1, -2.0):
        assert penalty(w) == pytest.approx(twin.logpdf(0) - twin.logpdf(w / 0.6), rel=1e-5)
    assert penalty(0.0) == 0.0
    flat = one_weight(base, sx.Bernoulli(0.9), np.inf)
    assert flat.penalty("expanded") == 0.0


# ------------------------------------------------------------------- what needs a Gaussian says so


def test_the_hierarchical_objective_is_refused():
    model = one_weight(bases.Laplace(), sx.InverseGamma(3.0, 3.0))
    for use in (
        lambda: model.penalty("hierarchical"),
        lambda: sx.NoiseTraining("hierarchical").check_model(model),
    ):
        with pytest.raises(ValueError, match=r"needs a Gaussian first level.*'network' is Laplace"):
            use()


def test_a_base_without_variance_has_no_relevance():
    model = one_weight(bases.StudentT(2.0), sx.InverseGamma(3.0, 3.0))
    for networks in (gaussian_networks(model), sampled_networks(as_fitted(model))):
        with pytest.raises(ValueError, match=r"'network', StudentT\(df=.*\), has no variance"):
            networks.weight_moments()
    known = one_weight(bases.StudentT(4.0), sx.InverseGamma(3.0, 3.0))
    # Twice the square of the scale that the file of cases has, and of s0.
    variance = gaussian_networks(known).weight_moments()["network"].prior_variance
    np.testing.assert_allclose(variance, 2 * 0.5 * 0.6**2, rtol=1e-6)


class Logistic(Base):
    """A base of the user's own, without what variational EM needs."""

    variance = np.pi**2 / 3
    log_normalizer = np.log(4)

    def energy(self, z):
        return 2 * jnp.logaddexp(0.5 * z, -0.5 * z) - np.log(4)

    def sample(self, shape=(), *, key, dtype=float):
        return jax.random.logistic(key, shape, dtype)


def test_a_base_of_ones_own_is_used_where_it_can_be():
    model = one_weight(Logistic(), sx.InverseGamma(3.0, 3.0))
    with pytest.raises(
        ValueError, match=r"'network': the base Logistic\(\) has no expected energy"
    ):
        sx.VariationalEM().check_model(model)
    sx.NoiseTraining().check_model(model)
    sx.MCMC().check_model(model)
    sample = model.prior_sample(KEY, parametrization="expanded")
    w, xi = float(sample.weights["network"][0, 0]), sample.scales["network"]["unit"]
    expected = st.logistic(scale=0.6).logpdf(w) + float(sx.InverseGamma(3.0, 3.0).log_prob(xi)[0])
    np.testing.assert_allclose(model.log_prior(*sample, parametrization="expanded"), expected, 1e-5)


def test_impossible_bases_are_refused():
    with pytest.raises(ValueError, match="df must be positive, got 0"):
        bases.StudentT(0.0)


@pytest.mark.parametrize("prior", [sx.ADD, sx.ARDADD])
def test_layers_without_a_path_around_keep_the_base(prior):
    network = sx.networks.ResNet(2, "scalar", 3, 2, key=KEY)
    model = sx.Model(
        network, prior(sx.HalfCauchy(1.0), base=bases.Laplace()), sx.likelihoods.Gaussian()
    )
    assert all(type(s.base) is bases.Laplace for s in model.structures.values())
    table = str(model.describe())
    assert "ARD with a Laplace base" in table
    assert f"{prior.__name__} with a Laplace base" in table


@pytest.mark.parametrize(
    ("mixture", "df", "falls"),
    [
        (sx.LogUniform(), 1.5, False),
        (sx.LogUniform(), 2.5, True),
        (sx.HalfCauchy(1.0), 0.3, True),
        (sx.Gamma(0.2, 1.0), 1.5, False),
        (sx.InverseGamma(3.0, 3.0), 0.5, True),
    ],
)
def test_em_refuses_tails_that_let_every_scale_go_to_zero(mixture, df, falls):
    """Near zero the bound is `(K df / 2 + a) log v`: K weights, and `p(v)` of order `v^a`."""
    network = eqx.nn.Linear(3, "scalar", key=KEY)
    prior = sx.ARD(mixture, base=bases.StudentT(df))
    model = sx.Model(network, prior, sx.likelihoods.Gaussian())
    if falls:
        sx.VariationalEM().check_model(model)
    else:
        with pytest.raises(ValueError, match=r"'network'.*no most probable scales: few weights"):
            sx.VariationalEM().check_model(model)
    # Four weights to a scale keep it.
    wide = sx.Model(eqx.nn.Linear(3, 4, key=KEY), prior, sx.likelihoods.Categorical(4))
    sx.VariationalEM().check_model(wide)
