"""Norms that lose places, and those that cannot."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks import NarrowLayerNorm, NarrowRMSNorm
from scalemix.networks.cutting import Member, Shrinker
from scalemix.networks.cutting.member import arrays_of
from tests.networks.cutting.networks import CASES, KEY, Normal
from tests.networks.cutting.shrinking import assert_same, call, shrink


def test_norms_keep_their_class_where_they_can():
    """An RMSNorm does if what it has lost was zero, and any norm that has lost nothing."""

    def norms(name, change=lambda network: network):
        case = CASES[name]
        network, rows = change(case.network()), case.rows()
        small = shrink(network, rows).members[0].network
        assert_same(network, small, rows)
        return small.norms

    def is_read(network):
        """Constants that something reads after the norm."""
        ones = jnp.ones((6, 2))
        return eqx.tree_at(
            lambda n: n.hidden[0].weight,
            network,
            network.hidden[0].weight.at[:, jnp.array([1, 4])].set(ones),
        )

    names = [f"width of {name}" for name in ("a LayerNorm", "an RMSNorm")]
    assert {type(norm) for norm in norms(names[0])} == {NarrowLayerNorm}
    assert [norm.size for norm in norms(names[0])] == [6, 6]
    assert {type(norm) for norm in norms(names[0], is_read)} == {eqx.nn.LayerNorm}
    first, second = norms(names[1])
    assert type(first) is eqx.nn.RMSNorm
    assert first.eps == pytest.approx(1e-5 * 6 / 4)
    # By now a bias was added that is not zero.
    assert type(second) is NarrowRMSNorm


def test_a_norm_whose_weight_is_frozen_stays_narrow():
    """One of Equinox's own would need a multiple of it."""
    norms = [NarrowRMSNorm(eqx.nn.RMSNorm(6), size=8) for _ in range(2)]
    network = eqx.tree_at(lambda n: n.norms, Normal(eqx.nn.RMSNorm), tuple(norms))
    rows = CASES["width of an RMSNorm"].rows()
    member = Member.start(network, [np.asarray(a) != 0 for a in arrays_of(network)])
    (frozen,) = [n for n, a in enumerate(arrays_of(network)) if a is norms[0].weight]
    small = Shrinker([member], rows, call, fixed=[frozen]).shrink().members[0].network
    assert [type(norm) for norm in small.norms] == [NarrowRMSNorm, eqx.nn.RMSNorm]
    np.testing.assert_array_equal(small.norms[0].weight, norms[0].weight)
    assert_same(network, small, rows)


def test_members_keep_as_many_places_of_a_norm():
    case = CASES["width of a LayerNorm"]
    networks = [case.network(), case._replace(zeros=tuple(
        (where, axis, (0,)) for where, axis, _ in case.zeros
    )).network()]  # fmt: skip
    members = [Member.start(n, [np.asarray(a) != 0 for a in arrays_of(n)]) for n in networks]
    made = Shrinker(members, case.rows(), call).shrink()
    for network, member in zip(networks, made.members, strict=True):
        assert member.network.enter.weight.shape == (5, 3)
        assert_same(network, member.network, case.rows())
    # Of the first member one constant is left that the others' shape asks for.
    assert np.sum(~np.asarray(made.members[0].network.norms[0].present)) == 1


class OwnNorm(eqx.nn.LayerNorm):
    """A class that may do anything."""


class Placed(Normal):
    """What is constant at a place of the stream is another constant at each position."""

    places: jax.Array

    def __init__(self):
        super().__init__(eqx.nn.LayerNorm)
        self.places = jnp.ones((4, 6))

    def __call__(self, x):
        h = jax.vmap(self.enter)(x) + self.places
        for norm, layer in zip(self.norms, self.hidden, strict=True):
            h = h + jnp.tanh(jax.vmap(layer)(jax.vmap(norm)(h)))
        return self.last(h.mean(0))


class Chosen(Normal):
    """Norms that a branch calls too, with an input of which nothing is constant."""

    other: eqx.nn.Linear

    def __init__(self, kind):
        super().__init__(kind)
        self.other = eqx.nn.Linear(3, 6, key=KEY)

    def __call__(self, x):
        h = jax.vmap(self.enter)(x)
        for norm, layer in zip(self.norms, self.hidden, strict=True):
            h = h + jnp.tanh(jax.vmap(layer)(jax.vmap(norm)(h)))

        def branch(g):
            return sum(jax.vmap(norm)(g) for norm in self.norms)

        g = jax.lax.cond(x[0, 0] < 0, branch, jnp.zeros_like, jax.vmap(self.other)(x))
        return self.last((h + g).mean(0))


@pytest.mark.parametrize("kind", [eqx.nn.LayerNorm, eqx.nn.RMSNorm])
def test_norms_that_a_branch_calls_keep_their_width(kind):
    """Also if no example takes that branch, so that no output tells."""
    case = CASES["width of a LayerNorm"]
    unread = ((lambda n: n.last.weight, 1, (1, 4)),)
    case = case._replace(build=lambda: Chosen(kind), zeros=case.zeros + unread)
    network, rows = case.network(), case.rows()
    assert rows.min() > 0
    small = shrink(network, rows).members[0].network
    assert [type(norm) for norm in small.norms] == [kind, kind]
    assert small.enter.weight.shape == (6, 3)
    assert_same(network, small, rows.at[:, 0, 0].set(-1))


@pytest.mark.parametrize("build", [lambda: Normal(OwnNorm), Placed])
def test_norms_that_cannot_be_narrow_keep_their_width(build):
    case = CASES["width of a LayerNorm"]._replace(build=build)
    network, rows = case.network(), case.rows()
    made = shrink(network, rows)
    small = made.members[0].network
    assert small.enter.weight.shape == (6, 3)
    assert {type(norm) for norm in small.norms} == {type(norm) for norm in network.norms}
    assert any("reduce_sum" in note for note in made.notes)
    assert_same(network, small, rows)
