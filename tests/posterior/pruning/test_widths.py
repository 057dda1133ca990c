"""Widths inside of attention and of norms: posteriors that lose them predict what they did."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.scaling import UNSCALED
from scalemix.networks.groups import GROUPS
from scalemix.posterior.networks import GaussianNetworks
from tests.posterior.pruning import cases

KEY = jax.random.key(0)
X = np.random.default_rng(1).normal(size=(5, 3, 4)).astype(np.float32)
BY_OUTPUT = sx.ARD(sx.HalfCauchy(1.0), by="output", scale=0.7)
BY_UNIT = sx.ARD(sx.HalfCauchy(1.0), scale=0.7)
PROJECTIONS = [f"mixer.{name}_proj" for name in ("query", "key", "value", "output")]
NUM_DRAWS = 4000


class Mixed(eqx.Module):
    """Attention along a sequence."""

    mixer: eqx.nn.MultiheadAttention
    last: eqx.nn.Linear

    def __init__(self):
        self.mixer = eqx.nn.MultiheadAttention(
            2, 4, qk_size=4, vo_size=3, use_query_bias=True, use_value_bias=True, key=KEY
        )
        self.last = eqx.nn.Linear(4, "scalar", key=KEY)

    def __call__(self, x):
        return self.last(self.mixer(x, x, x).mean(0))


def gaussian(network, priors, off, seed=0):
    """Random weights and deviations; by site, lines along an axis have all but no signal."""
    rng = np.random.default_rng(seed)
    network = jax.tree.map(
        lambda a: jnp.asarray(0.6 * rng.normal(size=a.shape), a.dtype) if eqx.is_array(a) else a,
        network,
    )
    example = jax.ShapeDtypeStruct(X.shape[1:], X.dtype)
    model = sx.Model(network, priors, sx.likelihoods.Gaussian(0.3), example=example)
    weights = {name: np.array(weight) for name, weight in model.weights.items()}
    deviations = {name: 0.1 * abs(weight) + np.float32(0.02) for name, weight in weights.items()}
    for name, (axis, places) in off.items():
        np.moveaxis(weights[name], axis, 0)[list(places)] *= 1e-3
        np.moveaxis(deviations[name], axis, 0)[list(places)] = 1.0
    variances = {
        site.name: {
            group: 1 + rng.random(GROUPS[group].full_shape(site)).astype(np.float32)
            for group in model.structures[site.name].groups
        }
        for site in model.sites
    }
    return GaussianNetworks(
        model.with_weights(jax.device_put(weights)), *jax.device_put((deviations, variances))
    )


def posterior(networks):
    return sx.Posterior(networks, UNSCALED, cases.HISTORY, jax.random.key(8))


@eqx.filter_jit
def shifted(networks, shift):
    """What comes of weights that lie so many deviations above their means."""
    weights = {n: w + shift * networks.deviations[n] for n, w in networks.model.weights.items()}
    return jax.vmap(networks.model.with_weights(weights).network)(jnp.asarray(X))


def relative(networks, site):
    """Means and deviations, in units of what the prior expects of each weight."""
    moments = networks.weight_moments()[site]
    spread = np.sqrt(np.asarray(moments.prior_variance))
    return np.asarray(moments.mean) / spread, np.sqrt(np.asarray(moments.variance)) / spread


def assert_same_predictions(small, masked):
    """Equal where weights are, and as far as draws can tell where they are drawn."""
    for before, after in zip(masked.networks.members, small.networks.members, strict=True):
        for shift in (0.0, 1.0, -1.0):
            np.testing.assert_allclose(
                shifted(after, shift), shifted(before, shift), rtol=1e-4, atol=1e-5
            )
    one, other = (each.predict(X, num_draws=NUM_DRAWS) for each in (masked, small))
    # Five standard errors of a difference.
    error = 5 * np.sqrt(2 / NUM_DRAWS)
    np.testing.assert_array_less(abs(one.mean - other.mean), error * one.epistemic)
    # Of the square of a spread, whose draws have tails heavier than a Gaussian's; of the mean over
    # the rows, which share their draws.
    ratio = np.mean(other.epistemic**2 / one.epistemic**2)
    assert abs(ratio - 1) < 2 * error
    np.testing.assert_allclose(other.std, one.std, rtol=error)


def test_widths_of_queries_go_with_their_factor():
    off = {"mixer.query_proj": (0, (1, 5))}
    priors = dict.fromkeys(PROJECTIONS, BY_UNIT) | {"mixer.query_proj": BY_OUTPUT}
    networks = gaussian(Mixed(), priors, off)
    # A query that is off has a bias, which goes on being read unless it is zero.
    bias = networks.model.network.mixer.query_proj.bias.at[jnp.array([1, 5])].set(0.0)
    networks = eqx.tree_at(lambda n: n.model.network.mixer.query_proj.bias, networks, bias)
    post = posterior(networks)
    small, masked = post.prune(X, tolerance=1e9), post.prune(X, tolerance=1e9, mask_only=True)
    assert not small.report.notes
    mixer = small.network.mixer
    assert (mixer.num_heads, mixer.qk_size, mixer.vo_size) == (2, 3, 3)
    assert small.posterior.model.weights["mixer.key_proj"].shape == (6, 4)
    assert_same_predictions(small.posterior, masked.posterior)
    # The prior believes of each weight what it did.
    kept = [0, 2, 3, 4, 6, 7]
    ours = relative(small.posterior.networks, "mixer.query_proj")
    theirs = relative(masked.posterior.networks, "mixer.query_proj")
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other[kept], rtol=1e-5)
    scales = {name: s.scale for name, s in small.posterior.model.structures.items()}
    assert scales.pop("mixer.query_proj") == pytest.approx(0.7 * np.sqrt(3 / 4))
    assert set(scales.values()) == {0.7}


@pytest.mark.parametrize("num_members", [1, 2])
def test_other_places_of_each_head_go_with_all_that_stands_beside_them(num_members):
    off = [
        {"mixer.query_proj": (0, (1, 6, 7)), "mixer.output_proj": (1, (0, 5))},
        {"mixer.query_proj": (0, (3, 4)), "mixer.output_proj": (1, (1, 2, 3))},
    ]
    priors = dict.fromkeys(PROJECTIONS, BY_UNIT) | {"mixer.query_proj": BY_OUTPUT}
    members = []
    for seed in range(num_members):
        networks = gaussian(Mixed(), priors, off[seed], seed)
        where = lambda n: n.model.network.mixer.query_proj.bias  # noqa: E731
        bias = where(networks).at[np.array(off[seed]["mixer.query_proj"][1])].set(0.0)
        members.append(eqx.tree_at(where, networks, bias))
    post = posterior(members[0]) if num_members == 1 else cases.ensemble(members)
    if num_members > 1:
        post = sx.Posterior(post.networks, UNSCALED, post.history, post.key)
    small, masked = post.prune(X, tolerance=1e9), post.prune(X, tolerance=1e9, mask_only=True)
    assert not small.report.notes
    mixer = small.network.mixer
    assert (mixer.num_heads, mixer.qk_size, mixer.vo_size) == (2, 3, 2)
    assert_same_predictions(small.posterior, masked.posterior)
    # Each weight has the deviation and the prior that it had.
    ours, theirs = (each.posterior.networks.members[0] for each in (small, masked))
    orders = {
        "mixer.query_proj": (0, [0, 2, 3, 4, 5, 6]), "mixer.key_proj": (0, [0, 2, 3, 4, 5, 6]),
        "mixer.output_proj": (1, [1, 2, 3, 4]),
    }  # fmt: skip
    for site, (axis, order) in orders.items():
        for one, other in zip(relative(ours, site), relative(theirs, site), strict=True):
            # Of a key whose query is off nothing is left.
            other = np.where(one == 0, 0, np.take(other, order, axis))
            np.testing.assert_allclose(one, other, rtol=1e-5)
            assert np.sum(one == 0) == (4 if site != "mixer.output_proj" else 0)
