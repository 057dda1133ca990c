"""Levels that are looked up are what inputs of zeros and ones for each of them are."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.analysis.effects import effect
from scalemix.data.checks import check_inputs, inputs_as_seen
from scalemix.data.preparation import prepare
from scalemix.inference.training.scales import best_variances, kl_divergence
from scalemix.networks import MLP, ColumnReader, LevelTable, ResNet, find_sites
from scalemix.networks.gaussians import find_uses
from scalemix.networks.lookups import find_lookups
from scalemix.networks.readers import rows_read

KEY = jax.random.key(0)
BOTH = sx.ARD(sx.HalfCauchy(1.0), by=("column", "part"))
REST = sx.ARD(sx.InverseGamma(3.0, 3.0))
# Numbers, with a bin of the first one, and two columns of words between them.
COLUMNS, PARTS, LEVELS = (0, 0, 1, 2, 3), (0, 1, 2, 3, 4), (0, 0, 4, 0, 3)
# The same as inputs of zeros and ones.
WIDE = (0, 0, 1, 1, 1, 1, 2, 3, 3, 3), (0, 1, 2, 2, 2, 2, 3, 4, 4, 4)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5)).astype(np.float32)
X[:, 2], X[:, 4] = RNG.integers(4, size=12), RNG.integers(3, size=12)


def wide(x):
    kinds = (np.eye(num, dtype=x.dtype)[x[:, i].astype(int)] for i, num in ((2, 4), (4, 3)))
    first, second = kinds
    return np.concatenate([x[:, :2], first, x[:, 3:4], second], axis=1)


def both(build=MLP):
    """A network that looks levels up, and one with the same weights that has an input for each."""
    looking = build((COLUMNS, PARTS, LEVELS), 2, 4, 2, key=KEY)
    dense = build(WIDE, 2, 4, 2, key=KEY)
    reader = looking.first_layer
    numbers, (first, second) = reader.dense.weight, (table.weight.T for table in reader.tables)
    weight = jnp.concatenate([numbers[:, :2], first, numbers[:, 2:], second], axis=1)
    bias = jnp.arange(4.0)
    looking = eqx.tree_at(lambda n: n.first_layer.bias, looking, bias)
    same = lambda n: (n.first_layer.weight, n.first_layer.bias)  # noqa: E731
    dense = eqx.tree_at(same, dense, (weight, bias))
    name = "blocks" if build is ResNet else "layers"
    others = (lambda n: (*n.blocks, n.last)) if name == "blocks" else (lambda n: n.layers[1:])
    return looking, eqx.tree_at(others, dense, others(looking))


@pytest.mark.parametrize("build", [MLP, ResNet])
def test_with_the_same_weights_both_are_the_same_function(build):
    looking, dense = both(build)
    np.testing.assert_allclose(jax.vmap(looking)(X), jax.vmap(dense)(wide(X)), rtol=1e-5, atol=1e-6)


def models():
    looking, dense = both()
    prior = {"layers.1": REST, "layers.2": REST}
    likelihood = sx.likelihoods.Categorical(2)
    return (
        sx.Model(looking, prior | {"layers.0.*": BOTH}, likelihood),
        sx.Model(dense, prior | {"layers.0": BOTH}, likelihood),
    )


def test_the_scales_of_a_column_are_the_same():
    """The sums over all weights that share a scale, and so closed forms and divergences."""
    sites = [{prior.name: prior for prior in model.site_priors} for model in models()]
    (looking, dense) = sites
    table, whole = looking["layers.0.tables.0"], dense["layers.0"]
    assert table.scale_shapes == {"column": (1,), "part": (1,)}
    deviation = jnp.log(0.1 + jnp.asarray(RNG.random(whole.site.shape), jnp.float32))
    variances = {"column": jnp.ones(4), "part": jnp.ones(5)}
    expected = best_variances(whole, whole.weight, deviation, variances)
    at = slice(2, 6)
    own = deviation[:, at].T
    ours = best_variances(table, table.weight, own, {"column": jnp.ones(1), "part": jnp.ones(1)})
    for group, place in (("column", 1), ("part", 2)):
        np.testing.assert_allclose(ours[group][0], expected[group][place], rtol=1e-5)
    rest = looking["layers.0.dense"], looking["layers.0.tables.1"]
    columns = jnp.array([0, 1, 6]), jnp.array([7, 8, 9])
    parts = [(table, own, ours)]
    for prior, places in zip(rest, columns, strict=True):
        deviations = deviation[:, places]
        deviations = deviations.T if prior.name.endswith("1") else deviations
        start = {group: jnp.ones(shape) for group, shape in prior.scale_shapes.items()}
        best = best_variances(prior, prior.weight, deviations, start)
        parts.append((prior, deviations, best))
    together = sum(kl_divergence(p, p.weight, d, v) for p, d, v in parts)
    np.testing.assert_allclose(
        together, kl_divergence(whole, whole.weight, deviation, expected), rtol=1e-5
    )


def test_what_reads_which_input_is_told_by_tracing():
    network = both()[0]
    sites, example = find_sites(network), jax.ShapeDtypeStruct((5,), jnp.float32)
    tables = {each.site: (each.num_tokens, each.places[0].tolist())
             for each in find_lookups(network, sites, example)}  # fmt: skip
    assert tables == {"layers.0.tables.0": (4, [2]), "layers.0.tables.1": (3, [4])}
    rows = {
        site.name: places.tolist() for site, places in rows_read(network, sites, example).items()
    }
    assert rows == {"layers.0.dense": [0, 1, 3]}
    # Of each table an entry is drawn, and not the table.
    uses = find_uses(network, sites, jnp.asarray(X))
    assert not uses.often
    assert uses.once["layers.0.tables.0"] == (1, 4)


def test_half_precision_cannot_tell_positions_apart():
    network = both()[0]
    example = jax.ShapeDtypeStruct((5,), jnp.float16)
    assert find_lookups(network, find_sites(network), example) == []
    # They would be standardised like numbers, and then looked up somewhere.
    model = sx.Model(
        sx.networks.compute_in(network, jnp.bfloat16),
        {"layers.1": REST, "layers.2": REST},
        sx.likelihoods.Categorical(2),
    )
    with pytest.raises(ValueError, match="bfloat16 do not tell positions apart"):
        sx.fit(model, X, np.zeros(12, np.int32), sx.VariationalEM(steps=2), key=KEY)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_a_table_alone_refuses_half_precision_as_well(dtype):
    table = LevelTable(5000, 2, key=KEY)
    with pytest.raises(ValueError, match=rf"one of 5000 levels, and real numbers in {dtype.dtype}"):
        table(dtype(3.0))
    network = sx.networks.compute_in(sx.networks.with_call(table, _first), dtype)
    with pytest.raises(ValueError, match="do not tell positions apart"):
        network(jnp.zeros(2))
    # The positions of whole numbers stay whole.
    np.testing.assert_array_equal(network(jnp.array([4999, 0])), table.weight[4999].astype(dtype))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "f4"])
def test_a_table_alone_takes_positions_of_any_exact_type(dtype):
    table = LevelTable(5000, 2, key=KEY)
    most = min(4999, np.iinfo(dtype).max if dtype != "f4" else 4999)
    np.testing.assert_array_equal(table(jnp.asarray(most, dtype)), table.weight[most])


def _first(table, x):
    return table(x[0])


def test_positions_are_neither_shifted_nor_scaled(optimised):
    looking, _ = models()
    y = (X[:, 2] > 1).astype(np.int32)
    post = sx.fit(looking, X, y, sx.VariationalEM(steps=30), key=KEY)
    scaling = post.scaling
    np.testing.assert_array_equal(scaling.x_mean[[2, 4]], 0)
    np.testing.assert_array_equal(scaling.x_scale[[2, 4]], 1)
    # Every level is inside, seen or not.
    np.testing.assert_array_equal(scaling.x_ends[:, [2, 4]], [[0, 0], [3, 2]])
    assert (scaling.x_mean[[0, 1, 3]] != 0).all()
    loader = [(X, y)]
    batched = sx.fit_batches(looking, loader, sx.VariationalEM(steps=2), num_rows=12, key=KEY)
    np.testing.assert_allclose(batched.scaling.x_ends, scaling.x_ends)
    np.testing.assert_allclose(batched.scaling.x_mean, scaling.x_mean)
    for wrong, said in ((4, "4.0"), (-1, "-1.0"), (0.5, "0.5")):
        bad = X.copy()
        bad[1, 2] = wrong
        with pytest.raises(ValueError, match=rf"x is {said} at row 1, column 2, and is looked up"):
            post.predict(bad)
    relevance = post.relevance()
    assert relevance.inputs.shape == (5,)
    assert relevance.units.keys() == {"layers.1", "layers.2"}
    # What is looked up is part of the first layer.
    assert relevance.hidden_layers == ("layers.0.dense", "layers.1")
    moments = post.networks.weight_moments()["layers.0.tables.1"]
    ratio = np.sum(moments.mean**2) / np.sum(moments.variance)
    np.testing.assert_allclose(relevance.signal_to_noise.inputs[4], ratio, rtol=1e-5)


def test_files_hold_networks_that_look_levels_up(tmp_path):
    only_words = ResNet(((0,), (0,), (4,)), 2, 3, 2, key=KEY)
    assert only_words.first.dense is None
    likelihood = sx.likelihoods.Categorical(2)
    for network, x in ((only_words, X[:, 2:3]), (both()[0], X)):
        prior = {"*.tables.*": BOTH, "*.dense": BOTH, "blocks.*": REST, "last": REST,
                 "layers.1": REST, "layers.2": REST}  # fmt: skip
        sites = [site.name for site in find_sites(network)]
        prior = {n: p for n, p in prior.items() if any(n.strip("*.") in site for site in sites)}
        model = sx.Model(network, prior, likelihood)
        assert model.example.shape == x[0].shape
        y = np.zeros(12, np.int32)
        post = sx.fit(model, x, y, sx.VariationalEM(steps=2, num_members=2), key=KEY)
        post.save(tmp_path / "file")
        again = sx.load(tmp_path / "file")
        assert again.model.network.first_layer.levels == network.first_layer.levels
        np.testing.assert_array_equal(again.predict(x).mean, post.predict(x).mean)


def test_numbers_that_are_off_are_not_read():
    network = both()[0]
    network = eqx.tree_at(lambda n: n.first_layer.on, network, jnp.array([True, False, True]))
    np.testing.assert_array_equal(network.first_layer.reads, [1, 0, 1, 1, 1])
    x = jnp.asarray(X[0])
    np.testing.assert_array_equal(network(x), network(x.at[1].set(100.0)))
    assert not np.array_equal(network(x), network(x.at[3].set(100.0)))


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="columns must hold the numbers"):
        ColumnReader((0, 2), (0, 1), (0, 5), 2, key=KEY)
    with pytest.raises(ValueError, match="levels must be whole numbers from 0"):
        ColumnReader((0, 1), (0, 1), (0, -5), 2, key=KEY)
    with pytest.raises(ValueError, match=r"from 0, got 2\.5 for input 1\. Give the number of lev"):
        ColumnReader((0, 1), (0, 1), (3, 2.5), 2, key=KEY)
    with pytest.raises(ValueError, match=r"parts must hold the numbers.*got \(0, 0\.5\)"):
        ColumnReader((0, 1), (0, 0.5), (3, 0), 2, key=KEY)
    for num in (0, -1, 2.5, True, None):
        with pytest.raises(ValueError, match=f"num_levels must be a whole number.*got {num}"):
            LevelTable(num, 3, key=KEY)
        with pytest.raises(ValueError, match=f"out_features must be a whole number.*got {num}"):
            LevelTable(3, num, key=KEY)
        with pytest.raises(ValueError, match=f"out_features must be a whole number.*got {num}"):
            ColumnReader((0,), (0,), (0,), num, key=KEY)
    with pytest.raises(ValueError, match="number of outputs"):
        MLP((COLUMNS, PARTS, LEVELS), "scalar", depth=0, key=KEY)
    with pytest.raises(ValueError, match=r"reads 5 inputs, got \(3,\)"):
        both()[0](jnp.zeros(3))
    assert LevelTable(4, 2, key=KEY).weight.shape == (4, 2)


@pytest.mark.parametrize("levels", [(0, 0, 5), (5, 0, 0), (0, 4, 5)])
def test_a_position_shares_its_scale_with_no_other_input(levels):
    place = levels.index(5)
    columns = (0, 1, 0)
    told = rf"Input {place} is the position of a level, and shares {{}} 0 with input {2 - place}"
    with pytest.raises(ValueError, match=told.format("column")):
        ColumnReader(columns, (0, 1, 2), levels, 2, key=KEY)
    with pytest.raises(ValueError, match=told.format("part")):
        ColumnReader((0, 1, 2), columns, levels, 2, key=KEY)
    # Numbers may.
    ColumnReader((0, 1, 0), (0, 1, 0), (0, 7, 0), 2, key=KEY)


class Twice(eqx.Module):
    """Two inputs that are looked up in one table, beside two numbers."""

    table: LevelTable
    dense: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self):
        self.table = LevelTable(4, 3, key=KEY)
        self.dense = eqx.nn.Linear(2, 3, key=KEY)
        self.last = eqx.nn.Linear(3, "scalar", key=KEY)

    def __call__(self, x):
        return self.last(jnp.tanh(self.table(x[0]) + self.table(x[1]) + self.dense(x[2:])))


def test_inputs_that_share_a_table_are_as_relevant():
    x = np.concatenate([RNG.integers(4, size=(12, 2)), RNG.normal(size=(12, 2))], axis=1)
    model = sx.Model(Twice(), sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(), example=x[0])
    post = sx.fit(model, x, x[:, 2], sx.VariationalEM(steps=2), key=KEY)
    inputs = post.relevance().inputs
    assert inputs[0] == inputs[1] > 0
    # Grids of what is looked up have the values that there are.
    assert set(effect(post, x, 1, num_values=3).grids[0]) <= set(x[:, 1])


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "f2", "f4", "f8"])
def test_positions_of_any_type_are_held_against_their_table(dtype):
    prior = {"first.*": BOTH, "blocks.*": REST, "last": REST}
    model = sx.Model(both(ResNet)[0], prior, sx.likelihoods.Gaussian(per_input=True))
    x = np.array([[1, 0, 3, 2, 2], [0, 1, 4, 1, 0]]).astype(dtype)
    with pytest.raises(ValueError, match=r"x is 4(\.0)? at row 1, column 2, and is looked up"):
        check_inputs(x, model)
    x[1, 2] = 3
    np.testing.assert_array_equal(check_inputs(x, model), x)


@pytest.mark.parametrize("several", [False, True])
def test_a_position_that_single_precision_does_not_hold_is_refused(several):
    """Cast, it would be another one."""
    num = 2**24 + 4

    # A table of this size would fill memory.
    reader = SimpleNamespace(
        dtype=np.dtype(np.float32),
        example={"a": jax.ShapeDtypeStruct((2,), np.float32)},
        refusal=lambda example: None,
        lookups=lambda example: [("table", num, [np.array([1])])],
    )

    def x_with(position):
        x = np.array([[0.5, 7.0], [0.1, position]])
        return {"a": x} if several else x

    for position in (2**24 - 1, 2**24, 2**24 + 2):
        check_inputs(x_with(position), reader)
    for position, told in ((2**24 + 1, 2**24), (2**24 + 3, 2**24 + 4)):
        with pytest.raises(
            ValueError, match=rf"is {position}\.0 at row 1, column 1.* number {told}"
        ):
            check_inputs(x_with(position), reader)


def test_positions_are_not_far_from_one_another():
    num = 1_200_000
    network = MLP(((0, 1), (0, 1), (0, num)), 1, 1, 1, key=KEY)
    prior = {"layers.0.*": sx.ARD(sx.HalfCauchy(1.0), by="column"), "layers.1": REST}
    model = sx.Model(network, prior, sx.likelihoods.Gaussian())
    x = np.stack([RNG.normal(size=20), RNG.integers(num, size=20)], axis=1)
    x[3, 1] = num - 1
    data, scaling = prepare(model, x, x[:, 0], None, True)
    np.testing.assert_array_equal(data.x[:, 1], x[:, 1])
    far = x.copy()
    far[5, 0] = 1e9
    with pytest.raises(ValueError, match="at row 5, column 0, where the training data"):
        inputs_as_seen(far, model, scaling)


def test_a_position_between_two_is_said_to_be_none():
    prior = {"first.*": BOTH, "blocks.*": REST, "last": REST}
    model = sx.Model(both(ResNet)[0], prior, sx.likelihoods.Gaussian(per_input=True))
    with pytest.raises(ValueError, match=r"x is 1\.5 at row 0.*Only whole numbers are tokens"):
        check_inputs(np.array([[0.0, 0.0, 1.5, 0.0, 0.0]]), model)
