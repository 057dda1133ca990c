"""Widths inside of attention and of norms: posteriors that lose them predict what they did."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.scaling import UNSCALED
from scalemix.networks.cutting.agreement import same_numbers
from scalemix.networks.groups import GROUPS
from scalemix.posterior.networks import GaussianNetworks
from scalemix.posterior.pruning import compact
from tests.posterior.pruning import cases
from tests.posterior.storage.cases import assert_same

KEY = jax.random.key(0)
X = np.random.default_rng(1).normal(size=(5, 3, 4)).astype(np.float32)
BY_OUTPUT = sx.ARD(sx.HalfCauchy(1.0), by="output", scale=0.7)
BY_UNIT = sx.ARD(sx.HalfCauchy(1.0), scale=0.7)
PROJECTIONS = [f"mixer.{name}_proj" for name in ("query", "key", "value", "output")]
NUM_DRAWS = 4000
# What happens to one member happens to each of two, too.
FEW_MEMBERS = pytest.mark.parametrize("num_members", [pytest.param(1, marks=pytest.mark.slow), 2])


class Mixed(eqx.Module):
    """Attention along a sequence."""

    mixer: eqx.nn.MultiheadAttention
    last: eqx.nn.Linear

    def __init__(self, use_bias=True, dtype=jnp.float32):
        self.mixer = eqx.nn.MultiheadAttention(
            2, 4, qk_size=4, vo_size=3, use_query_bias=use_bias, use_value_bias=use_bias,
            dtype=dtype, key=KEY,
        )  # fmt: skip
        self.last = eqx.nn.Linear(4, "scalar", dtype=dtype, key=KEY)

    def __call__(self, x):
        x = x.astype(self.last.weight.dtype)
        return self.last(self.mixer(x, x, x).mean(0))


class Stream(eqx.Module):
    """A stream with a norm of its whole width."""

    enter: eqx.nn.Linear
    norm: eqx.nn.LayerNorm | eqx.nn.RMSNorm
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, width, kind):
        self.enter, self.norm = eqx.nn.Linear(4, width, key=KEY), kind(width)
        self.hidden = eqx.nn.Linear(width, width, key=KEY)
        self.last = eqx.nn.Linear(width, "scalar", key=KEY)

    def __call__(self, x):
        h = jax.vmap(self.enter)(x)
        h = h + jnp.tanh(jax.vmap(self.hidden)(jax.vmap(self.norm)(h)))
        return self.last(h.mean(0))


def gaussian(network, priors, off, seed=0):
    """Random weights and deviations; by site, lines along axes have all but no signal."""
    rng = np.random.default_rng(seed)
    network = jax.tree.map(
        lambda a: jnp.asarray(0.6 * rng.normal(size=a.shape), a.dtype) if eqx.is_array(a) else a,
        network,
    )
    example = jax.ShapeDtypeStruct(X.shape[1:], X.dtype)
    model = sx.Model(network, priors, sx.likelihoods.Gaussian(0.3), example=example)
    weights = {name: np.array(weight) for name, weight in model.weights.items()}
    deviations = {n: (0.1 * abs(w) + 0.02).astype(w.dtype) for n, w in weights.items()}
    for name, axes in off.items():
        for axis, places in axes.items():
            np.moveaxis(weights[name], axis, 0)[list(places)] *= weights[name].dtype.type(1e-3)
            np.moveaxis(deviations[name], axis, 0)[list(places)] = 1.0
    variances = {
        site.name: {
            group: (1 + rng.random(GROUPS[group].full_shape(site))).astype(weights[site.name].dtype)
            for group in model.structures[site.name].groups
        }
        for site in model.sites
    }
    return GaussianNetworks(
        model.with_weights(jax.device_put(weights)), *jax.device_put((deviations, variances))
    )


def posterior(*members):
    if len(members) == 1:
        return sx.Posterior(members[0], UNSCALED, cases.HISTORY, jax.random.key(8))
    several = cases.ensemble(members)
    return sx.Posterior(several.networks, UNSCALED, several.history, several.key)


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
    off = {"mixer.query_proj": {0: (1, 5)}}
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


@pytest.mark.parametrize(("is_proof", "width"), [(False, 3), (True, 4)])
def test_weights_of_few_digits_have_a_factor_where_rounding_allows_it(is_proof, width, monkeypatch):
    """Where not even rounding may differ, widths without a factor go as before."""
    off = {"mixer.query_proj": {0: (1, 5)}, "mixer.output_proj": {1: (0, 1, 2)}}
    priors = dict.fromkeys(PROJECTIONS, BY_UNIT) | {"mixer.query_proj": BY_OUTPUT}
    post = posterior(gaussian(Mixed(use_bias=False, dtype=jnp.bfloat16), priors, off))
    compare = functools.partial(same_numbers, is_proof=is_proof)
    monkeypatch.setattr(compact, "same_numbers", compare)
    small = post.prune(X, tolerance=1e9)
    mixer = small.network.mixer
    # The head that nothing reads is gone in any case.
    assert (mixer.num_heads, mixer.qk_size, mixer.vo_size) == (1, width, 3)
    # Keys beside queries that are off have four numbers.
    assert small.report.num_parameters == (117, 53 if width == 3 else 57)


@FEW_MEMBERS
def test_other_places_of_each_head_go_with_all_that_stands_beside_them(num_members):
    off = [
        {"mixer.query_proj": {0: (1, 6, 7)}, "mixer.output_proj": {1: (0, 5)}},
        {"mixer.query_proj": {0: (3, 4)}, "mixer.output_proj": {1: (1, 2, 3)}},
    ]
    priors = dict.fromkeys(PROJECTIONS, BY_UNIT) | {"mixer.query_proj": BY_OUTPUT}
    members = []
    for seed in range(num_members):
        networks = gaussian(Mixed(), priors, off[seed], seed)
        where = lambda n: n.model.network.mixer.query_proj.bias  # noqa: E731
        bias = where(networks).at[np.array(off[seed]["mixer.query_proj"][0])].set(0.0)
        members.append(eqx.tree_at(where, networks, bias))
    post = posterior(*members)
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


@FEW_MEMBERS
def test_widths_of_norms_go_and_their_files_load(num_members, tmp_path):
    both = sx.ARD(sx.HalfCauchy(1.0), by=("unit", "output"), scale=0.7)
    priors = {"enter": BY_OUTPUT, "hidden": both, "last": BY_UNIT}
    members = []
    for seed, places in enumerate([(1, 4), (0, 2, 5)][:num_members]):
        off = {"enter": {0: places}, "hidden": {0: places, 1: places}, "last": {1: places}}
        members.append(gaussian(Stream(6, eqx.nn.LayerNorm), priors, off, seed))
    post = posterior(*members)
    small, masked = post.prune(X, tolerance=1e9), post.prune(X, tolerance=1e9, mask_only=True)
    assert not small.report.notes
    model = small.posterior.model
    assert type(model.network.norm) is sx.networks.NarrowLayerNorm
    assert {name: w.shape for name, w in model.weights.items()} == {
        "enter": (4, 4), "hidden": (4, 4), "last": (1, 4),
    }  # fmt: skip
    assert_same_predictions(small.posterior, masked.posterior)
    # What it knows of its constants is nothing that could be learned.
    assert set(model.frozen) == {"norm.centre", "norm.spread"}
    # A file needs a network of the sizes that are left.
    path = tmp_path / "small.scalemix"
    small.posterior.save(path)
    norm, wider = (sx.networks.NarrowLayerNorm(eqx.nn.LayerNorm(4), size) for size in (6, 7))
    own = eqx.tree_at(lambda n: n.norm, Stream(4, eqx.nn.LayerNorm), norm)
    for network in (model.network, own):
        loaded = sx.load(path, network=network)
        np.testing.assert_array_equal(loaded.predict(X).mean, small.predict(X).mean)
    with pytest.raises(ValueError, match=r"norm\.size"):
        sx.load(path, network=eqx.tree_at(lambda n: n.norm, own, wider))
    # A second time there is nothing left to do.
    again = loaded.prune(X, tolerance=1e9).posterior
    assert_same(again, small.posterior)


def test_an_rms_norm_that_lost_zeros_is_saved_with_its_own_eps(tmp_path):
    both = sx.ARD(sx.HalfCauchy(1.0), by=("unit", "output"), scale=0.7)
    priors = {"enter": BY_OUTPUT, "hidden": both, "last": BY_UNIT}
    off = {"enter": {0: (1, 4)}, "hidden": {0: (1, 4), 1: (1, 4)}, "last": {1: (1, 4)}}
    networks = gaussian(Stream(6, eqx.nn.RMSNorm), priors, off)
    bias = networks.model.network.enter.bias.at[jnp.array([1, 4])].set(0.0)
    post = posterior(eqx.tree_at(lambda n: n.model.network.enter.bias, networks, bias))
    small, masked = post.prune(X, tolerance=1e9), post.prune(X, tolerance=1e9, mask_only=True)
    norm = small.network.norm
    assert type(norm) is eqx.nn.RMSNorm
    assert norm.shape == (4,)
    assert not small.posterior.model.frozen
    assert_same_predictions(small.posterior, masked.posterior)
    path = tmp_path / "small.scalemix"
    small.posterior.save(path)
    loaded = sx.load(path, network=small.posterior.model.network)
    np.testing.assert_array_equal(loaded.predict(X).mean, small.predict(X).mean)
    with pytest.raises(ValueError, match=r"'norm\.eps' is 1\.5"):
        sx.load(path, network=Stream(4, eqx.nn.RMSNorm))
