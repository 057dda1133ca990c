"""A smaller network computes what the masked one does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalemix as sx
from scalemix.networks import MLP
from scalemix.posterior.networks import NoisyNetworks
from scalemix.posterior.pruning.compact import compact
from scalemix.posterior.pruning.masks import Row, mask
from tests.posterior.pruning import cases

X = np.random.default_rng(1).normal(size=(20, cases.IN))
ROWS = X.astype(np.float32)
KINDS = ["mlp", "resnet", "equinox"]


def listed(rows_off, member=0):
    return [
        Row(member, name, int(row)) for name, off in rows_off.items() for row in np.flatnonzero(off)
    ]


def masked(model, rng, rows_off):
    return mask([cases.gaussian(model, rng, {})], listed(rows_off))[0]


ANY_CASE = given(
    kind=st.sampled_from(KINDS),
    depth=st.integers(1, 4),
    activation=st.sampled_from([*cases.ACTIVATIONS]),
    prior=st.sampled_from([sx.ARD, sx.DropConnect]),
    seed=st.integers(0, 2**32 - 1),
)


@settings(max_examples=8, deadline=None)
@ANY_CASE
def test_some_of_what_may_be_off(kind, depth, activation, prior, seed):
    check_smaller(kind, depth, activation, prior, seed)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@ANY_CASE
def test_whatever_is_off(kind, depth, activation, prior, seed):
    check_smaller(kind, depth, activation, prior, seed)


def check_smaller(kind, depth, activation, prior, seed):
    rng = np.random.default_rng(seed)
    model = cases.model(kind, depth, activation, prior)
    rows_off = cases.random_rows(model, rng)
    full = masked(model, rng, rows_off)
    made = compact([full], ROWS, drop_inputs=False)
    (small,) = made.members
    expected = cases.forward(full.model.network, X, activation)
    given_back = cases.forward(small.model.network, X, activation)
    # Biases are rounded to single precision, as sums of terms that may be larger than they are.
    rounding = 1e-5 * (1 + np.abs(expected).max())
    np.testing.assert_allclose(given_back, expected, rtol=0, atol=rounding)
    # What a site is said to hold is what it holds.
    for site in small.model.sites:
        weight = np.asarray(site.weight(small.model.network))
        assert site.shape == weight.shape == small.deviations[site.name].shape
        known = weight != 0
        np.testing.assert_allclose(
            np.asarray(small.deviations[site.name])[known],
            cases.deviation_of(weight[known]),
            rtol=1e-6,
        )
        for group, shape in small.model.scale_shapes[site.name].items():
            assert small.variances[site.name][group].shape == shape
        if prior is sx.DropConnect:
            scales = np.asarray(small.variances[site.name]["weight"])
            np.testing.assert_allclose(scales[known], weight[known] ** 2, rtol=1e-6)
    # And nothing stays that could go: units that are read, or one.
    for name, (before, after) in made.units.items():
        assert before == cases.WIDTH
        later = [site.name for site in small.model.sites][1:]
        readers = later if kind == "resnet" else [f"layers.{int(name.split('.')[1]) + 1}"]
        weights = [np.asarray(small.model.weights[reader]) for reader in readers]
        read = np.any([(weight != 0).any(axis=0) for weight in weights], axis=0)
        assert after == len(read) == max(1, read.sum())


def test_scales_go_with_their_rows():
    model = cases.model("mlp", 2)
    rows_off = {"layers.1": np.array([0, 1, 0, 1, 0], bool), "layers.2": np.arange(5) > 3}
    (small,) = compact(
        [masked(model, np.random.default_rng(0), rows_off)], ROWS, drop_inputs=False
    ).members
    np.testing.assert_array_equal(small.variances["layers.0"]["unit"], [1, 2, 3])
    np.testing.assert_array_equal(small.variances["layers.1"]["unit"], [1, 3, 5])
    np.testing.assert_array_equal(small.variances["layers.2"]["unit"], [1, 2, 3, 4])
    assert [layer.weight.shape for layer in small.model.network.layers] == [(3, 3), (4, 3), (1, 4)]


@pytest.mark.parametrize("activation", ["sigmoid", "softplus"])
def test_what_a_dropped_layer_added_goes_on_being_added(activation):
    model = cases.model("resnet", 4, activation)
    off = {"blocks.0": np.ones(5, bool), "blocks.2": np.ones(5, bool)}
    full = masked(model, np.random.default_rng(0), off)
    made = compact([full], ROWS, drop_inputs=False)
    (small,) = made.members
    assert made.dropped == {"blocks.0": 1, "blocks.2": 1}
    assert len(small.model.network.blocks) == 1
    # By hand: both layers were constants; the first reached the layer between them too.
    f = cases.ACTIVATIONS[activation][1]
    old, new = full.model.network, small.model.network
    first, _, third = (f(np.asarray(block.bias, float)) for block in old.blocks)
    kept, last = np.asarray(old.blocks[1].weight), np.asarray(old.last.weight)
    np.testing.assert_allclose(
        new.blocks[0].bias, old.blocks[1].bias + kept @ first, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        new.last.bias, old.last.bias + last @ (first + third), rtol=1e-5, atol=1e-5
    )


def test_a_stream_unit_stays_as_long_as_anything_reads_it():
    model = cases.model("resnet", 3)
    all_but_one = {name: np.arange(5) != 2 for name in ("blocks.0", "last")}
    all_but_another = {"blocks.1": np.arange(5) != 4}
    full = masked(model, np.random.default_rng(0), all_but_one | all_but_another)
    made = compact([full], ROWS, drop_inputs=False)
    assert made.units == {"first": (5, 2)}
    np.testing.assert_array_equal(made.members[0].variances["blocks.1"]["unit"], [3, 5])


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_a_layer_without_a_bias_gets_one_if_it_needs_it(activation):
    model = cases.model("equinox", 2, activation, use_bias=False)
    full = masked(model, np.random.default_rng(0), {"layers.0": np.ones(3, bool)})
    (small,) = compact([full], ROWS, drop_inputs=False).members
    network = small.model.network
    assert isinstance(network, MLP)
    np.testing.assert_allclose(
        cases.forward(network, X, activation),
        cases.forward(full.model.network, X, activation),
        rtol=1e-5,
    )
    # A rectifier makes nothing of nothing.
    assert (network.layers[-1].bias is None) == (activation == "relu")


def test_the_noise_of_a_folded_weight_has_a_mean():
    """Under dropout a constant gets through as often as its unit is kept."""
    keep = 0.8
    base = cases.model("mlp", 2, "sigmoid")
    drawn = cases.gaussian(base, np.random.default_rng(0), {}).model.network
    noisy = NoisyNetworks(sx.Model(drawn, sx.ARD(sx.Bernoulli(keep)), sx.likelihoods.Gaussian(0.3)))
    (full,) = mask([noisy], listed({"layers.0": np.ones(3, bool)}))
    (small,) = compact([full], ROWS, drop_inputs=False).members
    old, new = full.model.network.layers, small.model.network.layers
    f = cases.ACTIVATIONS["sigmoid"][1]
    first = f(np.asarray(old[0].bias, float))
    second = f(np.asarray(old[1].bias) + keep * np.asarray(old[1].weight) @ first)
    expected = np.asarray(old[2].bias) + keep * np.asarray(old[2].weight) @ second
    np.testing.assert_allclose(new[2].bias, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_members_keep_one_shape(kind):
    model, rng = cases.model(kind, 3, "softplus"), np.random.default_rng(4)
    rows = [cases.random_rows(model, rng, share) for share in (0.2, 0.5, 0.8)]
    if kind == "resnet":
        # Different layers off in different members, and not as many.
        for off, names in zip(
            rows, (["blocks.0"], ["blocks.1"], ["blocks.0", "blocks.1"]), strict=True
        ):
            off.update({name: np.ones(5, bool) for name in names})
    full = mask(
        [cases.gaussian(model, rng, {}) for _ in rows],
        [row for i, off in enumerate(rows) for row in listed(off, i)],
    )
    made = compact(full, ROWS, drop_inputs=False)
    shapes = [{n: w.shape for n, w in m.model.weights.items()} for m in made.members]
    assert shapes[0] == shapes[1] == shapes[2]
    if kind == "resnet":
        assert made.dropped == {"blocks.0": 2, "blocks.1": 1}
    else:
        most = max(np.sum(~off["layers.3"]) for off in rows)
        assert made.units["layers.2"] == (5, most)
    for before, after in zip(full, made.members, strict=True):
        np.testing.assert_allclose(
            cases.forward(after.model.network, X, "softplus"),
            cases.forward(before.model.network, X, "softplus"),
            rtol=1e-4,
            atol=1e-4,
        )


def test_members_share_the_priors_of_their_layers():
    """With a prior for each layer only those go that are off in all members."""
    base = cases.model("resnet", 4)
    priors = {f"blocks.{i}": sx.ARD(sx.HalfCauchy(1.0 + i)) for i in range(3)}
    model = sx.Model(base.network, priors, base.likelihood)
    rng, off = np.random.default_rng(0), np.ones(5, bool)
    rows = [{"blocks.0": off, "blocks.1": off}, {"blocks.1": off, "blocks.2": off}]
    full = mask(
        [cases.gaussian(model, rng, {}) for _ in rows],
        [row for i, one in enumerate(rows) for row in listed(one, i)],
    )
    made = compact(full, ROWS, drop_inputs=False)
    assert made.dropped == {"blocks.1": 2}
    for before, after in zip(full, made.members, strict=True):
        scales = [s.mixture.scale for s in after.model.structures.values()]
        assert scales == [1.0, 3.0]
        np.testing.assert_allclose(
            cases.forward(after.model.network, X),
            cases.forward(before.model.network, X),
            rtol=1e-4,
            atol=1e-4,
        )


@pytest.mark.parametrize(
    ("numbers_off", "table_off", "inputs", "inputs_off", "told"),
    [
        ([0, 1, 0], False, (0, 2, 3, 4), (1,), None),
        # A number alone between two positions, and a position.
        ([0, 0, 1], False, (0, 1, 2, 3, 4), (3,), "Inputs 3 stay"),
        ([0, 0, 0], True, (0, 1, 2, 3, 4), (2,), "Inputs 2 stay"),
        ([1, 0, 1], True, (1, 2, 3, 4), (0, 2, 3), "Inputs 2, 3 stay"),
    ],
)
def test_inputs_that_nothing_reads_go_or_are_said_to_stay(
    numbers_off, table_off, inputs, inputs_off, told
):
    """Two numbers, a position, a number, and a position."""
    places = tuple(range(5))
    network = MLP((places, places, (0, 0, 4, 0, 3)), "scalar", 5, 1, key=cases.KEY)
    prior = {"layers.0.tables.*": sx.DropConnect(sx.HalfCauchy(1.0))}
    prior |= dict.fromkeys(("layers.0.dense", "layers.1"), sx.ARD(sx.HalfCauchy(1.0)))
    model = sx.Model(network, prior, sx.likelihoods.Gaussian(0.3))
    rows_off = {"layers.0.dense": numbers_off, "layers.0.tables.0": [table_off] * 4}
    rows = np.random.default_rng(2).normal(size=(20, 5)).astype(np.float32)
    rows[:, 2], rows[:, 4] = np.arange(20) % 4, np.arange(20) % 3
    full = masked(model, np.random.default_rng(0), rows_off)
    taking = compact([full], rows, drop_inputs=False)
    assert (taking.inputs, taking.inputs_off) == (places, inputs_off)
    assert not any("though nothing reads" in note for note in taking.notes)
    dropping = compact([full], rows, drop_inputs=True)
    assert (dropping.inputs, dropping.inputs_off) == (inputs, inputs_off)
    said = [note.split(" though")[0] for note in dropping.notes if " though" in note]
    assert said == ([told] if told else [])
    (small,), changed = dropping.members, rows.copy()
    changed[:, list(inputs_off)] = 0
    np.testing.assert_allclose(
        [small.model.network(row) for row in changed[:, list(inputs)]],
        [full.model.network(row) for row in rows],
        rtol=1e-5,
    )
