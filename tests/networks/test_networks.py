import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks import MLP, ResNet, find_sites
from scalemix.networks.freezing import learnable_leaves
from scalemix.networks.paths import bypassed_sites

KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 4)


def names(network):
    return [site.name for site in find_sites(network)]


def test_mlp_computes_what_it_says():
    network = MLP(3, 2, 5, 2, activation=jnp.tanh, key=KEY)
    assert names(network) == ["layers.0", "layers.1", "layers.2"]
    x = jnp.arange(3.0)
    h = x
    for layer in network.layers[:-1]:
        h = jnp.tanh(layer.weight @ h + layer.bias)
    expected = network.layers[-1].weight @ h + network.layers[-1].bias
    np.testing.assert_allclose(network(x), expected, rtol=1e-6)


def test_resnet_computes_what_it_says():
    network = ResNet(3, "scalar", 5, 3, key=KEY)
    assert names(network) == ["first", "blocks.0", "blocks.1", "last"]
    x = jnp.arange(3.0)
    h = jax.nn.relu(network.first.weight @ x + network.first.bias)
    for block in network.blocks:
        h = jax.nn.relu(block.weight @ h) + h
    expected = (network.last.weight @ h + network.last.bias)[0]
    assert network(x).shape == ()
    np.testing.assert_allclose(network(x), expected, rtol=1e-6)


def test_a_deep_resnet_starts_like_a_shallow_one():
    x = jax.random.normal(KEY, (100, 4))

    def spread(depth):
        outputs = [jax.vmap(ResNet(4, "scalar", 16, depth, key=k))(x) for k in KEYS]
        return float(jnp.mean(jnp.array([jnp.std(output) for output in outputs])))

    # With all layers of one size it grows by a factor of hundreds.
    assert spread(41) < 2 * spread(2)
    deep = ResNet(4, "scalar", 16, 4, key=KEY)
    sizes = [float(jnp.abs(block.weight).max()) for block in deep.blocks]
    np.testing.assert_allclose(sizes, 0.25 / np.arange(1, 4), rtol=0.05)
    assert all(not block.bias.any() for block in deep.blocks)


@pytest.mark.parametrize(("kind", "depth"), [(MLP, 0), (MLP, 4), (ResNet, 1), (ResNet, 4)])
@pytest.mark.parametrize(("in_size", "out_size"), [("scalar", "scalar"), (2, 3)])
def test_any_depth_and_size(kind, depth, in_size, out_size):
    network = kind(in_size, out_size, 4, depth, key=KEY)
    x = jnp.zeros(() if in_size == "scalar" else (in_size,))
    assert network(x).shape == (() if out_size == "scalar" else (out_size,))
    assert len(names(network)) == depth + 1


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: MLP(2, 1, 0, 1, key=KEY), "MLP: width must be at least 1, got 0"),
        (lambda: MLP(2, 1, 5, -1, key=KEY), "MLP: depth must be at least 0"),
        (lambda: ResNet(2, 1, 5, 0, key=KEY), "ResNet: depth must be at least 1"),
    ],
)
def test_impossible_networks_are_refused(build, reason):
    with pytest.raises(ValueError, match=reason):
        build()


class Block(eqx.Module):
    """A residual branch of two layers that starts as zero, as is good practice."""

    inner: eqx.nn.Linear
    outer: eqx.nn.Linear

    def __init__(self, size, key):
        self.inner = eqx.nn.Linear(size, size, key=key)
        outer = eqx.nn.Linear(size, size, key=key)
        self.outer = jax.tree.map(jnp.zeros_like, outer)

    def __call__(self, x, *, key=None):
        return x + self.outer(jax.nn.relu(self.inner(x)))


class Nested(eqx.Module):
    """Sites in lists, dicts and modules, one of them in a branch around the rest."""

    stem: dict[str, eqx.nn.Linear]
    blocks: list[Block]
    shortcut: eqx.nn.Linear
    norm: eqx.nn.LayerNorm

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.stem = {"embed": eqx.nn.Linear(3, 4, key=keys[0])}
        self.blocks = [Block(4, keys[1]), Block(4, keys[2])]
        self.shortcut = eqx.nn.Linear(3, 4, key=keys[3])
        self.norm = eqx.nn.LayerNorm(4)

    def __call__(self, x):
        h = self.stem["embed"](x)
        for block in self.blocks:
            h = block(h)
        return jnp.sum(self.norm(h) + self.shortcut(x))


def test_sites_are_found_anywhere():
    assert names(Nested(KEY)) == [
        "stem.embed",
        "blocks.0.inner",
        "blocks.0.outer",
        "blocks.1.inner",
        "blocks.1.outer",
        "shortcut",
    ]


def around(network, shape):
    example = jax.ShapeDtypeStruct(shape, jnp.float32)
    learnable = learnable_leaves(network, ())
    return bypassed_sites(network, find_sites(network), example, learnable)


def test_paths_around_a_layer_are_found():
    assert around(MLP(3, 1, 4, 3, key=KEY), (3,)) == set()
    assert around(ResNet(3, 1, 4, 3, key=KEY), (3,)) == {"blocks.0", "blocks.1"}
    # The shortcut leads around everything, and everything around the shortcut.
    assert around(Nested(KEY), (3,)) == set(names(Nested(KEY)))
    assert around(eqx.nn.Sequential([Block(3, KEY), eqx.nn.Linear(3, 1, key=KEY)]), (3,)) == {
        "layers.0.inner",
        "layers.0.outer",
    }


def test_values_do_not_decide_about_paths():
    dead = jax.tree.map(
        lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf,
        ResNet(3, 1, 4, 3, key=KEY),
    )
    assert around(dead, (3,)) == {"blocks.0", "blocks.1"}


def test_attention_needs_no_rule_of_its_own():
    attention = eqx.nn.MultiheadAttention(2, 4, key=KEY)
    sites = find_sites(attention)
    assert {site.name for site in sites} == {
        "query_proj", "key_proj", "value_proj", "output_proj",
    }  # fmt: skip
    scales = {site.name: {"unit": jnp.full(site.num_rows, 2.0)} for site in sites}
    x = jax.random.normal(KEY, (5, 4))
    doubled = sx.networks.placing.put_scales(attention, sites, scales)
    by_hand = sx.networks.placing.put_weights(
        attention, sites, {site.name: 2.0 * site.weight(attention) for site in sites}
    )
    np.testing.assert_allclose(doubled(x, x, x), by_hand(x, x, x), rtol=1e-5)
