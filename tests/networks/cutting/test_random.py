"""Networks drawn at random from a grammar, zeros anywhere: what is left computes the same."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks.cutting import Member, Shrinker
from scalemix.networks.cutting.member import arrays_of
from scalemix.networks.sites import find_sites

KEY = jax.random.key(0)
PLACES = 4
ACTIVATIONS = (jnp.tanh, jax.nn.relu, jax.nn.softplus)


class Chain(eqx.Module):
    parts: tuple

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Around(eqx.Module):
    """A path around."""

    inner: Chain

    def __call__(self, x):
        return x + self.inner(x)


class Beside(eqx.Module):
    """Channels of two paths, one after the other."""

    one: Chain
    other: Chain

    def __call__(self, x):
        return jnp.concatenate([self.one(x), self.other(x)])


class Act(eqx.Module):
    function: int = eqx.field(static=True)

    def __call__(self, x):
        return ACTIVATIONS[self.function](x)


class Mix(eqx.Module):
    """A dense layer or a norm at each place, or attention between places; channels come first."""

    layer: eqx.Module

    def __call__(self, x):
        rows = x.T
        if isinstance(self.layer, eqx.nn.MultiheadAttention):
            return self.layer(rows, rows, rows).T
        return jax.vmap(self.layer)(rows).T


class Steps(eqx.Module):
    cell: eqx.nn.GRUCell

    def __call__(self, x):
        first = jnp.zeros(self.cell.hidden_size)

        def step(state, x):
            state = self.cell(x, state)
            return state, state

        return jax.lax.scan(step, first, x.T)[1].T


class Network(eqx.Module):
    body: Chain
    last: eqx.nn.Linear

    def __call__(self, x):
        return self.last(self.body(x).reshape(-1))


def draw(rng, channels, depth):
    """A chain of parts, and how many channels it puts out."""
    parts = []
    for _ in range(rng.integers(1, 4)):
        part, channels = draw_part(rng, channels, depth)
        parts.append(part)
    return Chain(tuple(parts)), channels


def draw_part(rng, channels, depth):
    kinds = ["act", "conv", "dense", "norm", "width", "attention", "cell", "depthwise"]
    kind = rng.choice([*kinds, "around", "beside"] if depth else kinds)
    out = int(rng.integers(2, 5))
    if kind == "act":
        return Act(int(rng.integers(len(ACTIVATIONS)))), channels
    if kind == "conv":
        bias = bool(rng.random() < 0.7)
        return eqx.nn.Conv1d(channels, out, 3, padding=1, use_bias=bias, key=KEY), out
    if kind == "dense":
        return Mix(eqx.nn.Linear(channels, out, use_bias=rng.random() < 0.7, key=KEY)), out
    if kind == "norm":
        groups = [g for g in (1, 2, channels) if channels % g == 0]
        return eqx.nn.GroupNorm(int(rng.choice(groups)), channels), channels
    if kind == "width":
        norm = eqx.nn.LayerNorm if rng.random() < 0.5 else eqx.nn.RMSNorm
        return Mix(norm(channels)), channels
    if kind == "attention":
        qk_size, vo_size = (int(size) for size in rng.integers(1, 4, 2))
        sizes = {"qk_size": qk_size, "vo_size": vo_size, "output_size": out, "use_value_bias": True}
        return Mix(eqx.nn.MultiheadAttention(2, channels, **sizes, key=KEY)), out
    if kind == "cell":
        return Steps(eqx.nn.GRUCell(channels, out, key=KEY)), out
    if kind == "depthwise":
        conv = eqx.nn.Conv1d(channels, 2 * channels, 3, padding=1, groups=channels, key=KEY)
        return conv, 2 * channels
    one, mine = draw(rng, channels, depth - 1)
    if kind == "beside":
        other, theirs = draw(rng, channels, depth - 1)
        return Beside(one, other), mine + theirs
    back = eqx.nn.Conv1d(mine, channels, 1, key=KEY)
    return Around(Chain((*one.parts, back))), channels


def random_network(seed):
    rng = np.random.default_rng(seed)
    channels = 0

    def build():
        nonlocal channels
        body, channels = draw(rng, 2, depth=2)
        return Network(body, eqx.nn.Linear(channels * PLACES, 2, key=KEY))

    def fill(leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        return jnp.asarray(rng.normal(size=leaf.shape) / np.sqrt(leaf.shape[-1]), leaf.dtype)

    # Only its shape: drawing its first values would take longer than the rest.
    network = jax.tree.map(fill, eqx.filter_eval_shape(build))
    # Rows that are off, some layers altogether, and units that nothing leads to.
    for site in find_sites(network):
        weight = np.array(site.weight(network))
        for axis in (site.axis("row"), site.axis("output")):
            off = rng.random(weight.shape[axis]) < rng.choice(
                [0.0, 0.3, 0.6, 1.0], p=[0.4, 0.3, 0.2, 0.1]
            )
            np.moveaxis(weight, axis, 0)[off] = 0
        network = eqx.tree_at(site.weight, network, jnp.asarray(weight))
    last = np.array(network.last.weight).reshape(2, channels, PLACES)
    last[:, rng.random(channels) < 0.4] = 0
    return eqx.tree_at(lambda n: n.last.weight, network, jnp.asarray(last.reshape(2, -1)))


@eqx.filter_jit
def run(network, rows):
    """As one program, where each operation would be one of its own."""
    return jax.vmap(network)(rows)


def check(seed):
    network = random_network(seed)
    rows = jnp.asarray(np.random.default_rng(seed).normal(size=(2, 2, PLACES)), jnp.float32)
    member = Member.start(network, [np.asarray(a) != 0 for a in arrays_of(network)])
    made = Shrinker([member], rows, lambda network, x: network(x)).shrink()
    small = made.members[0].network
    outputs, expected = (run(one, rows) for one in (small, network))
    np.testing.assert_allclose(outputs, expected, rtol=2e-4, atol=2e-5)
    sizes = [sum(a.size for a in arrays_of(n)) for n in (network, small)]
    assert sizes[1] <= sizes[0] + sum(a.ndim == 1 for a in arrays_of(small)) * 10
    return sizes


def test_some_networks():
    sizes = np.array([check(seed) for seed in range(4)])
    assert sizes[:, 1].sum() < 0.8 * sizes[:, 0].sum()


@pytest.mark.slow
@pytest.mark.parametrize("start", range(4, 104, 10))
def test_many_networks(start):
    for seed in range(start, start + 10):
        check(seed)
