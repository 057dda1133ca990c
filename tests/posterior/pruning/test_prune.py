"""`Posterior.prune`: what goes, what is said of it, and what comes back."""

import functools
import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks import MLP, ResNet
from scalemix.posterior.networks import GaussianNetworks, Networks, OneNetwork
from scalemix.posterior.predictive import Drawn
from tests.posterior.pruning import cases
from tests.posterior.storage.cases import as_fitted, assert_same

KEY = jax.random.key(0)
X = np.random.default_rng(1).normal(size=(30, cases.IN))
HALF = np.array([0, 1, 0, 1, 1], bool)


def mlp(rows_off=None, seed=0, **kinds):
    model = cases.model("mlp", 2, **kinds)
    return cases.posterior(cases.gaussian(model, np.random.default_rng(seed), rows_off or {}))


def standard(x):
    return cases.SCALING.inputs(x)


@eqx.filter_jit
def run(network):
    """Its outputs, by one program, where each operation would be one of its own."""
    return jax.vmap(network)(standard(X).astype(np.float32))


# ------------------------------------------------------------------------------------ what it does


@pytest.mark.parametrize("kind", ["mlp", "resnet", "equinox"])
def test_the_units_that_are_off_are_those_that_go(kind):
    model, rng = cases.model(kind, 2, "tanh"), np.random.default_rng(0)
    readers = {"mlp": ["layers.1"], "resnet": ["blocks.0", "last"], "equinox": ["layers.1"]}
    post = cases.posterior(cases.gaussian(model, rng, dict.fromkeys(readers[kind], HALF)))
    small, same_size = post.prune(), post.prune(mask_only=True)
    writer = "first" if kind == "resnet" else "layers.0"
    assert small.report.units[writer] == (5, 2)
    for name in readers[kind]:
        assert small.report.rows_off[name] == (3, 5)
        np.testing.assert_array_equal(small.posterior.networks.variances[name]["unit"], [1, 3])
        assert not np.asarray(same_size.posterior.model.weights[name])[:, HALF].any()
    # As JAX computes them, too.
    ours, expected = run(small.network), run(same_size.network)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    # A second time there is nothing left to do, and relevance says so.
    widths = {site.name: site.num_rows for site in small.posterior.model.sites[1:]}
    assert small.posterior.relevance().effective_width == widths
    again = small.posterior.prune()
    assert_same(again.posterior, small.posterior)


def test_outputs_that_are_off_go_where_scales_are_by_output():
    """A unit that nothing leads to any more is a constant, and moves into the next bias."""
    model = cases.model("mlp", 2, "sigmoid", prior=functools.partial(sx.ARD, by="output"))
    networks = cases.gaussian(model, np.random.default_rng(0), {})
    off = jnp.asarray(HALF)[:, None]
    weights, deviations = networks.model.weights, networks.deviations
    networks = GaussianNetworks(
        networks.model.with_weights(
            weights | {"layers.0": jnp.where(off, 1e-3, weights["layers.0"])}
        ),
        deviations | {"layers.0": jnp.where(off, 1.0, deviations["layers.0"])},
        networks.variances,
    )
    post = cases.posterior(networks)
    relevance = post.relevance()
    np.testing.assert_array_equal(relevance.outputs_on["layers.0"], ~HALF)
    assert relevance.outputs_on["layers.1"].all()
    (remark,) = relevance.remarks
    assert "they share all scales of layers.0" in remark
    assert not mlp().relevance().remarks
    small, same_size = post.prune(), post.prune(mask_only=True)
    assert small.report.outputs_off == {"layers.0": (3, 5), "layers.1": (0, 5), "layers.2": (0, 1)}
    assert small.report.rows_off["layers.1"] == (0, 5)
    assert small.report.units["layers.0"] == (5, 2)
    np.testing.assert_array_equal(small.posterior.networks.variances["layers.0"]["output"], [1, 3])
    assert not np.asarray(same_size.posterior.model.weights["layers.0"])[HALF].any()
    ours, expected = run(small.network), run(same_size.network)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_parameters_are_counted():
    report = mlp({"layers.1": HALF}).prune().report
    assert report.num_parameters == (3 * 5 + 5 + 25 + 5 + 5 + 1, 3 * 2 + 2 + 10 + 5 + 5 + 1)
    assert report.num_stored == report.num_parameters
    assert report.multiply_adds == (15 + 25 + 5, 6 + 10 + 5)
    assert report.latency is None
    # Under a mask: three rows of five weights fewer, and the same work.
    under_mask = mlp({"layers.1": HALF}).prune(mask_only=True, timed=True).report
    assert under_mask.num_parameters == (56, 41)
    assert under_mask.num_stored == (56, 56)
    assert under_mask.multiply_adds == (45, 45)
    assert min(under_mask.latency) > 0


def test_nothing_to_prune_changes_nothing():
    post = mlp()
    small = post.prune(X)
    assert_same(small.posterior, post)
    assert small.report.mean_change == 0
    assert small.report.std[0] == small.report.std[1]
    np.testing.assert_array_equal(small.predict(X).mean, post.predict(X).mean)


def test_inputs_are_taken_still_unless_they_are_dropped():
    post = mlp({"layers.0": np.array([False, True, False])})
    ignoring, dropping = post.prune(), post.prune(X, drop_inputs=True, tolerance=10.0)
    assert ignoring.report.inputs == (0, 1, 2)
    assert dropping.report.inputs == (0, 2)
    assert ignoring.report.inputs_off == dropping.report.inputs_off == (1,)
    assert dropping.posterior.model.network.layers[0].weight.shape == (5, 2)
    x = jnp.asarray(standard(X), jnp.float32)
    changed = x.at[:, 1].set(7.0)
    expected = jax.vmap(ignoring.network)(x)
    np.testing.assert_array_equal(jax.vmap(ignoring.network)(changed), expected)
    np.testing.assert_allclose(jax.vmap(dropping.network)(x[:, [0, 2]]), expected, rtol=1e-5)
    # Predictions want the columns that the report names, on their own scale.
    np.testing.assert_array_equal(dropping.posterior.scaling.x_mean, [0.1, 1 / 3])
    assert len(dropping.predict(X[:, dropping.report.inputs])) == len(X)


def test_one_unit_stays_where_all_are_off():
    model = cases.model("mlp", 2, "sigmoid")
    everything = {site.name: np.ones(site.num_rows, bool) for site in model.sites}
    post = cases.posterior(cases.gaussian(model, np.random.default_rng(0), everything))
    small = post.prune()
    assert [w.shape for w in small.posterior.model.weights.values()] == [(1, 3), (1, 1), (1, 1)]
    assert small.report.units == {"layers.0": (5, 1), "layers.1": (5, 1)}
    assert len(small.report.notes) == 2
    assert "one is kept" in str(small)
    x = standard(X)
    masked = post.prune(mask_only=True).network
    np.testing.assert_allclose(
        cases.forward(small.network, x, "sigmoid"), cases.forward(masked, x, "sigmoid"), rtol=1e-5
    )


def test_members_of_an_ensemble():
    model, rng = cases.model("mlp", 2, "softplus"), np.random.default_rng(3)
    offs = [{"layers.1": HALF}, {"layers.1": ~HALF}, {"layers.2": np.ones(5, bool)}]
    post = cases.ensemble([cases.gaussian(model, rng, off) for off in offs])
    small, masked = post.prune(), post.prune(mask_only=True)
    # The first keeps two units, the second three, the third needs none of the second layer's.
    assert small.report.units == {"layers.0": (5, 3), "layers.1": (5, 5)}
    assert small.report.num_members == 3
    for one, other in zip(small.posterior.members, masked.posterior.members, strict=True):
        np.testing.assert_allclose(
            cases.forward(one.model.network, X, "softplus"),
            cases.forward(other.model.network, X, "softplus"),
            rtol=1e-4,
        )
    # Draws of the same members, whose weights differ by chance alone: five standard errors.
    one, other = small.predict(X, num_draws=1200), masked.posterior.predict(X, num_draws=1200)
    apart = np.abs(one.mean - other.mean)
    assert np.all(apart < 5 * np.sqrt((one.epistemic**2 + other.epistemic**2) / 1200))


def test_members_of_their_own_sizes():
    model, rng = cases.model("mlp", 2, "softplus"), np.random.default_rng(3)
    offs = [{"layers.1": HALF}, {"layers.1": ~HALF}]
    post = cases.ensemble([cases.gaussian(model, rng, off) for off in offs])
    pruned = post.prune(same_shape=False)
    assert pruned.report.units["layers.0"] == (5, 3)
    first, second = pruned.members
    assert first.report.units["layers.0"] == (5, 2)
    assert second.report.units["layers.0"] == (5, 3)
    for pruned, member in zip(
        (first, second), post.prune(mask_only=True).posterior.members, strict=True
    ):
        np.testing.assert_allclose(
            cases.forward(pruned.posterior.model.network, X, "softplus"),
            cases.forward(member.model.network, X, "softplus"),
            rtol=1e-4,
        )


class Written(eqx.Module):
    """A size that is written into the code."""

    convolution: eqx.nn.Conv1d
    dense: eqx.nn.Linear

    def __call__(self, x):
        return self.dense(jax.nn.relu(self.convolution(x[None])).reshape(12))


def test_a_size_in_the_code():
    own = Written(eqx.nn.Conv1d(1, 4, 3, padding=1, key=KEY), eqx.nn.Linear(12, "scalar", key=KEY))
    prior, example = sx.ARD(sx.HalfCauchy(1.0)), jnp.ones(3)
    model = sx.Model(own, prior, sx.likelihoods.Gaussian(0.3), example=example)
    weights = model.weights | {"dense": model.weights["dense"].at[:, 3:].set(0.0)}
    post = cases.posterior(OneNetwork(model.with_weights(weights)))
    masked, emitted = post.prune(), post.prune(as_function=True)
    line = Written.__call__.__code__.co_firstlineno + 1
    assert masked.report.num_stored[0] == masked.report.num_stored[1]
    assert f"test_prune.py:{line}, TypeError: cannot reshape" in str(masked)
    assert emitted.posterior.model.weights["network.dense"].shape == (1, 3)
    before, after = emitted.report.multiply_adds
    assert (before, after) == (4 * 9 + 12, 9 + 3)
    np.testing.assert_allclose(emitted.predict(X).mean, masked.predict(X).mean, rtol=1e-5)


@pytest.mark.parametrize("many", [False, True])
def test_a_file_holds_a_pruned_posterior(many, tmp_path):
    model, rng = as_fitted(cases.model("equinox", 2)), np.random.default_rng(3)
    members = [cases.gaussian(model, rng, {"layers.1": HALF}) for _ in range(2)]
    post = cases.ensemble(members) if many else cases.posterior(members[0])
    small = post.prune().posterior
    small.save(tmp_path / "small.scalemix")
    # An Equinox MLP came back as one of ours, which needs no network= to load.
    assert_same(sx.load(tmp_path / "small.scalemix"), small)


def test_a_fitted_network_loses_layers_and_keeps_its_predictions():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(200, 2))
    y = np.maximum(x[:, 0], 0) - 0.5 * x[:, 1] + 0.05 * rng.normal(size=200)
    model = sx.Model(
        ResNet(2, "scalar", 8, 5, key=KEY), sx.ADD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian()
    )
    method = sx.VariationalEM(steps=3000, num_draws=1, batch_size=32, warm_up=0.0)
    post = sx.fit(model, x, y, method, key=KEY)
    small = post.prune(x)
    before, after = small.report.num_layers
    assert before - after == len(small.report.dropped) >= 3
    assert small.report.num_parameters[1] < 0.5 * small.report.num_parameters[0]
    assert small.report.mean_change < 0.01
    inputs = post.scaling.inputs(x).astype(np.float32)
    run = eqx.filter_jit(lambda network: jax.vmap(network)(inputs))
    full, rest = (np.asarray(run(network)) for network in (post.model.network, small.network))
    assert np.abs(full - rest).max() < 0.01 * np.abs(full).max()
    assert small.report.std[1] == pytest.approx(small.report.std[0], rel=0.02)


# --------------------------------------------------------------------------------------- tolerance


def one_network():
    """Weights without noise: what there is to go by is their size."""
    model = cases.gaussian(cases.model("mlp", 1, "tanh"), np.random.default_rng(0), {}).model
    sizes = jnp.asarray([1e-4, 1.0, 1e-2, 2.0, 1e-3])
    last = model.weights["layers.1"] * sizes[None]
    return cases.posterior(OneNetwork(model.with_weights(model.weights | {"layers.1": last})))


def test_tolerance_bounds_the_change_of_predictions():
    post = one_network()
    before = post.predict(X).mean
    kept = []
    for tolerance in (0.0, 1e-3, 0.1, 10.0):
        small = post.prune(X, threshold=math.inf, tolerance=tolerance)
        change = np.abs(small.predict(X).mean - before).max() / before.std()
        assert change == pytest.approx(small.report.mean_change, abs=1e-5)
        assert small.report.mean_change <= tolerance
        kept.append(small.report.units["layers.0"][1])
    assert kept[0] == 5
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] == 1
    # The smallest go first.
    small = post.prune(X, threshold=math.inf, tolerance=3e-3)
    left = np.asarray(small.posterior.model.weights["layers.1"])[0]
    whole = np.asarray(post.model.weights["layers.1"])[0]
    np.testing.assert_array_equal(left, whole[np.isin(np.arange(5), [1, 2, 3])])


def residual(prior, quiet_layer, quiet_row):
    """Two residual layers: one is all noise; of the other, one row is."""
    network = ResNet(cases.IN, "scalar", 5, 3, key=KEY)
    model = sx.Model(network, prior, sx.likelihoods.Gaussian())
    noise = {"blocks.0": np.arange(5) == quiet_row, "blocks.1": np.full(5, quiet_layer)}
    return cases.posterior(cases.gaussian(model, np.random.default_rng(0), noise))


@pytest.mark.parametrize("kind", [sx.ADD, sx.ARDADD])
def test_rows_go_by_themselves_only_if_they_have_scales(kind):
    post = residual(kind(sx.HalfCauchy(1.0)), quiet_layer=True, quiet_row=2)
    report = post.prune().report
    assert report.dropped == {"blocks.1": 1}
    assert report.rows_off["blocks.1"] == (5, 5)
    assert report.rows_off["blocks.0"] == ((0, 5) if kind is sx.ADD else (1, 5))


def test_within_a_tolerance_layers_go_whole():
    post = residual(sx.ADD(sx.HalfCauchy(1.0)), quiet_layer=False, quiet_row=2)
    for tolerance in (0.0, 0.3, 0.6, 10.0):
        rows_off = post.prune(X, threshold=math.inf, tolerance=tolerance).report.rows_off
        assert {rows_off["blocks.0"][0], rows_off["blocks.1"][0]} <= {0, 5}
    assert rows_off["blocks.0"] == rows_off["blocks.1"] == (5, 5)


def test_a_large_change_is_not_made_in_silence(recwarn):
    # The units of the last layer are off by the rule, and all there is.
    post = mlp({"layers.2": np.ones(5, bool)})
    post.prune(X, tolerance=10.0)
    mlp({"layers.1": HALF}).prune()
    assert not recwarn.list
    with pytest.warns(UserWarning, match="of its spread .* With tolerance=0.05 less"):
        post.prune(X)


def test_a_tolerance_holds_back_what_the_rule_would_remove():
    # The units of the last layer are off by the rule, and all there is.
    post = mlp({"layers.2": np.ones(5, bool)})
    everything, little = post.prune(X, tolerance=10.0), post.prune(X, tolerance=1e-6)
    assert everything.report.mean_change > 1e-6
    assert everything.report.units["layers.1"] == (5, 1)
    assert little.report.mean_change <= 1e-6
    assert little.report.units["layers.1"][1] > 1


# ------------------------------------------------------------------------------ any other network


class Own(eqx.Module):
    convolution: eqx.nn.Conv1d
    dense: eqx.nn.Linear

    def __call__(self, x):
        return self.dense(jax.nn.relu(self.convolution(x[None])).reshape(-1))


def test_any_network_can_be_masked():
    own = Own(eqx.nn.Conv1d(1, 4, 3, padding=1, key=KEY), eqx.nn.Linear(12, "scalar", key=KEY))
    model = sx.Model(own, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(0.3))
    off = np.arange(12) >= 3
    networks = cases.gaussian(model, np.random.default_rng(0), {})
    weight, deviation = model.weights["dense"], networks.deviations["dense"]
    networks = GaussianNetworks(
        networks.model.with_weights(
            networks.model.weights | {"dense": jnp.where(off[None], 1e-3, weight + 2.0)}
        ),
        networks.deviations | {"dense": jnp.where(off[None], 1.0, deviation)},
        networks.variances,
    )
    post = cases.posterior(networks)
    # The shape of an input cannot be told from this network.
    assert "give prune some inputs" in str(post.prune())
    small = post.prune(X, tolerance=10.0)
    assert small.report.units == {"convolution": (4, 1)}
    assert isinstance(small.network, Own)
    assert small.network.convolution.out_channels == 1
    masked = post.prune(mask_only=True)
    assert masked.report.rows_off == {"convolution": (0, 1), "dense": (9, 12)}
    x = jnp.asarray(X, jnp.float32)
    np.testing.assert_allclose(
        jax.vmap(small.network)(x), jax.vmap(masked.network)(x), rtol=1e-5, atol=1e-5
    )
    # Channels 1 to 3 are not read any more: moving them all is moving the first.
    x = jnp.ones(3)

    def moved(by):
        bias = jnp.asarray(by) + 10.0
        return float(eqx.tree_at(lambda n: n.convolution.bias, masked.network, bias[:, None])(x))

    assert moved([1.0, 1.0, 1.0, 1.0]) == pytest.approx(moved([1.0, 0.0, 0.0, 0.0]), rel=1e-6)
    assert moved([1.0, 0.0, 0.0, 0.0]) != pytest.approx(moved([0.0, 0.0, 0.0, 0.0]), rel=1e-2)


@pytest.mark.parametrize(
    ("network", "left"),
    [
        (lambda: eqx.nn.MLP(3, "scalar", 5, 2, final_activation=jnp.tanh, key=KEY), 2),
        (lambda: eqx.nn.MLP(3, "scalar", 5, 2, eqx.nn.PReLU(), key=KEY), 5),
        (lambda: MLP(3, "scalar", 5, 2, activation=jax.nn.softmax, key=KEY), 5),
    ],
)
def test_networks_with_something_else_in_them(network, left):
    """An activation with slopes by unit ties all layers; one that mixes units lets none go."""
    model = sx.Model(network(), sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(0.3))
    weights = dict(model.weights)
    name = [*weights][-1]
    weights[name] = weights[name].at[..., jnp.asarray(HALF)].set(0.0)
    post = cases.posterior(OneNetwork(model.with_weights(weights)))
    small, masked = post.prune(), post.prune(mask_only=True)
    assert small.posterior.model.weights[name].shape == (1, left)
    x = jnp.asarray(X, jnp.float32)
    np.testing.assert_allclose(
        jax.vmap(small.network)(x), jax.vmap(masked.network)(x), rtol=1e-5, atol=1e-6
    )
    if isinstance(small.network, MLP):
        (note,) = small.report.notes
        assert "layers.2.weight" in note
        assert re.search(r"because of reduce_(sum|max) at mlp\.py:\d+", note)


class Others(Networks):
    def __call__(self, index, key):
        return Drawn(self.model.network, self.model.likelihood)

    def weight_moments(self):
        return {}


def test_bad_arguments():
    post = mlp()
    for arguments, reason in [
        ({"threshold": -1.0}, "threshold"),
        ({"threshold": "all"}, "threshold"),
        ({"threshold": math.inf}, "bound what may go"),
        ({"x": X, "tolerance": -0.1}, "tolerance"),
        ({"x": X, "tolerance": math.nan}, "tolerance"),
        ({"tolerance": 0.1}, "no inputs to predict for"),
        ({"x": X[:0]}, "no rows"),
        ({"x": X[:1]}, "no two different rows"),
        ({"x": X[[0, 0]]}, "no two different rows"),
        ({"x": X[:, :2]}, "does not take"),
        ({"mask_only": True, "drop_inputs": True}, "leaves all shapes alone"),
    ]:
        with pytest.raises(ValueError, match=reason):
            post.prune(**arguments)
    with pytest.raises(ValueError, match="A posterior of Others cannot be pruned"):
        cases.posterior(Others(post.model)).prune()
