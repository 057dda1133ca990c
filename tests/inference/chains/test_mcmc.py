"""Chains against oracles: the other form, NumPyro, exact enumeration, calibration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks import MLP
from scalemix.posterior.diagnostics import convergence, samples

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
GAUSSIAN = sx.likelihoods.Gaussian()
pytestmark = pytest.mark.filterwarnings("ignore::scalemix.posterior.diagnostics.ConvergenceWarning")


class Sum(eqx.Module):
    """A linear model in three parts, so that each can have a prior of its own."""

    a: eqx.nn.Linear
    b: eqx.nn.Linear
    c: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.a, self.b, self.c = (eqx.nn.Linear(2, "scalar", use_bias=False, key=k) for k in keys)

    def __call__(self, x):
        return self.a(x[:2]) + self.b(x[2:4]) + self.c(x[4:])


PARTS = {
    "a": sx.ARD(sx.Rayleigh(0.6), scale=0.8),
    "b": sx.ARD(sx.InverseGamma(3.0, 2.0), scale=0.8, by="output", base=sx.bases.Laplace()),
    "c": sx.ARD(sx.HalfCauchy(0.5), scale=0.8),
}
X = RNG.normal(size=(25, 6)).astype(np.float32)
Y = (X @ np.array([1.0, 0.0, -0.7, 0.2, 0.6, 0.0]) + 0.5 * RNG.normal(size=25)).astype(np.float32)
NEW = RNG.normal(size=(4, 6)).astype(np.float32)


def three_priors():
    return sx.Model(Sum(KEY), PARTS, GAUSSIAN, example=X[0])


def moments(values):
    """Means and variances of values (chains, samples, quantities), with their standard errors."""
    values = np.asarray(values, float).reshape(*np.shape(values)[:2], -1)
    centred = (values - values.mean(axis=(0, 1))) ** 2
    results = []
    for one in (values, centred):
        size = convergence.find_convergence(one).ess_bulk
        results.append((one.mean(axis=(0, 1)), one.std(axis=(0, 1)) / np.sqrt(size)))
    return results


def assert_same_moments(one, other=None, known=None):
    """Within four standard errors of their difference: a dozen numbers, once in a thousand.

    The moments of the other may be known.
    """
    theirs = moments(other) if known is None else np.array(known)
    for (mean, error), (mean_, error_) in zip(moments(one), theirs, strict=True):
        np.testing.assert_array_less(np.abs(mean - mean_), 4 * np.hypot(error, error_) + 1e-6)


def by_sample(posterior, x):
    """Weights of all sites, and the function at x, of all samples."""
    weights, _ = samples.parameters(posterior.networks)
    flat = [w.reshape(*w.shape[:2], -1) for w in weights.values()]
    return np.concatenate(flat, axis=2), samples.outputs(posterior.networks, jnp.asarray(x))


def linear_in(form, num):
    # Steps short enough for half-Cauchy scales: at .95 one chain in forty adapts to steps that are
    # too long, and which one depends on the processor's rounding.
    return sx.MCMC(
        num_chains=4, num_warmup=500, num_samples=num, parametrization=form, warm_start_steps=100,
        target_acceptance=0.99, likelihood_scale=1.0, max_depth=9,
    )  # fmt: skip


def run_numpyro(model, key, num=750):
    # What NumPyro does inside is not under our strictness.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        from numpyro.infer import MCMC, NUTS

        mcmc = MCMC(
            NUTS(model, target_accept_prob=0.9, max_tree_depth=7), num_warmup=500,
            num_samples=num, num_chains=4, chain_method="vectorized", progress_bar=False,
        )  # fmt: skip
        mcmc.run(key)
        return {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}


def raw_noise(numpyro, dist):
    raw = numpyro.sample("raw", dist.Normal(0.0, 1.0))
    return GAUSSIAN.floor + jax.nn.softplus(raw)


def linear_in_numpyro(num):
    """The weights of `three_priors`, (chains, samples, 6)."""
    import numpyro
    import numpyro.distributions as dist

    def model():
        variance = numpyro.sample("a", dist.Exponential(jnp.full(2, 0.5 / 0.6**2)))
        # One scale for both weights, for they lead to one output.
        precise = jnp.repeat(numpyro.sample("b", dist.InverseGamma(jnp.full(1, 3.0), 2.0)), 2)
        wide = numpyro.sample("c", dist.HalfCauchy(jnp.full(2, 0.5)))
        xi = jnp.concatenate([jnp.sqrt(variance), jnp.sqrt(precise), wide])
        z = numpyro.sample("z", dist.Normal(jnp.zeros(4), 0.8))
        sharp = numpyro.sample("sharp", dist.Laplace(jnp.zeros(2), 0.8))
        w = numpyro.deterministic("w", jnp.concatenate([z[:2], sharp, z[2:]]) * xi)
        numpyro.sample("y", dist.Normal(X @ w, raw_noise(numpyro, dist)), obs=Y)

    return run_numpyro(model, jax.random.key(3), num)["w"]


# Means with their standard errors, then variances with theirs, as `linear_in_numpyro(3000)` has
# them: of the weights, and of the function at `NEW`.
NUMPYRO = {
    "weights": [
        (
            [0.9419, 0.02228, -0.7169, 0.2447, 0.7385, 0.06425],
            [0.00095, 0.0011, 0.0012, 0.0012, 0.0015, 0.0011],
        ),
        (
            [0.01065, 0.0113, 0.01567, 0.01283, 0.02535, 0.01012],
            [0.00018, 0.0002, 0.00032, 0.00025, 0.00052, 0.00019],
        ),
    ],
    "function": [
        ([-1.578, -0.5786, 0.2846, -2.009], [0.0033, 0.0018, 0.003, 0.0027]),
        ([0.09721, 0.03616, 0.1064, 0.07934], [0.0016, 0.00061, 0.0019, 0.0014]),
    ],
}


@pytest.mark.slow
def test_numpyro_still_says_what_is_written_here():
    weights = linear_in_numpyro(1000)
    assert_same_moments(weights, known=NUMPYRO["weights"])
    assert_same_moments(weights @ NEW.T, known=NUMPYRO["function"])


# That both forms have one density, point by point, tests of the unknowns assert.
@pytest.mark.parametrize("form", ["expanded", pytest.param("hierarchical", marks=pytest.mark.slow)])
def test_both_forms_have_the_posterior_that_numpyro_has(form):
    num = 250
    posterior = sx.fit(three_priors(), X, Y, linear_in(form, num), key=KEY, standardize=False)
    weights, function = by_sample(posterior, NEW)
    assert_same_moments(weights, known=NUMPYRO["weights"])
    assert_same_moments(function, known=NUMPYRO["function"])
    if form == "hierarchical":
        return
    # The diagnostics see what was just seen.
    seen = posterior.diagnostics(NEW)
    assert seen.function.rhat.shape == (4,)
    assert seen.function.rhat.max() < 1.05
    assert seen.function.ess_bulk.min() > 0.5 * num
    assert np.all((seen.ebfmi > 0.3) & (seen.ebfmi < 2.0))
    assert np.all((seen.acceptance > 0.8) & (seen.acceptance < 1.0))


@pytest.mark.slow
def test_numpyro_has_the_same_posterior_of_a_network():
    import numpyro
    import numpyro.distributions as dist

    x = np.linspace(-2.0, 2.0, 15, dtype=np.float32)[:, None]
    y = (np.tanh(2 * x[:, 0]) + 0.2 * RNG.normal(size=15)).astype(np.float32)
    network = MLP(1, "scalar", 2, 1, activation=jnp.tanh, key=KEY)
    prior = sx.ARD(sx.InverseGamma(3.0, 3.0))
    method = sx.MCMC(
        num_chains=4, num_warmup=500, num_samples=750, likelihood_scale=1.0, max_depth=7,
        target_acceptance=0.9, warm_start_steps=200,
    )  # fmt: skip
    posterior = sx.fit(sx.Model(network, prior, GAUSSIAN), x, y, method, key=KEY, standardize=False)
    places = x[::3]

    def forward(first, b1, second, b2, x):
        return jnp.tanh(x @ first + b1) @ second + b2

    def model():
        w = {}
        for name, shape in (("first", (1, 2)), ("second", (2,))):
            v = numpyro.sample(f"v{name}", dist.InverseGamma(jnp.full(shape[0], 3.0), 3.0))
            z = numpyro.sample(f"z{name}", dist.Normal(jnp.zeros(shape), 1.0))
            w[name] = z * jnp.sqrt(v).reshape(-1, *(1,) * (len(shape) - 1))
        b1 = numpyro.sample("b1", dist.Normal(jnp.zeros(2), 1.0))
        b2 = numpyro.sample("b2", dist.Normal(0.0, 1.0))
        mean = forward(w["first"], b1, w["second"], b2, x)
        numpyro.deterministic("f", forward(w["first"], b1, w["second"], b2, places))
        numpyro.sample("y", dist.Normal(mean, raw_noise(numpyro, dist)), obs=y)

    theirs = run_numpyro(model, jax.random.key(4))
    assert_same_moments(by_sample(posterior, places)[1], theirs["f"])


def exact_inclusion(x, y, keep, slab):
    """P(xi_r = 1 | y) by enumeration; weights and bias integrated exactly, noise on a grid."""
    num, columns = x.shape
    subsets = np.array(np.meshgrid(*[[0.0, 1.0]] * columns)).reshape(columns, -1).T
    raw = np.linspace(-5.0, 5.0, 201)
    scale = float(GAUSSIAN.floor) + np.log1p(np.exp(raw))
    log_prior = -0.5 * raw**2
    design = np.concatenate([x, np.ones((num, 1))], axis=1)
    log_mass = np.empty(len(subsets))
    for i, subset in enumerate(subsets):
        # y ~ N(0, scale^2 I + B B^T): by eigenvalues, for all scales at once.
        b = design * np.append(subset * slab, 1.0)
        values, vectors = np.linalg.eigh(b @ b.T)
        total = values + scale[:, None] ** 2
        fit = -0.5 * np.sum(np.log(total) + (vectors.T @ y) ** 2 / total, axis=1)
        on = subset.sum()
        log_mass[i] = np.logaddexp.reduce(fit + log_prior)
        log_mass[i] += on * np.log(keep) + (columns - on) * np.log(1 - keep)
    mass = np.exp(log_mass - log_mass.max())
    return mass @ subsets / mass.sum()


def test_inclusion_probabilities_match_exact_enumeration():
    x = RNG.normal(size=(20, 8)).astype(np.float32)
    weights = np.array([1.5, 0.9, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0])
    y = (x @ weights + 0.7 * RNG.normal(size=20)).astype(np.float32)
    linear = eqx.nn.Linear(8, "scalar", key=KEY)
    model = sx.Model(linear, sx.ARD(sx.Bernoulli(0.4), scale=1.2), GAUSSIAN)
    method = sx.MCMC(
        num_chains=4, num_warmup=300, num_samples=1200, likelihood_scale=1.0, max_depth=5,
        warm_start_steps=100,
    )  # fmt: skip
    posterior = sx.fit(model, x, y, method, key=KEY, standardize=False)
    probabilities = posterior.inclusion_probabilities()["network"]["unit"]
    exact = exact_inclusion(x.astype(float), y.astype(float), 0.4, 1.2)
    assert exact.min() < 0.3
    assert exact.max() > 0.95
    bits = np.asarray(posterior.networks.bits, float)
    size = np.nan_to_num(convergence.find_convergence(bits).ess_bulk, nan=bits[..., 0].size)
    errors = np.sqrt(exact * (1 - exact) / size)
    np.testing.assert_array_less(np.abs(probabilities - exact), 4 * errors + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["nuts", "mclmc"])
def test_simulation_based_calibration(sampler):
    """Ranks of what the data were made from, among the samples, are uniform."""
    num, ranks_of = 320, []
    model = sx.Model(
        eqx.nn.Linear(2, "scalar", key=KEY), sx.ARD(sx.InverseGamma(3.0, 2.0)), GAUSSIAN
    )
    rng, xs, ys, truths = np.random.default_rng(5), [], [], []
    for key in jax.random.split(jax.random.key(6), num):
        w = np.asarray(model.prior_sample(key).weights["network"])[0]
        bias, raw = rng.normal(), 0.5 * rng.normal()
        x = rng.normal(size=(12, 2))
        noise = float(GAUSSIAN.floor) + np.log1p(np.exp(raw))
        truths.append([*w, bias, raw])
        xs.append(x)
        ys.append(x @ w + bias + noise * rng.normal(size=12))
    # Fifteen nearly independent samples have sixteen ranks, twenty data sets expected in each.
    method = sx.MCMC(
        num_chains=1, num_warmup=600, num_samples=15, thin=20 if sampler == "nuts" else 200,
        sampler=sampler, likelihood_scale=0.5,
    )  # fmt: skip
    keys = jax.random.split(jax.random.key(7), num)
    posteriors = sx.fit_many(model, xs, ys, method, keys=keys, standardize=False)
    for posterior, truth in zip(posteriors, truths, strict=True):
        others = samples.others(posterior.networks)
        weights = samples.parameters(posterior.networks)[0]["network"][0, :, 0]
        values = [*weights.T, others["bias"][0, :, 0], others["likelihood.raw_scale"][0]]
        ranks_of.append([np.sum(s < t) for s, t in zip(values, truth, strict=True)])
    counts = np.apply_along_axis(np.bincount, 0, np.array(ranks_of), minlength=16)
    chi_squared = ((counts - num / 16) ** 2 / (num / 16)).sum(axis=0)
    # The 0.9995 quantile of a chi-square with 15 degrees of freedom; four of them.
    assert np.all(chi_squared < 39.7), chi_squared


# ------------------------------------------------------------------------------------- how they run
