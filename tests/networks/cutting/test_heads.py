"""Widths of heads, what they are divided by, and the order of their places."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.networks.cutting import Member, Shrinker
from scalemix.networks.cutting.member import arrays_of
from tests.networks.cutting.networks import CASES, KEY, Divided
from tests.networks.cutting.shrinking import assert_same, call, shrink


def off(network, *layers):
    """The network with the first places of each of two heads zero in these layers."""
    places = np.array([0, 3])
    for name in layers:
        network = eqx.tree_at(
            lambda n, name=name: (getattr(n, name).weight, getattr(n, name).bias),
            network,
            replace_fn=lambda array: array.at[places].set(0.0),
        )
    return network


def test_a_divisor_that_nothing_makes_up_for_stays():
    """No multiple of a weight is a multiple of what an activation makes of it."""
    network = off(Divided(early=True), "key")
    bent = eqx.nn.Sequential([network.query, eqx.nn.Lambda(jnp.tanh)])
    network = eqx.tree_at(lambda n: n.query, network, bent)
    network = eqx.tree_at(
        lambda n: n.last.weight, network, network.last.weight.at[:, jnp.array([2, 5])].set(0.0)
    )
    rows = CASES["widths of keys, divided by hand"].rows()
    made = shrink(network, rows)
    small = made.members[0].network
    assert small.query[0].weight.shape == small.key.weight.shape == (6, 3)
    # What has nothing to do with it goes.
    assert small.value.weight.shape == (4, 3)
    assert "in place of 1.73205, and no weight before it can make up for that" in made.notes[0]
    assert_same(network, small, rows)


def test_frozen_weights_make_up_for_no_divisor():
    network = off(Divided(early=True), "key")
    rows = CASES["widths of keys, divided by hand"].rows()
    member = Member.start(network, [np.asarray(a) != 0 for a in arrays_of(network)])
    # The bias of the queries.
    made = Shrinker([member], rows, call, fixed=[1]).shrink()
    assert made.members[0].network.query.weight.shape == (6, 3)
    assert_same(network, made.members[0].network, rows)


def test_members_have_one_factor():
    networks = [off(Divided(early=True), "key"), off(Divided(early=True), "query", "key")]
    members = [Member.start(n, [np.asarray(a) != 0 for a in arrays_of(n)]) for n in networks]
    rows = CASES["widths of keys, divided by hand"].rows()
    made = Shrinker(members, rows, call).shrink()
    for network, member in zip(networks, made.members, strict=True):
        assert member.network.query.weight.shape == (4, 3)
        assert [o.factor == 1 for o in member.origins] == [False] * 2 + [True] * 6
        assert_same(network, member.network, rows)


class SharedQueries(eqx.Module):
    """Two layers of attention with one projection of queries, which is kept the other way round."""

    layers: eqx.nn.Shared

    def __init__(self):
        keys = jax.random.split(KEY, 2)
        layers = tuple(eqx.nn.MultiheadAttention(2, 4, key=key) for key in keys)
        turned = layers[0].query_proj.weight.T
        self.layers = eqx.nn.Shared(
            (turned, *layers),
            lambda tree: (tree[1].query_proj.weight, tree[2].query_proj.weight),
            lambda tree: (tree[0].T, tree[0].T),
        )

    def __call__(self, x):
        _, first, second = self.layers()
        h = x + first(x, x, x)
        return h + second(h, h, h)


def test_heads_of_a_shared_projection_go():
    network = SharedQueries()
    # Nothing reads the first head of either layer.
    network = eqx.tree_at(
        lambda n: [layer.output_proj.weight for layer in n.layers.pytree[1:]],
        network,
        replace_fn=lambda weight: weight.at[:, :2].set(0.0),
    )
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)), jnp.float32)
    small = shrink(network, rows).members[0].network
    assert [layer.num_heads for layer in small.layers()[1:]] == [1, 1]
    assert small.layers.pytree[0].shape == (4, 2)
    assert_same(network, small, rows)


class Turned(eqx.Module):
    """Attention whose places within heads are turned by their position, in pairs."""

    mixer: eqx.nn.MultiheadAttention
    turn: eqx.nn.RotaryPositionalEmbedding

    def __init__(self):
        self.mixer = eqx.nn.MultiheadAttention(2, 8, key=KEY)
        self.turn = eqx.nn.RotaryPositionalEmbedding(4)

    def __call__(self, x):
        def process(q, k, v):
            q, k = (jax.vmap(self.turn, in_axes=1, out_axes=1)(h) for h in (q, k))
            return q, k, v

        return self.mixer(x, x, x, process_heads=process).mean(0)


def test_places_of_heads_stay_where_their_number_means_something():
    network = Turned()
    network = eqx.tree_at(
        lambda n: (n.mixer.query_proj.weight, n.mixer.value_proj.weight),
        network,
        (
            network.mixer.query_proj.weight.at[jnp.array([0, 2, 5, 7])].set(0.0),
            network.mixer.value_proj.weight.at[jnp.array([0, 5])].set(0.0),
        ),
    )
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 8)), jnp.float32)
    (member,) = shrink(network, rows).members
    assert member.network.mixer.query_proj.weight.shape == (8, 8)
    # Those of values have no such number.
    assert member.network.mixer.value_proj.weight.shape == (6, 8)
    np.testing.assert_array_equal(member.origins[0].places, np.arange(64).reshape(8, 8))
    assert_same(network, member.network, rows)


class TurnedInBranch(Turned):
    """Attention whose places are turned for some examples alone."""

    def __call__(self, x):
        plain = lambda x: self.mixer(x, x, x).mean(0)  # noqa: E731
        return jax.lax.cond(x[0, 0] < 9, plain, super().__call__, x)


def test_places_of_heads_stay_where_a_branch_reads_them():
    network = TurnedInBranch()
    weight = network.mixer.query_proj.weight.at[jnp.array([0, 2, 5, 7])].set(0.0)
    network = eqx.tree_at(lambda n: n.mixer.query_proj.weight, network, weight)
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 8)), jnp.float32)
    assert rows[:, 0, 0].max() < 9
    (member,) = shrink(network, rows).members
    assert_same(network, member.network, rows.at[:, 0, 0].set(10))
