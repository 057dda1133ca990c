"""`E[xi^-2]` of families that do not give it: against the closed forms of those that do."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import scalemix as sx
from scalemix.mixtures import ScaleMixture
from scalemix.mixtures._moments import NUM_DRAWS, by_draws
from tests.mixtures.cases import CASES

KEY = jax.random.key(0)
QUICK = ("Gaussian", "Rayleigh", "Gamma above one", "InverseGamma", "Uniform off zero", "Bernoulli")
PROPER = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name, case in CASES.items()
    if case.proper
]


def by_quadrature(mixture):
    """The moment as the base class finds it, for families without a closed form."""
    return jax.jit(lambda: ScaleMixture.inverse_square_mean.fget(mixture))()  # pyright: ignore


class Own(ScaleMixture):
    """A family as users write them: noise `exp(centre + spread z)`, or that times `gap`, evenly."""

    centre: float = 0.0
    spread: float = 0.5
    gap: float = 1.0
    factor: float = 1.0

    @property
    def mean(self):
        return jnp.nan

    @property
    def second_moment(self):
        return jnp.nan

    def sample(self, shape=(), *, key, dtype=float):
        normal_key, gap_key = jax.random.split(key)
        log_noise = self.centre + self.spread * jax.random.normal(normal_key, shape, dtype)
        gap = jnp.where(jax.random.bernoulli(gap_key, shape=shape), self.gap, 1.0)
        return gap.astype(dtype) * jnp.exp(log_noise)

    def log_prob(self, noise):
        u = jnp.log(noise) - self.centre
        normal = jax.scipy.stats.norm.logpdf
        two = normal(u, 0.0, self.spread), normal(u, jnp.log(self.gap), self.spread)
        return jnp.logaddexp(*two) - math.log(2) - jnp.log(noise) + jnp.log(self.factor)

    def marginal_log_prob(self, weight, scale=1.0):
        raise NotImplementedError

    @property
    def closed_form(self):
        one = math.exp(-2 * self.centre + 2 * self.spread**2)
        return 0.5 * one * (1 + self.gap**-2)


class Drawn(Own):
    """One that can only be drawn from."""

    def log_prob(self, noise):
        raise NotImplementedError


class HalfNormal(Own):
    """With some density at zero."""

    def sample(self, shape=(), *, key, dtype=float):
        return jnp.abs(jax.random.normal(key, shape, dtype))

    def log_prob(self, noise):
        return jax.scipy.stats.norm.logpdf(noise) + math.log(2)


@pytest.mark.parametrize("name", PROPER)
def test_quadrature_finds_the_closed_forms(name, float64):
    mixture = CASES[name].mixture
    np.testing.assert_allclose(by_quadrature(mixture), mixture.inverse_square_mean, rtol=1e-6)


@jax.jit
def found_of_own(centre, spread, gap):
    return Own(centre, spread, gap).inverse_square_mean


@pytest.mark.parametrize(
    ("centre", "spread", "gap"),
    [(0.0, 0.5, 1.0), (-3.0, 1e-3, 1.0), (5.0, 2.0, 1.0), (0.0, 0.3, 30.0), (2.0, 2.0, 1e3)],
)
def test_quadrature_holds_in_float32_for_any_shape(centre, spread, gap):
    value = found_of_own(centre, spread, gap)
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, Own(centre, spread, gap).closed_form, rtol=1e-4)


def test_quadrature_says_when_it_fails():
    # Two needles, with everything and nothing in between.
    assert np.isnan(found_of_own(0.0, 1e-4, 1e3))


def test_it_vmaps_and_differentiates():
    def strength(spread):
        return Own(0.0, spread).inverse_square_mean

    spreads = jnp.array([0.2, 0.6])
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(strength)))(spreads)
    np.testing.assert_allclose(value, np.exp(2 * spreads**2), rtol=1e-5)
    np.testing.assert_allclose(slope, 4 * spreads * np.exp(2 * spreads**2), rtol=1e-4)


def test_draws_find_the_closed_forms():
    own = Drawn(0.3, 0.2)
    # The standard error of one estimate: Var[xi^-2] is known.
    error = own.closed_form * math.sqrt(math.expm1(4 * own.spread**2) / NUM_DRAWS)
    assert abs(own.inverse_square_mean - own.closed_form) < 4 * error
    gamma = sx.Gamma(5.0, 2.0)
    # xi^-2 is inverse gamma, of variance mean^2 / (shape - 2).
    error = gamma.inverse_square_mean * math.sqrt(1 / 3 / NUM_DRAWS)
    value = by_draws(gamma.sample((NUM_DRAWS,), key=KEY))
    assert abs(value - gamma.inverse_square_mean) < 4 * error


def test_draws_tell_what_they_cannot():
    # Infinite, and finite with an infinite variance.
    for mixture in (sx.Rayleigh(1.0), sx.Uniform(0.0, 1.0), sx.Bernoulli(0.9), sx.Gamma(1.5, 1.0)):
        assert by_draws(mixture.sample((NUM_DRAWS,), key=KEY)) == jnp.inf
    # Noise of a few values.
    values = st.rv_discrete(values=([1, 2, 4], [0.2, 0.3, 0.5])).rvs(size=NUM_DRAWS, random_state=1)
    exact = np.mean(1 / values.astype(float) ** 2)
    np.testing.assert_allclose(by_draws(jnp.asarray(values, jnp.float32)), exact, rtol=1e-4)


def fit(mixture):
    network = sx.networks.MLP(2, "scalar", 3, 1, key=KEY)
    model = sx.Model(network, sx.ARD(mixture), sx.likelihoods.Gaussian())
    x = np.random.default_rng(0).normal(size=(12, 2))
    method = sx.NoiseTraining("hierarchical", steps=3, learning_rate=1e-3)
    return sx.fit(model, x, x[:, 0], method, key=KEY), model


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [Own, Drawn])
def test_the_hierarchical_objective_takes_any_family_with_a_finite_one(kind):
    posterior, model = fit(kind(0.3, 0.2))
    assert np.isfinite(posterior.history.objective).all()
    strength = model.penalty("hierarchical") / model.penalty()
    np.testing.assert_allclose(strength, Own(0.3, 0.2).closed_form, rtol=0.02)


def test_the_hierarchical_objective_refuses_the_others():
    with pytest.raises(ValueError, match=r"infinite for HalfNormal.* on 'layers.0'"):
        fit(HalfNormal())
    with pytest.raises(ValueError, match=r"of Own.* on 'layers.0' could not be integrated"):
        fit(Own(factor=2.0))
    with pytest.raises(ValueError, match="infinite for Drawn"):
        fit(Drawn(spread=3.0))
