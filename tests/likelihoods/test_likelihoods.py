"""One row a likelihood, with its scipy twin."""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special as sp
import scipy.stats as st

from scalemix import likelihoods as lk
from scalemix.posterior.statistics import DrawnLikelihoods, ends


@dataclasses.dataclass(frozen=True)
class Case:
    likelihood: lk.Likelihood
    output: np.ndarray
    targets: np.ndarray
    twin: Callable[[np.ndarray], Any]


def softplus(x):
    return np.log1p(np.exp(x))


def negative_binomial(log_mean, scale):
    return st.nbinom(1 / scale**2, 1 / (1 + scale**2 * np.exp(log_mean)))


REAL = np.array([-2.0, 0.1, 3.0])
POSITIVE = np.array([0.1, 0.7, 8.0])
SHARES = np.array([0.02, 0.3, 0.95])
CASES = {
    "Gaussian": Case(lk.Gaussian(0.5), np.array(0.3), REAL, lambda o: st.norm(o, 0.5)),
    "Gaussian per input": Case(
        lk.Gaussian(floor=0.1, per_input=True),
        np.array([0.3, -1.0]),
        REAL,
        lambda o: st.norm(o[0], 0.1 + softplus(o[1])),
    ),
    "StudentT": Case(lk.StudentT(5.0, 0.7), np.array([0.3]), REAL, lambda o: st.t(5, o[0], 0.7)),
    "StudentT per input": Case(
        lk.StudentT(3.0, floor=0.02, per_input=True),
        np.array([0.3, 0.5]),
        REAL,
        lambda o: st.t(3, o[0], 0.02 + softplus(o[1])),
    ),
    "Bernoulli": Case(
        lk.Bernoulli(),
        np.array([0.8]),
        np.array([0.0, 1.0]),
        lambda o: st.bernoulli(sp.expit(o[0])),
    ),
    "Poisson": Case(
        lk.Poisson(), np.array(1.2), np.array([0.0, 1.0, 7.0]), lambda o: st.poisson(np.exp(o))
    ),
    "NegativeBinomial": Case(
        lk.NegativeBinomial(0.7),
        np.array(1.2),
        np.array([0.0, 1.0, 7.0]),
        lambda o: negative_binomial(o, 0.7),
    ),
    "NegativeBinomial per input": Case(
        lk.NegativeBinomial(per_input=True),
        np.array([2.0, -1.0]),
        np.array([0.0, 1.0, 7.0]),
        lambda o: negative_binomial(o[0], 0.05 + softplus(o[1])),
    ),
    "LogNormal": Case(
        lk.LogNormal(0.6), np.array(0.4), POSITIVE, lambda o: st.lognorm(0.6, scale=np.exp(o))
    ),
    "LogNormal per input": Case(
        lk.LogNormal(floor=0.1, per_input=True),
        np.array([0.3, -1.0]),
        POSITIVE,
        lambda o: st.lognorm(0.1 + softplus(o[1]), scale=np.exp(o[0])),
    ),
    "Gamma": Case(
        lk.Gamma(0.6), np.array(0.4), POSITIVE, lambda o: st.gamma(1 / 0.36, scale=0.36 * np.exp(o))
    ),
    "Gamma narrow": Case(
        lk.Gamma(0.06),
        np.array([0.4]),
        np.array([1.3, 1.5, 1.7]),
        lambda o: st.gamma(1 / 0.0036, scale=0.0036 * np.exp(o[0])),
    ),
    "Weibull": Case(
        lk.Weibull(0.6),
        np.array(0.4),
        POSITIVE,
        lambda o: st.weibull_min(1 / 0.6, scale=np.exp(o)),
    ),
    "Weibull narrow": Case(
        lk.Weibull(0.02),
        np.array([0.4]),
        np.array([1.4, 1.5, 1.55]),
        lambda o: st.weibull_min(1 / 0.02, scale=np.exp(o[0])),
    ),
    "RightCensored": Case(
        lk.RightCensored(lk.Weibull(0.6)),
        np.array(0.4),
        np.array([0.1, -0.7, 2.5, -9.0]),
        lambda o: Censored(st.weibull_min(1 / 0.6, scale=np.exp(o))),
    ),
    "Beta": Case(
        lk.Beta(0.4),
        np.array(-0.4),
        SHARES,
        lambda o: st.beta(sp.expit(o) / 0.16, sp.expit(-o) / 0.16),
    ),
    "Beta per input": Case(
        lk.Beta(per_input=True),
        np.array([1.4, -1.0]),
        SHARES,
        lambda o: st.beta(*(sp.expit([o[0], -o[0]]) / (0.05 + softplus(o[1])) ** 2)),
    ),
    "Independent": Case(
        lk.Independent(lk.StudentT(5.0, jnp.array([0.7, 2.0]), floor=0.02), 2),
        np.array([0.3, -1.0]),
        np.stack([REAL, REAL[::-1]], axis=1),
        lambda o: Several([st.t(5, o[0], 0.7), st.t(5, o[1], 2.0)]),
    ),
    "Correlated": Case(
        eqx.tree_at(
            lambda both: both.raw,
            lk.Correlated(lk.StudentT(5.0, jnp.array([0.7, 2.0]), floor=0.02), 2),
            jnp.array([0.75]),
        ),
        np.array([0.3, -1.0]),
        np.stack([REAL, REAL[::-1]], axis=1),
        # A raw 0.75 beside a one is a row of 0.6 and 0.8.
        lambda o: Joint([st.t(5, o[0], 0.7), st.t(5, o[1], 2.0)], o, np.array([0.7, 2.0]), 0.6),
    ),
    "Categorical": Case(
        lk.Categorical(3), np.array([0.1, -1.0, 2.0]), np.array([0, 1, 2]), lambda o: Classes(o)
    ),
}


@dataclasses.dataclass(frozen=True)
class Classes:
    logits: np.ndarray

    def logpmf(self, y):
        return np.log(sp.softmax(self.logits))[y]

    def mean(self):
        return sp.softmax(self.logits)

    def var(self):
        return sp.softmax(self.logits) * (1 - sp.softmax(self.logits))


@dataclasses.dataclass(frozen=True)
class Censored:
    """Targets below zero were not observed to the end."""

    twin: Any

    def logpdf(self, y):
        return np.where(y > 0, self.twin.logpdf(np.abs(y)), self.twin.logsf(np.abs(y)))

    def __getattr__(self, name):
        return getattr(self.twin, name)


@dataclasses.dataclass(frozen=True)
class Several:
    twins: list[Any]

    def _each(self, name, y):
        return np.stack([getattr(twin, name)(y[..., i]) for i, twin in enumerate(self.twins)], -1)

    def logpdf(self, y):
        return self._each("logpdf", y).sum(axis=-1)

    def cdf(self, y):
        return self._each("cdf", y)

    def sf(self, y):
        return self._each("sf", y)

    def mean(self):
        return [twin.mean() for twin in self.twins]

    def var(self):
        return [twin.var() for twin in self.twins]


@dataclasses.dataclass(frozen=True)
class Joint(Several):
    means: np.ndarray
    scales: np.ndarray
    correlation: float

    def logpdf(self, y):
        shape = np.outer(self.scales, self.scales) * [[1, self.correlation], [self.correlation, 1]]
        return st.multivariate_t(self.means, shape, df=5).logpdf(y)


def test_every_likelihood_has_a_row():
    kinds = {
        value
        for value in vars(lk).values()
        if inspect.isclass(value) and not inspect.isabstract(value)
    }
    assert kinds == {type(case.likelihood) for case in CASES.values()}


@pytest.mark.parametrize("name", CASES)
def test_log_prob_mean_and_variance_are_scipys(name, float64):
    case = CASES[name]
    twin = case.twin(case.output)
    expected = (twin.logpmf if hasattr(twin, "logpmf") else twin.logpdf)(case.targets)

    likelihood = case.likelihood
    y = np.array([-1.5, -0.2, 0.0, 0.4, 1.0, 2.7])
    y = np.stack([y + i for i in range(math.prod(likelihood.mean_shape))], axis=-1)
    y = y.reshape(len(y), *likelihood.mean_shape)

    # One program, where every operation would be one of its own.
    @jax.jit
    def ours(output, targets, y):
        def of_rows(function, rows):
            return jax.vmap(function, in_axes=(None, 0))(output, rows)

        log_probs = of_rows(likelihood.log_prob, targets)
        tails = (likelihood.cdf, likelihood.sf) if likelihood.ordered else ()
        moments = likelihood.mean(output), likelihood.variance(output)
        return log_probs, *moments, [of_rows(tail, y) for tail in tails]

    log_probs, mean, variance, tails = ours(case.output, case.targets, y)
    np.testing.assert_allclose(log_probs, expected, rtol=1e-6)
    np.testing.assert_allclose(mean, twin.mean(), rtol=1e-6)
    np.testing.assert_allclose(variance, twin.var(), rtol=1e-6)
    assert case.output.size == likelihood.num_outputs
    if likelihood.ordered:
        cdf, sf = tails
        # Scales are held in single precision, which shows in the tails of narrow ones.
        close = {"rtol": 1e-6, "atol": 1e-12}
        np.testing.assert_allclose(cdf, twin.cdf(y), **close)
        np.testing.assert_allclose(sf, twin.sf(y), rtol=1e-5, atol=1e-12)


def ends_of(likelihood, output, tails):
    """The lower and the upper ends of a predictive distribution of one draw."""
    arrays, fixed = eqx.partition(likelihood, eqx.is_array)
    draws = DrawnLikelihoods(jax.tree.map(lambda leaf: leaf[None], arrays), fixed)
    outputs = output.reshape(1, -1)

    return [np.asarray(each) for each in jax.jit(ends)(draws, outputs, tails, tails)]


# One of each way to look for them; those of real numbers are in the tests of predictions.
@pytest.mark.parametrize(
    "name",
    [
        *("NegativeBinomial", "LogNormal", "Beta", "Independent"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("Gamma", "Gamma narrow", "Weibull")),
    ],
)
def test_ends_of_intervals_are_scipys_quantiles(name):
    """In single precision, and far out."""
    case = CASES[name]
    tails = np.array([0.4, 0.05, 1e-3])
    shape = (3, *case.likelihood.mean_shape)
    filled = jnp.asarray(np.broadcast_to(tails.reshape(-1, *[1] * (len(shape) - 1)), shape))
    output = jnp.asarray(case.output, jnp.float32)
    lower, upper = ends_of(case.likelihood, output, filled.astype(jnp.float32))
    twin = case.twin(case.output)
    for end, exact in ((lower, "ppf"), (upper, "isf")):
        ones = getattr(twin, "twins", [twin])
        expected = np.stack([getattr(one, exact)(tails) for one in ones], axis=-1).reshape(shape)
        np.testing.assert_allclose(end, expected, rtol=2e-4, atol=1e-6)


def test_quantiles_of_large_counts_are_scipys():
    """In single precision: half a count is less than a hundredth of a deviation."""
    tails = jnp.float32([0.4, 0.05, 1e-3])
    for mean in (1e4, 1e5, 1e6):
        output = jnp.float32(np.log(mean))
        # What the output says in single precision is not quite the mean.
        exact = st.poisson(np.exp(np.float64(output)))
        lower, upper = ends_of(lk.Poisson(), output, tails)
        tolerance = 0.01 * np.sqrt(mean)
        np.testing.assert_allclose(lower, exact.ppf(np.float64(tails)), atol=tolerance)
        np.testing.assert_allclose(upper, exact.isf(np.float64(tails)), atol=tolerance)


@pytest.mark.parametrize("name", ["Gaussian", "StudentT", "Poisson", "NegativeBinomial", "Weibull"])
def test_what_lies_far_above_keeps_its_digits(name):
    """In single precision, where one minus the cdf is nothing."""
    case = CASES[name]
    y = np.array([4.0, 6.0, 40.0])
    above = jax.jit(jax.vmap(case.likelihood.sf, in_axes=(None, 0)))
    tails = above(case.output.astype(np.float32), y.astype(np.float32))
    expected = case.twin(case.output).sf(y)
    assert expected[-1] < 1e-5
    # Less than the least number is none.
    np.testing.assert_allclose(tails, np.where(expected > 1e-38, expected, 0), rtol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_samples_follow_the_likelihood(name):
    case = CASES[name]
    num = 4000
    keys = jax.random.split(jax.random.key(4), num)
    output = case.output.astype(np.float32)
    draw = jax.jit(jax.vmap(lambda k: case.likelihood.sample(output, key=k)))
    y = np.asarray(draw(keys), float)
    twin = case.twin(case.output)
    if hasattr(twin, "logpmf"):
        values, counts = np.unique(y, return_counts=True)
        expected = np.exp(twin.logpmf(values.astype(int)))
        errors = np.sqrt(expected * (1 - expected) / num)
        assert np.all(np.abs(counts / num - expected) < 4 * errors + 2 / num)
    else:
        for column, one in zip(y.reshape(num, -1).T, getattr(twin, "twins", [twin]), strict=True):
            assert st.kstest(column, one.cdf).pvalue > 1e-3


@pytest.mark.parametrize("build", [lk.Gaussian, lk.StudentT])
def test_the_noise_stays_above_its_floor(build):
    likelihood = build(floor=0.05, per_input=True)
    lowest = likelihood.scale(jnp.array([0.0, -1e6], jnp.float32))
    assert lowest == pytest.approx(0.05)
    assert np.isfinite(likelihood.log_prob(jnp.array([0.0, -1e6], jnp.float32), 1e3))


@pytest.mark.parametrize("name", CASES)
def test_extreme_outputs_give_finite_gradients(name):
    case = CASES[name]
    slope = jax.jit(jax.grad(case.likelihood.log_prob))
    for size in (-80.0, 80.0):
        output = np.full(case.output.shape, size, np.float32)
        assert np.all(np.isfinite(slope(output, case.targets[1])))


def test_impossible_targets_have_no_mass():
    output = jnp.array([0.3], jnp.float32)

    # One program, where every operation would be one of its own.
    @jax.jit
    def of_counts_and_classes():
        return [
            lk.Bernoulli().log_prob(output, 0.5),
            lk.Categorical(3).log_prob(jnp.zeros(3, jnp.float32), 3),
            *(lk.Poisson().log_prob(output, y) for y in (-1.0, 1.5)),
            *(lk.NegativeBinomial().log_prob(output, y) for y in (-1.0, 1.5)),
            lk.Beta().log_prob(output, 1.0),
        ]

    assert of_counts_and_classes() == [-np.inf] * 7
    for kind in (lk.LogNormal, lk.Gamma, lk.Weibull, lk.Beta):

        @jax.jit
        def values(y, kind=kind):
            one = kind()
            log_prob, slope = jax.value_and_grad(one.log_prob)(output, y)
            return (log_prob, one.cdf(output, y), one.sf(output, y)), slope

        for y in (-1.0, 0.0):
            probabilities, slope = values(y)
            assert probabilities == (-np.inf, 0, 1)
        # Rows that count for nothing must not spoil the gradient.
        assert np.isfinite(slope).all()
    assert jax.jit(lambda: lk.Beta().cdf(output, 2.0))() == 1


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_refused(name):
    likelihood = CASES[name].likelihood
    outputs = jnp.zeros((4, likelihood.num_outputs), jnp.float32)
    with pytest.raises(ValueError, match=r"output of one example.*jax\.vmap"):
        likelihood.log_prob(outputs, jnp.zeros(likelihood.target_shape, jnp.float32))
    with pytest.raises(ValueError, match=r"one target.*jax\.vmap"):
        likelihood.log_prob(outputs[0], jnp.zeros(4, jnp.float32))


def test_variance_is_infinite_for_two_degrees_of_freedom():
    assert lk.StudentT(2.0).variance(jnp.zeros((), jnp.float32)) == np.inf


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: lk.Gaussian(0.5, floor=0.5), "above the floor"),
        (lambda: lk.Gaussian(floor=-0.1), "floor must not be negative"),
        (lambda: lk.StudentT(0.0), "dof must be positive"),
        (lambda: lk.Categorical(1), "two or more; got 1"),
        (lambda: lk.Categorical(3.0), "whole number of classes"),
        (lambda: lk.Beta(0.05), "Beta: scale must lie above the floor"),
        (lambda: lk.RightCensored(lk.Gaussian()), r"takes the likelihood of one time, Weibull\(\)"),
        (lambda: lk.RightCensored(lk.Gamma()), "takes the likelihood of one time"),
        (lambda: lk.RightCensored(lk.Independent(lk.Weibull(), 2)), "the likelihood of one time"),
        (lambda: lk.censored_times([1.0, 0.0], [1, 1]), "number 1 is 0.0"),
        (lambda: lk.censored_times([1.0, 2.0], [1, 2]), "observed must be True or False"),
        (lambda: lk.censored_times([1.0, 2.0], [1]), r"shape \(2,\), and \(1,\) ends"),
    ],
)
def test_impossible_likelihoods_are_refused(build, reason):
    with pytest.raises(ValueError, match=reason):
        build()


@pytest.mark.parametrize(
    ("likelihood", "draw"),
    [
        (lk.Gaussian(), lambda rng: rng.normal(2.0, 3.0, 200)),
        (lk.Gaussian(2.0, floor=1.0), lambda rng: rng.normal(2.0, 0.1, 200)),
        (lk.StudentT(4.0), lambda rng: 1.0 + 2 * rng.standard_t(3, 200)),
        (lk.StudentT(2.5, per_input=True), lambda rng: rng.standard_t(2, 200)),
        (lk.Bernoulli(), lambda rng: rng.integers(0, 2, 200)),
        (lk.Categorical(4), lambda rng: rng.choice(3, 200)),
        (lk.Poisson(), lambda rng: rng.poisson(3.0, 200)),
        (lk.NegativeBinomial(), lambda rng: rng.negative_binomial(2.0, 0.3, 200)),
        (lk.LogNormal(), lambda rng: rng.lognormal(1.0, 0.5, 200)),
        (lk.Gamma(), lambda rng: rng.gamma(3.0, 2.0, 200)),
        (lk.Weibull(), lambda rng: 3 * rng.weibull(2.0, 200)),
        (lk.Beta(), lambda rng: rng.beta(3.0, 1.2, 200)),
    ],
    ids=[
        "Gaussian", "floor", "StudentT", "per input", "Bernoulli", "Categorical", "Poisson",
        "NegativeBinomial", "LogNormal", "Gamma", "Weibull", "Beta",
    ],
)  # fmt: skip
def test_the_best_constant_is_found(likelihood, draw):
    """Against an optimiser over the output, and the noise scale where it is learned."""
    rng = np.random.default_rng(0)
    y, weight = draw(rng), rng.uniform(0.0, 2.0, 200)
    num = likelihood.num_outputs
    per_input = getattr(likelihood, "per_input", False)
    has_scale = hasattr(likelihood, "raw_scale") and not per_input

    @jax.jit
    def loss(z):
        one = likelihood
        if has_scale:
            one = eqx.tree_at(lambda lik: lik.raw_scale, one, z[num])
        values = jax.vmap(lambda target: one.log_prob(z[:num], target))(jnp.asarray(y))
        return -jnp.sum(values * jnp.asarray(weight)) / jnp.sum(jnp.asarray(weight))

    with jax.enable_x64(True):
        likelihood = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, float) if eqx.is_array(leaf) else leaf, likelihood
        )
        slope = jax.jit(jax.grad(loss))
        best = scipy.optimize.minimize(
            lambda z: float(loss(jnp.asarray(z))), np.zeros(num + has_scale),
            jac=lambda z: np.asarray(slope(jnp.asarray(z))), method="BFGS",
        )  # fmt: skip
    assert likelihood.constant_log_prob(y, weight) == pytest.approx(-best.fun, abs=2e-4)


def test_every_likelihood_says_what_the_target_is_modelled_as():
    kinds = {type(case.likelihood) for case in CASES.values()}
    assert len({kind.summary for kind in kinds}) == len(kinds)
    assert "" not in {kind.summary for kind in kinds}
    assert lk.Gaussian().in_words() == lk.Gaussian.summary
    assert "for each row" in lk.Gaussian(per_input=True).in_words()

    class Mine(lk.Poisson):
        summary = ""

    assert Mine().in_words() == "Mine"


@pytest.mark.parametrize("name", CASES)
def test_mean_has_the_shape_that_it_says(name):
    case = CASES[name]
    output = jnp.asarray(case.output, jnp.float32)
    assert case.likelihood.mean(output).shape == case.likelihood.mean_shape
