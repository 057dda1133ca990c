"""Several targets whose noise goes together."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import scalemix as sx
from scalemix.recipes import Recipe

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
Correlated, Independent = sx.likelihoods.Correlated, sx.likelihoods.Independent
RAW = np.array([0.9, -0.4, 1.3], np.float32)
LIKELIHOODS = [
    sx.likelihoods.Gaussian(per_input=True),
    sx.likelihoods.StudentT(dof=5.0, per_input=True),
]


def correlated(likelihood, strength=1.0, raw=RAW):
    built = Correlated(likelihood, 3, strength)
    return eqx.tree_at(lambda part: part.raw, built, jnp.asarray(raw))


def parts(likelihood, outputs):
    """Means, scales and correlations by hand."""
    outputs = np.asarray(outputs, float).reshape(-1, 3, 2)
    lower = np.eye(3)
    lower[np.tril_indices(3, -1)] = RAW
    lower /= np.linalg.norm(lower, axis=1, keepdims=True)
    scales = float(likelihood.floor) + np.log1p(np.exp(outputs[..., 1]))
    return outputs[..., 0], scales, lower @ lower.T


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_density_is_that_of_scipy(likelihood):
    mine = correlated(likelihood)
    outputs, y = RNG.normal(size=(2, 5, 6)).astype(np.float32)
    y = y[:, :3]
    means, scales, correlation = parts(likelihood, outputs)
    np.testing.assert_allclose(mine.correlation(), correlation, rtol=1e-5)
    terms = np.asarray(jax.jit(jax.vmap(mine.log_probs))(outputs, y))
    for row in range(5):
        shape = correlation * np.outer(scales[row], scales[row])
        # Each term is given the targets before it, so that their sums are those of the first ones.
        for num in (1, 2, 3):
            first = slice(num)
            if isinstance(likelihood, sx.likelihoods.StudentT):
                joint = st.multivariate_t(means[row, first], shape[first, first], df=5.0)
            else:
                joint = st.multivariate_normal(means[row, first], shape[first, first])
            expected = joint.logpdf(y[row, first])
            np.testing.assert_allclose(terms[row, first].sum(), expected, rtol=2e-4, atol=2e-4)
    # One target alone is what it was.
    alone = Independent(likelihood, 3)
    cdfs = (jax.jit(jax.vmap(one.cdf))(outputs, y) for one in (mine, alone))
    np.testing.assert_allclose(*cdfs, rtol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_samples_have_the_correlations_and_the_marginals(likelihood):
    mine, num = correlated(likelihood), 4000
    output = jnp.asarray(RNG.normal(size=6), jnp.float32)
    samples = np.asarray(
        jax.jit(jax.vmap(lambda key: mine.sample(output, key=key)))(jax.random.split(KEY, num))
    )
    means, scales, correlation = (np.asarray(part) for part in parts(likelihood, output))
    # Kendall's tau of elliptical distributions depends on the correlation alone.
    for i, j in ((0, 1), (0, 2), (1, 2)):
        tau = st.kendalltau(samples[:, i], samples[:, j]).statistic
        expected = 2 / np.pi * np.arcsin(correlation[i, j])
        assert abs(tau - expected) < 4 * 2 / 3 / np.sqrt(num)
    dist = st.t(5.0) if isinstance(likelihood, sx.likelihoods.StudentT) else st.norm()
    for i in range(3):
        error = (samples[:, i] - means[0, i]) / scales[0, i]
        assert st.kstest(error, dist.cdf).pvalue > 1e-3


def test_without_strength_targets_are_independent():
    mine, alone = correlated(LIKELIHOODS[1], strength=0.0), Independent(LIKELIHOODS[1], 3)
    output, y = np.float32(RNG.normal(size=6)), np.arange(3, dtype=np.float32)

    @eqx.filter_jit
    def values(likelihood):
        return likelihood.log_probs(output, y), likelihood.sample(output, key=KEY)

    for one, other in zip(values(mine), values(alone), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(mine.correlation(), np.eye(3))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: Correlated(sx.likelihoods.Gaussian(), 1), "two targets or more"),
        (lambda: Correlated(sx.likelihoods.Poisson(), 2), "Gaussian or StudentT"),
        (lambda: Correlated(sx.likelihoods.Gaussian(), 2, 0.5), "strength is 0 or 1"),
    ],
)
def test_impossible_ones_are_refused(build, reason):
    with pytest.raises(ValueError, match=reason):
        build()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_held_out_rows_find_noise_that_goes_together(tmp_path):
    x = RNG.normal(size=(240, 2))
    noise = RNG.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 240)
    y = np.stack([x[:, 0], -x[:, 0]], axis=1) + 0.5 * noise
    recipe = Recipe(hidden=(4,), num_members=2, num_trial_members=1, max_steps=300, temperature=0.3)
    fitted = recipe.fit(x, y, key=KEY)
    assert {trial.correlated for trial in fitted.trials} == {True, False}
    share = sum(trial.weight for trial in fitted.trials if trial.correlated)
    assert share > 0.9
    posterior = fitted.posterior
    learned = posterior.networks.member(0).model.likelihood
    assert learned.correlation()[0, 1] > 0.4
    posterior.save(tmp_path / "post.scalemix")
    again = sx.load(tmp_path / "post.scalemix").predict(x[:9])
    np.testing.assert_array_equal(again.log_prob(y[:9]), posterior.predict(x[:9]).log_prob(y[:9]))
    # Nothing is tried where everything is told.
    told = Recipe(hidden=(4,), num_members=2, max_steps=20, temperature=0.3, noise_floor=0.1)
    assert told.build_likelihoods(None, 2)[0].title == "Independent(StudentT, 2)"
