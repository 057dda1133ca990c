"""Networks of many kinds come out smaller, as their own classes, and compute the same."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks import MLP
from scalemix.networks.cutting import Member, Shrinker
from scalemix.networks.cutting.member import arrays_of
from tests.networks.cutting.networks import CASES, KEY
from tests.networks.cutting.shrinking import assert_same, call, shrink


@pytest.mark.parametrize("name", CASES)
def test_a_kind_of_network(name):
    case = CASES[name]
    network, rows = case.network(), case.rows()
    made = shrink(network, rows)
    (member,) = made.members
    assert type(member.network) is type(network)
    assert not made.notes
    for where, shape in case.left:
        assert where(member.network).shape == shape
    assert_same(network, member.network, rows)
    # Each number comes from the place that it says.
    before = [np.asarray(array) for array in arrays_of(network)]
    known = zip(member.origins, member.nonzero, strict=True)
    for array, (origin, nonzero) in zip(arrays_of(member.network), known, strict=True):
        if array.ndim > 1 and array.dtype == jnp.float32:
            taken = before[origin.leaf].reshape(-1)[origin.places] * np.float32(origin.factor)
            np.testing.assert_allclose(array, np.where(nonzero, taken, 0), rtol=2e-7)
    # A second time there is nothing left to do.
    again = shrink(member.network, rows).members[0].network
    assert [a.shape for a in arrays_of(again)] == [a.shape for a in arrays_of(member.network)]


def test_fields_say_what_is_left():
    small = shrink(CASES["grouped"].network(), CASES["grouped"].rows()).members[0].network
    assert (small.deep.groups, small.deep.in_channels, small.deep.out_channels) == (4, 4, 4)
    assert (small.grouped.groups, small.grouped.in_channels, small.grouped.out_channels) == (
        2,
        4,
        4,
    )
    assert (small.back.in_channels, small.back.out_channels) == (4, 3)
    small = shrink(CASES["transformer"].network(), CASES["transformer"].rows()).members[0].network
    assert (small.block.mixer.num_heads, small.block.mixer.qk_size) == (2, 2)
    case = CASES["widths of queries in a stack"]
    mixer = shrink(case.network(), case.rows()).members[0].network.layers
    assert (mixer.num_heads, mixer.qk_size, mixer.vo_size) == (2, 2, 3)
    assert mixer.query_size == mixer.output_size == 6
    small = shrink(CASES["GRU"].network(), CASES["GRU"].rows()).members[0].network
    assert small.hidden == small.cell.hidden_size == 3


class Written(eqx.Module):
    """A size that is written into the code, and dense layers after it."""

    conv: eqx.nn.Conv1d
    wide: eqx.nn.Linear
    last: eqx.nn.Linear

    def __call__(self, x):
        return self.last(jax.nn.relu(self.wide(self.conv(x).reshape(4 * 3))))


def written():
    keys = jax.random.split(KEY, 3)
    network = Written(
        eqx.nn.Conv1d(1, 4, 3, key=keys[0]),
        eqx.nn.Linear(12, 6, key=keys[1]),
        eqx.nn.Linear(6, 2, key=keys[2]),
    )
    network = eqx.tree_at(lambda n: n.wide.weight, network, network.wide.weight.at[:, :3].set(0.0))
    return eqx.tree_at(lambda n: n.last.weight, network, network.last.weight.at[:, 1].set(0.0))


def test_a_size_in_the_code_stays_and_the_rest_goes():
    network, rows = written(), jnp.ones((2, 1, 5))
    made = shrink(network, rows)
    small = made.members[0].network
    assert small.conv.weight.shape == (4, 1, 3)
    assert small.wide.weight.shape == (5, 12)
    assert_same(network, small, rows)
    line = Written.__call__.__code__.co_firstlineno + 1
    (note, *_) = made.notes
    assert f"test_networks.py:{line}" in note
    assert "reshape" in note


def test_a_network_with_sizes_in_its_code_as_a_function():
    network, rows = written(), jnp.asarray(np.random.default_rng(0).normal(size=(2, 1, 5)))
    rows = rows.astype(jnp.float32)
    made = shrink(network, rows, as_function=True)
    small = made.members[0].network
    assert not made.notes
    assert small.network.conv.weight.shape == (3, 1, 3)
    assert small.network.wide.weight.shape == (5, 9)

    @eqx.filter_jit
    def outputs_and_slope(network):
        return jax.vmap(network)(rows), jax.grad(lambda x: network(x).sum())(rows[0])

    outputs, slope = outputs_and_slope(small)
    expected, same_slope = outputs_and_slope(network)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, same_slope, rtol=1e-4)


class Mean(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __call__(self, x):
        h = jnp.tanh(self.first(x))
        return self.last(h) + h.mean()


def test_what_else_reads_a_unit_is_named():
    network = Mean(eqx.nn.Linear(3, 4, key=KEY), eqx.nn.Linear(4, 2, key=KEY))
    network = eqx.tree_at(lambda n: n.last.weight, network, network.last.weight.at[:, 0].set(0.0))
    made = shrink(network, jnp.ones((2, 3)))
    assert made.members[0].network.first.weight.shape == (4, 3)
    line = Mean.__call__.__code__.co_firstlineno + 2
    assert made.notes == (
        f"Zeros stay in last.weight, because of reduce_sum at test_networks.py:{line}.",
    )


class Blocks(eqx.Module):
    enter: eqx.nn.Linear
    blocks: list
    last: eqx.nn.Linear
    norm: bool = False

    def __call__(self, x):
        h = self.enter(x)
        for wide, narrow in self.blocks:
            h = h + narrow(jnp.tanh(wide(jnp.tanh(h) if self.norm else h)))
        return self.last(h)


def blocks(**options):
    keys = jax.random.split(KEY, 8)
    pairs = [
        (eqx.nn.Linear(4, 5, key=k), eqx.nn.Linear(5, 4, use_bias=False, key=k)) for k in keys[:3]
    ]
    last = eqx.nn.Linear(4, 2, use_bias=False, key=keys[6])
    network = Blocks(eqx.nn.Linear(3, 4, key=keys[7]), pairs, last, **options)
    return eqx.tree_at(
        lambda n: n.blocks[1][0].weight, network, jnp.zeros_like(network.blocks[1][0].weight)
    )


def test_a_block_that_is_off_goes_and_its_constant_stays():
    """Its constant goes into the bias of a layer after it, and of one that had none."""
    network, rows = blocks(), jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)), jnp.float32)
    made = shrink(network, rows)
    small = made.members[0].network
    assert made.dropped == {"blocks.1": 1}
    assert len(small.blocks) == 2
    assert small.last.bias is not None
    assert all(narrow.bias is None for _, narrow in small.blocks)
    assert_same(network, small, rows)


def test_a_block_stays_whose_constant_cannot_move():
    network, rows = blocks(norm=True), jnp.ones((2, 3))
    made = shrink(network, rows)
    assert not made.dropped
    assert len(made.members[0].network.blocks) == 3
    line = Blocks.__call__.__code__.co_firstlineno + 3
    assert f"cannot go past tanh at test_networks.py:{line}" in made.notes[0]
    assert_same(network, made.members[0].network, rows)


def test_several_blocks_go_for_several_reasons():
    """In one nothing is read, in the other nothing is written."""
    network = blocks()
    network = eqx.tree_at(
        lambda n: n.blocks[2][1].weight, network, jnp.zeros_like(network.blocks[2][1].weight)
    )
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)), jnp.float32)
    made = shrink(network, rows)
    assert made.dropped == {"blocks.1": 1, "blocks.2": 1}
    assert_same(network, made.members[0].network, rows)


def test_members_keep_as_many_places_each_its_own():
    network = CASES["images"].network()
    other = eqx.tree_at(
        lambda n: n.last.weight, network, jnp.roll(network.last.weight, 1, axis=1).at[:, 0].set(0.0)
    )
    members = [
        Member.start(n, [np.asarray(a) != 0 for a in arrays_of(n)]) for n in (network, other)
    ]
    rows = CASES["images"].rows()
    made = Shrinker(members, rows, call).shrink()
    first, second = (member.network for member in made.members)
    assert first.last.weight.shape == second.last.weight.shape == (2, 4)
    assert_same(network, first, rows)
    assert_same(other, second, rows)


def test_inputs_can_go():
    network = eqx.nn.MLP(4, 2, 5, 1, key=KEY)
    network = eqx.tree_at(
        lambda n: n.layers[0].weight, network, network.layers[0].weight.at[:, 1].set(0.0)
    )
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(2, 4)), jnp.float32)
    made = shrink(network, rows, drop_inputs=True)
    np.testing.assert_array_equal(made.read, [True, False, True, True])
    small = made.members[0].network
    assert small.in_size == 3
    np.testing.assert_allclose(small(rows[0][jnp.array([0, 2, 3])]), network(rows[0]), rtol=1e-5)
    assert dataclasses.asdict(small)["out_size"] == 2


def numbers(network):
    """The layer that reads the numbers of a table."""
    return getattr(network.first_layer, "dense", network.first_layer)


def test_inputs_of_layers_that_know_their_columns_can_go():
    columns, parts = (0, 1, 1, 2, 3), (0, 1, 2, 3, 4)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 5)).astype(np.float32)
    rows[:, 4] = 2, 0, 1
    for levels, stay in (((0,) * 5, [1, 3]), ((0, 0, 0, 0, 3), [1, 3, 4])):
        network = MLP((columns, parts, levels), 2, 4, 1, key=KEY)
        off = jnp.array([0, 2, 4] if not levels[4] else [0, 2])
        weight = numbers(network).weight.at[:, off].set(0.0)
        network = eqx.tree_at(lambda n: numbers(n).weight, network, weight)
        made = shrink(network, jnp.asarray(rows), drop_inputs=True)
        assert not made.notes
        assert np.flatnonzero(made.read).tolist() == stay
        small = made.members[0].network
        layer = numbers(small)
        # What stays is numbered anew, and knows its columns and their parts.
        assert (layer.columns, layer.parts) == ((0, 1), (0, 1))
        if levels[4]:
            assert small.first_layer.levels == (0, 0, 3)
        for row in rows:
            np.testing.assert_allclose(small(row[stay]), network(row), rtol=1e-5)


class Branch(eqx.Module):
    """A norm that only a layer that is off reads, and a stream around it."""

    enter: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self):
        self.enter, self.norm = eqx.nn.Linear(3, 6, key=KEY), eqx.nn.LayerNorm(6)
        self.hidden = eqx.nn.Linear(6, 6, key=KEY)
        self.last = eqx.nn.Linear(6, 2, key=KEY)

    def __call__(self, x):
        h = self.enter(x)
        return self.last(h + jnp.tanh(self.hidden(self.norm(h))))


def test_what_nothing_reads_keeps_no_units():
    network = Branch()
    network = eqx.tree_at(
        lambda n: (n.hidden.weight, n.last.weight),
        network,
        (jnp.zeros((6, 6)), network.last.weight.at[:, 2].set(0.0)),
    )
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)), jnp.float32)
    small = shrink(network, rows).members[0].network
    assert small.enter.weight.shape == (5, 3)
    assert small.norm.shape == (5,)
    assert_same(network, small, rows)


class Padded(eqx.Module):
    """Convolutions that make of a constant another one at the ends."""

    convs: tuple
    last: eqx.nn.Linear

    def __init__(self):
        sizes = ((1, 2), (2, 2))
        self.convs = tuple(eqx.nn.Conv1d(*size, 3, padding=1, key=KEY) for size in sizes)
        self.last = eqx.nn.Linear(8, 2, key=KEY)

    def __call__(self, x):
        return self.last(self.convs[1](self.convs[0](x)).reshape(-1))


def test_a_constant_is_counted_once():
    """No bias of a convolution takes it up, and the layer after has constant units, too."""
    network = Padded()
    network = eqx.tree_at(lambda n: n.convs[0].weight, network, jnp.zeros((2, 1, 3)))
    rows = jnp.ones((2, 1, 4))
    small = shrink(network, rows).members[0].network
    # One channel is kept of those that nothing reads.
    assert small.last.weight.shape == (2, 4)
    assert_same(network, small, rows)
