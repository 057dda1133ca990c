"""Every family passes these unasked."""

import functools
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats as st

import scalemix as sx
from tests.mixtures.cases import CASES, Case

ALL = list(CASES)
PROPER = [name for name, case in CASES.items() if case.proper]
CONTINUOUS = [name for name in PROPER if not CASES[name].discrete]
UPDATING = [name for name, case in CASES.items() if case.updates]
# Where a family's code matters and not its values, the first of its cases is enough for
# `make test`; all run in `make test-all`.
FIRST = {type(case.mixture): name for name, case in reversed(CASES.items())}
ONE_OF_EACH = [
    pytest.param(name, marks=[] if name in FIRST.values() else pytest.mark.slow) for name in ALL
]
WEIGHTS = np.array([1e-6, 1e-3, 0.1, 1.0, 3.0, 10.0, 1e3, 1e6])


# Each of a family's functions is compiled once for all tests, for so many values and draws.
SIZE = 41
NUM = 4000


@functools.cache
def _marginal(name):
    density = jax.value_and_grad(CASES[name].mixture.marginal_log_prob)
    return jax.jit(jax.vmap(density, in_axes=(0, None)))


@functools.cache
def _densities(name):
    mixture = CASES[name].mixture
    return jax.jit(lambda values: (mixture.log_prob(values), mixture.variance_log_prob(values)))


def marginal_and_slope(name, weights, scale=1.0):
    """The log density of weights, and its slope."""
    return _of_few(lambda values: _marginal(name)(values, values.dtype.type(scale)), weights)


def densities(name, values):
    """The log densities of noise and of variance at some values."""
    return _of_few(_densities(name), values)


def _of_few(function, values):
    """The function at no more than `SIZE` values."""
    values = np.asarray(values)
    filled = np.resize(values, SIZE)
    return [np.asarray(result)[: len(values)] for result in function(filled)]


def quantile_nodes(noise, num=40_001, reach=80.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes xi and weights of `int f(xi) p(xi) dxi`, from scipy's quantiles at `sigmoid(r)`.

    Quite another road than the library's own quadrature, which goes by the density.
    """
    r = np.linspace(0, reach, num // 2)
    tail = 1 / (1 + np.exp(r))
    weights = tail * (1 - tail) * (r[1] - r[0])
    weights[0] /= 2
    xi = np.concatenate([noise.ppf(tail), noise.isf(tail)])
    weights = np.concatenate([weights, weights])
    representable = np.isfinite(xi) & (xi != 0)
    return xi[representable], weights[representable]


def test_every_family_has_a_row():
    families = {
        value
        for name, value in vars(sx.mixtures).items()
        if inspect.isclass(value) and not inspect.isabstract(value)
    }
    assert families == {type(case.mixture) for case in CASES.values()}
    assert {family.__name__ for family in families} <= set(sx.__all__)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_noise_lies_in_its_support(name):
    mixture = CASES[name].mixture
    low, high = mixture.support
    noise = np.asarray(mixture.sample((NUM,), key=jax.random.key(0)))
    assert np.all((noise >= low) & (noise <= high))
    outside = [end + step for end, step in ((low, -0.1), (high, 0.1)) if np.isfinite(end)]
    assert not outside or np.all(densities(name, np.float32(outside))[0] == -np.inf)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_noise_density_is_scipys(name, float64):
    case = CASES[name]
    xi = case.noise.ppf(np.linspace(0.01, 0.99, 41))
    ours, _ = densities(name, xi)
    np.testing.assert_allclose(ours, case.noise.logpdf(xi), rtol=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_variance_density_follows_the_change_of_variables(name, float64):
    case = CASES[name]
    if case.variance is not None:
        v = case.variance.ppf(np.linspace(0.02, 0.98, 25))
        expected = case.variance.logpdf(v)
    else:
        xi = case.noise.ppf(np.linspace(0.02, 0.98, 25))
        v, expected = xi**2, case.noise.logpdf(xi) - np.log(2 * xi)
    _, ours = densities(name, v)
    np.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_nothing_lies_off_the_support(name):
    of_noise, of_variance = densities(name, np.float32([-0.5]))
    if not isinstance(CASES[name].mixture, sx.Gaussian):
        assert of_noise == -math.inf
    assert of_variance == -math.inf


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_marginal_is_the_integral_of_the_mixture(name, scale, float64):
    case = CASES[name]
    xi, weights = quantile_nodes(case.noise)
    w = np.array([0.07, 0.4, -1.0, 1.7, 2.5])
    # Where the noise crosses zero, a slice narrower than the nodes is invisible to the oracle.
    oracle = np.log(np.sum(weights * st.norm.pdf(w[:, None], scale=scale * np.abs(xi)), axis=1))
    ours, _ = marginal_and_slope(name, w, scale)
    np.testing.assert_allclose(ours, oracle, rtol=2e-7)


@pytest.mark.parametrize("name", [n for n in ALL if CASES[n].marginal])
def test_marginal_has_the_closed_form(name, float64):
    case = CASES[name]
    assert case.marginal is not None
    for scale in (1.0, 0.2, 30.0):
        w = np.array([1e-6, 1e-3, 0.1, 1.0, -3.0]) * scale
        expected = case.marginal(w, scale)
        ours, _ = marginal_and_slope(name, w, scale)
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-10)


def test_spike_and_slab_add_up_to_one(float64):
    mixture = sx.Bernoulli(0.8, 1.25)
    density = jax.jit(mixture.marginal_log_prob)
    slab, _ = scipy.integrate.quad(lambda w: np.exp(density(w, 0.5)), -8, 8)
    assert slab + mixture.spike_mass == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_fit_all_three_views(name):
    case = CASES[name]
    noise_key, weight_key = jax.random.split(jax.random.key(7))
    xi = np.asarray(case.mixture.sample((NUM,), key=noise_key), float)
    assert st.kstest(xi, case.noise.cdf).pvalue > 1e-3
    if case.variance is not None:
        assert st.kstest(xi**2, case.variance.cdf).pvalue > 1e-3
    # P(w < x) = E[Phi(x / (scale xi))], again by scipy's quantiles.
    nodes, weights = quantile_nodes(case.noise, num=4001, reach=40.0)
    w = np.asarray(case.mixture.marginal_sample((1000,), 0.5, key=weight_key), float)

    def cdf(x):
        return np.sum(weights * st.norm.cdf(x[:, None], scale=0.5 * np.abs(nodes)), axis=1)

    assert st.kstest(w, cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", [n for n in PROPER if CASES[n].discrete])
def test_bernoulli_samples_have_its_mass(name):
    case = CASES[name]
    noise_key, weight_key = jax.random.split(jax.random.key(3))
    num = 20_000
    xi = case.mixture.sample((num,), key=noise_key)
    kept = case.mixture.log_prob(xi) == jnp.log(case.noise.keep)
    assert set(np.unique(np.asarray(xi))) == {np.float32(0), np.float32(case.noise.value)}
    assert st.binomtest(int(kept.sum()), num, case.noise.keep).pvalue > 1e-3
    np.testing.assert_array_equal(case.mixture.variance_log_prob(xi**2), case.mixture.log_prob(xi))
    w = np.asarray(case.mixture.marginal_sample((num,), 0.5, key=weight_key))
    assert st.binomtest(int((w != 0).sum()), num, case.noise.keep).pvalue > 1e-3
    assert st.kstest(w[w != 0], st.norm(scale=0.5 * case.noise.value).cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ALL)
def test_moments(name, float64):
    case = CASES[name]
    mixture = case.mixture
    ours = {1: mixture.mean, 2: mixture.second_moment, -2: mixture.inverse_square_mean}
    for power, value in ours.items():
        assert not np.isnan(value)
        if not case.proper:
            assert value == math.inf
        elif case.discrete:
            assert value == pytest.approx(case.noise.moment(power), rel=1e-12)
        else:
            assert value == pytest.approx(oracle_moment(case, power), rel=1e-6, abs=1e-9)


def oracle_moment(case: Case, power: int) -> float:
    # A moment diverges when reaching further into the tails keeps adding to it.
    estimates = []
    for reach in (120.0, 240.0):
        xi, weights = quantile_nodes(case.noise, num=20_001, reach=reach)
        with np.errstate(over="ignore"):
            estimates.append(np.sum(weights * xi**power))
    near, far = estimates
    return far if abs(far - near) < 1e-3 * (1 + abs(near)) else math.inf


@pytest.mark.parametrize("name", UPDATING)
def test_optimal_variance_is_the_maximiser(name, float64):
    mixture = CASES[name].mixture
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 400, size=24)
    moments = counts * 10.0 ** rng.uniform(-5, 5, size=24)
    # A maximum of the bound is a zero of its slope in log v, found by scipy and not by algebra.
    slope = jax.jit(jax.grad(lambda t, m, k: evidence(mixture, jnp.exp(t), m, k)))
    bests = jax.jit(mixture.optimal_variance)(moments, counts)
    for moment, count, best in zip(moments, counts, bests, strict=True):
        root = scipy.optimize.brentq(slope, -40.0, 40.0, args=(moment, float(count)), xtol=1e-13)
        assert float(best) == pytest.approx(math.exp(root), rel=1e-9)


def evidence(mixture, v, moment, count):
    """The terms of the evidence lower bound that depend on the variance v."""
    return -0.5 * count * jnp.log(v) - 0.5 * moment / v + mixture.hyperprior_log_prob(v)


@pytest.mark.parametrize("name", [n for n in ALL if n not in UPDATING])
def test_a_family_without_update_says_so(name):
    with pytest.raises(ValueError, match=r"closed-form variance update.*HalfCauchy, InverseGamma"):
        CASES[name].mixture.optimal_variance(1.0, 3)


@pytest.mark.parametrize("name", UPDATING)
def test_optimal_variance_holds_in_float32(name):
    mixture = CASES[name].mixture
    moments = 10.0 ** np.arange(-12, 13)
    update = jax.jit(jax.vmap(jax.value_and_grad(mixture.optimal_variance), in_axes=(0, None)))
    for count in (1, 50, 1_000_000):
        ours, slopes = update(np.float32(moments), count)
        assert ours.dtype == jnp.float32
        with jax.enable_x64(True):
            exact, _ = update(moments, count)
        np.testing.assert_allclose(ours, exact, rtol=2e-6)
        assert np.all(np.isfinite(slopes))


@pytest.mark.parametrize("name", ALL)
def test_marginal_holds_in_float32(name):
    ours, slopes = marginal_and_slope(name, np.float32(WEIGHTS))
    assert ours.dtype == slopes.dtype == jnp.float32
    with jax.enable_x64(True):
        exact, exact_slopes = marginal_and_slope(name, WEIGHTS)
    assert exact.dtype == jnp.float64
    np.testing.assert_allclose(ours, exact, rtol=5e-6, atol=5e-6)
    np.testing.assert_allclose(slopes, exact_slopes, rtol=5e-3)


@pytest.mark.parametrize("name", ALL)
def test_noise_densities_hold_in_float32(name):
    ours = densities(name, np.float32(WEIGHTS))
    with jax.enable_x64(True):
        exact = densities(name, WEIGHTS)
    for one, other in zip(ours, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def unstack(mixture):
    """The family's constructor, and its parameters stacked with a second set."""
    leaves, treedef = jax.tree.flatten(mixture)
    stacked = [np.array([leaf, 0.9 * leaf], np.float32) for leaf in leaves]
    return jax.tree.unflatten(treedef, stacked)


@pytest.mark.parametrize("name", [p for p in ONE_OF_EACH if p.values != ("LogUniform",)])
def test_vmaps_over_parameters(name):
    mixture = CASES[name].mixture
    both = unstack(mixture)
    one, other = (jax.tree.map(lambda leaf, i=i: float(leaf[i]), both) for i in (0, 1))
    x = np.float32(0.6)
    functions = {
        "log_prob": lambda m: m.log_prob(x),
        "marginal": lambda m: m.marginal_log_prob(x, 0.7),
        "mean": lambda m: jnp.asarray(m.mean),
        "sample": lambda m: m.sample((3,), key=jax.random.key(1), dtype=jnp.float32),
    }
    if CASES[name].updates:
        functions["update"] = lambda m: m.optimal_variance(x, 7)

    def values(mixture):
        return {name: function(mixture) for name, function in functions.items()}

    together, alone = jax.jit(jax.vmap(values))(both), jax.jit(values)
    for i, parameters in enumerate((one, other)):
        for name, value in alone(parameters).items():
            np.testing.assert_allclose(together[name][i], value, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", [n for n in ALL if n != "LogUniform"])
def test_differentiates_in_its_parameters(name, float64):
    leaves, treedef = jax.tree.flatten(CASES[name].mixture)

    @jax.jit
    @jax.value_and_grad
    def density(parameters):
        return jax.tree.unflatten(treedef, parameters).marginal_log_prob(0.6, 0.8)

    _, slopes = density(leaves)
    for i, slope in enumerate(slopes):
        step = 1e-5 * max(leaves[i], 0.1)
        # One-sided where the parameter stands at the end of its range.
        low = [p - step * (i == j and p > 0) for j, p in enumerate(leaves)]
        high = [p + step * (i == j) for j, p in enumerate(leaves)]
        finite = (density(high)[0] - density(low)[0]) / (high[i] - low[i])
        assert slope == pytest.approx(float(finite), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", [p for p in ONE_OF_EACH if p.values[0] in PROPER])
def test_the_same_key_gives_the_same_noise(name):
    mixture = CASES[name].mixture
    key = jax.random.key(11)
    first = np.asarray(mixture.sample((NUM,), key=key))
    np.testing.assert_array_equal(first, mixture.sample((NUM,), key=key))
    # Compiled code may round the last bit another way.
    compiled = jax.jit(lambda k: mixture.sample((NUM,), key=k))(key)
    np.testing.assert_allclose(first, compiled, rtol=1e-5)
    assert np.any(first != np.asarray(mixture.sample((NUM,), key=jax.random.key(12))))
    shaped = jax.eval_shape(lambda k: mixture.sample((2, 3), key=k, dtype=jnp.float32), key)
    assert (shaped.shape, shaped.dtype) == ((2, 3), jnp.float32)
