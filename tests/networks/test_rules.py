"""Every layer rule passes these unasked: one row a layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import scalemix as sx
from scalemix.networks.groups import GROUPS, UNIT
from scalemix.networks.placing import expand_scales, put_scales, put_weights
from scalemix.networks.rules import RULES, rules_for
from scalemix.networks.sites import at_path
from tests.networks.cases import KEY, Along, Autoencoder, Stack, Words


class Gate(eqx.Module):
    """A layer of our own: its input is used twice, so only its weights can be scaled."""

    matrix: Array
    gate: Array

    def __call__(self, x):
        return (self.matrix @ x) * jax.nn.sigmoid(self.gate @ x)


class Cubed(eqx.nn.Linear):
    """A dense layer that does more than add a bias, so that its output cannot be scaled."""

    def __call__(self, x):
        return super().__call__(x) ** 3


@pytest.fixture(autouse=True)
def _registered():
    rules = [sx.networks.LayerRule(weight=field) for field in ("matrix", "gate")]
    sx.networks.register(Gate, *rules)
    yield
    del RULES[Gate]


class Attention(eqx.Module):
    mixer: eqx.nn.MultiheadAttention

    def __call__(self, x):
        return self.mixer(x, x, x)


LAYERS = {
    "Linear": (lambda: eqx.nn.Linear(3, 4, key=KEY), (3,)),
    "Linear from a scalar": (lambda: eqx.nn.Linear("scalar", 4, key=KEY), ()),
    "Linear to a scalar": (lambda: eqx.nn.Linear(3, "scalar", use_bias=False, key=KEY), (3,)),
    "Conv1d": (lambda: eqx.nn.Conv1d(3, 2, 3, key=KEY), (3, 7)),
    "Conv2d": (lambda: eqx.nn.Conv2d(3, 2, 3, stride=2, padding=1, key=KEY), (3, 6, 5)),
    "Conv2d grouped": (lambda: eqx.nn.Conv2d(4, 6, 3, groups=2, key=KEY), (4, 5, 5)),
    "Conv2d depthwise": (lambda: eqx.nn.Conv2d(3, 6, 3, groups=3, key=KEY), (3, 5, 5)),
    "Conv3d": (lambda: eqx.nn.Conv3d(2, 3, 2, key=KEY), (2, 4, 4, 4)),
    "Linear with a call of its own": (lambda: Cubed(3, 4, key=KEY), (3,)),
    "Gate": (lambda: Gate(jnp.ones((4, 3)), jnp.ones((4, 3))), (3,)),
    "ConvTranspose2d": (lambda: eqx.nn.ConvTranspose2d(3, 2, 3, key=KEY), (3, 4, 4)),
    "ConvTranspose1d grouped": (
        lambda: eqx.nn.ConvTranspose1d(4, 6, 3, stride=2, groups=2, key=KEY),
        (4, 5),
    ),
    "MLP in a loop": (
        lambda: eqx.nn.MLP(3, 5, 4, 3, activation=jnp.tanh, scan=True, key=KEY),
        (3,),
    ),
    "GRU": (lambda: Along(eqx.nn.GRUCell(3, 4, key=KEY)), (5, 3)),
    "LSTM": (lambda: Along(eqx.nn.LSTMCell(3, 4, key=KEY)), (5, 3)),
    "Embedding": (lambda: Words(eqx.nn.Embedding(5, 3, key=KEY)), "tokens"),
    "stacked": (lambda: Stack(3, 2), (3,)),
    "attention": (lambda: Attention(eqx.nn.MultiheadAttention(2, 4, key=KEY)), (3, 4)),
    "tied": (lambda: Autoencoder(3, 4), (3,)),
}


def an_input(shape):
    if shape == "tokens":
        return jax.device_put(np.array([3, 1, 3, 0], np.int32))
    return jax.device_put(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def test_every_rule_has_a_row():
    built = [type(build()) for build, _ in LAYERS.values()]
    # Others are those of users, such as the ones in examples of the documentation.
    ours = [layer_type for layer_type in RULES if layer_type.__module__.startswith("equinox")]
    nested = {type(node) for b, _ in LAYERS.values() for node in nodes(b())}
    for layer_type in ours:
        assert any(issubclass(b, layer_type) for b in (*built, *nested)), layer_type


def nodes(network):
    return jax.tree.leaves(network, is_leaf=lambda node: bool(rules_for(node)))


def possible(site, groups):
    """Those of these groups that a site can have."""
    alone = {"head": site.num_heads, "token": site.axis("token"), "output": site.axis("output")}
    return [g for g in groups if alone.get(g, 0) is not None]


SETS = [
    ("unit",), ("weight",), ("layer",), ("output", "unit", "layer"), ("head", "token", "output"),
]  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_network_under_noise_is_the_network_with_scaled_weights(name):
    build, shape = LAYERS[name]
    layer = build()
    rng = np.random.default_rng(1)
    several = [draw_scales(sx.networks.find_sites(layer), groups, rng) for groups in SETS]

    # One program, where each operation would be one of its own.
    @eqx.filter_jit
    def compared(layer, several, x):
        return [compare(layer, scales, x) for scales in several if scales], layer(x)

    pairs, before = compared(layer, several, an_input(shape))
    assert len(pairs) >= 4
    for (ours, read), (expected, weights) in pairs:
        np.testing.assert_allclose(ours, expected, rtol=3e-5, atol=1e-5)
        assert not np.allclose(ours, before)
        # Code that reads a weight sees the scaled one.
        for site, weight in weights.items():
            np.testing.assert_allclose(read[site], weight, rtol=1e-6)


def draw_scales(sites, groups, rng):
    """Scales of those of the groups that each site can have."""
    scales = {
        site.name: {
            group: rng.uniform(0.5, 1.5, GROUPS[group].full_shape(site)).astype(np.float32)
            for group in possible(site, groups)
        }
        for site in sites
    }
    return {name: of_site for name, of_site in scales.items() if of_site}


def compare(layer, scales, x):
    """Outputs and weights of a layer under scales, and of one whose weights are scaled."""
    sites = tuple(site for site in sx.networks.find_sites(layer) if site.name in scales)
    weights = {
        site.name: site.weight(layer) * expand_scales(site, scales[site.name], jnp.float32)
        for site in sites
    }
    scaled = put_scales(layer, sites, scales)
    read = {site.name: at_path(scaled, site.weight_path) for site in sites}
    return (scaled(x), read), (put_weights(layer, sites, weights)(x), weights)


@pytest.mark.parametrize("name", LAYERS)
def test_scales_of_units_copy_no_weight_for_each_example(name):
    build, shape = LAYERS[name]
    layer = build()
    sites = sx.networks.find_sites(layer)

    def batch(scales, x):
        return jax.vmap(lambda s, row: put_scales(layer, sites, s)(row))(scales, x)

    scales = {
        site.name: {"unit": np.ones((50, *UNIT.full_shape(site)), np.float32)} for site in sites
    }
    x = np.stack([an_input(shape)] * 50)
    program = str(jax.make_jaxpr(batch)(scales, x)).replace(" ", "")
    for site in sites:
        assert f"f32[50,{','.join(map(str, site.shape))}]" not in program, site.name


# By shapes alone: every worker collects all tests, and layers themselves would take it seconds.
RULED = [n for n, (build, _) in LAYERS.items() if rules_for(eqx.filter_eval_shape(build))]


@pytest.mark.parametrize("name", RULED)
def test_every_rule_stands_its_own_check(name):
    build, shape = LAYERS[name]
    sx.networks.check_rule(build(), an_input(shape))


class ByHand(eqx.Module):
    """A dense layer whose product is no product to JAX, so that it cannot be followed."""

    kernel: Array

    def __call__(self, x):
        return jnp.sum(self.kernel * x[:, None], axis=0)


class Transposed(eqx.Module):
    """A dense layer with its rows first, as the paper writes it."""

    kernel: Array

    def __call__(self, x):
        return x @ self.kernel


def test_a_wrong_rule_of_one_weight_of_several_is_found_out():
    layer = Gate(jnp.ones((3, 3)), jnp.ones((3, 3)))
    sx.networks.check_rule(layer, jnp.ones(3))
    rule = sx.networks.LayerRule
    sx.networks.register(Gate, rule(weight="matrix"), rule(0, 1, weight="gate"))
    with pytest.raises(ValueError, match="by 'gate' and does not sum over its rows"):
        sx.networks.check_rule(layer, jnp.ones(3))


def test_a_wrong_rule_is_found_out_where_the_weight_cannot_be_followed():
    layer, x = ByHand(jax.random.normal(KEY, (3, 3))), jnp.arange(3.0)
    try:
        sx.networks.register(ByHand, sx.networks.LayerRule(0, 1, weight="kernel"))
        sx.networks.check_rule(layer, x)
        sx.networks.register(ByHand, sx.networks.LayerRule(1, 0, weight="kernel"))
        with pytest.raises(ValueError, match="scaling the rows of 'kernel' is not the same"):
            sx.networks.check_rule(layer, x)
    finally:
        del RULES[ByHand]


def test_a_wrong_rule_is_found_out():
    layer, x = Transposed(jax.random.normal(KEY, (3, 3))), jnp.arange(3.0)
    with pytest.raises(ValueError, match="No rule is registered"):
        sx.networks.check_rule(layer, x)
    rule = sx.networks.LayerRule
    try:
        sx.networks.register(Transposed, rule(0, 1, weight="kernel"))
        sx.networks.check_rule(layer, x)
        with pytest.raises(ValueError, match=r"finds 3 rows in 'kernel', and the input has 2"):
            sx.networks.check_rule(layer, x[:2])
        sx.networks.register(Transposed, rule(1, 0, weight="kernel"))
        with pytest.raises(ValueError, match="by 'kernel' and does not sum over its rows"):
            sx.networks.check_rule(layer, x)
        sx.networks.register(Transposed, rule(2, weight="kernel"))
        with pytest.raises(ValueError, match=r"does not fit layer 'network'.*2 axes"):
            sx.networks.find_sites(layer)
        sx.networks.register(Transposed, rule())
        with pytest.raises(ValueError, match="names the weight 'weight'"):
            sx.networks.find_sites(layer)
    finally:
        del RULES[Transposed]


PLAIN = [n for n, (build, _) in LAYERS.items() if rules_for(build()) and n != "Gate"]


@pytest.mark.parametrize("name", PLAIN)
def test_a_row_holds_the_outgoing_weights_of_one_unit(name):
    build, shape = LAYERS[name]
    layer = build()
    (site,) = sx.networks.find_sites(layer)
    # Zeroing a unit's row makes the layer deaf to that unit, and to no other.
    row = site.num_rows - 1
    scales = jnp.ones(site.num_rows).at[row].set(0.0)
    deaf = put_scales(layer, (site,), {site.name: {"unit": scales}})
    x = jax.random.normal(KEY, shape)
    changed = x + 1.0 if shape == () else x.at[row].add(1.0)
    np.testing.assert_allclose(deaf(changed), deaf(x), atol=1e-5)
    assert not np.allclose(layer(changed), layer(x))


@pytest.mark.parametrize("name", PLAIN)
def test_the_weights_of_an_output_lead_to_it_alone(name):
    build, shape = LAYERS[name]
    layer, x = build(), jax.random.normal(KEY, shape)
    (site,) = sx.networks.find_sites(layer)
    num_outputs = site.count("output")
    scales = jnp.ones(num_outputs).at[-1].set(0.0)
    silent = put_scales(layer, (site,), {site.name: {"output": scales}})
    here, there = silent(x), silent(x + 1.0)
    before = layer(x)
    if num_outputs > 1:
        np.testing.assert_allclose(here[:-1], before[:-1], rtol=1e-5, atol=1e-6)
        here, there, before = here[-1], there[-1], before[-1]
    assert not np.allclose(here, before)
    # Whatever the input, what is left of the output is its bias.
    np.testing.assert_array_equal(here, there)


def test_heads_are_rows_of_the_output_projection():
    layer = Attention(eqx.nn.MultiheadAttention(2, 4, key=KEY))
    site = sx.networks.find_sites(layer)[-1]
    assert (site.name, site.num_heads) == ("mixer.output_proj", 2)
    with pytest.raises(ValueError, match=r"Scales by head on 'network'.*leave out by='head'"):
        sx.Model(
            eqx.nn.Linear(3, 2, key=KEY), sx.ARD(sx.Bernoulli(0.5), by="head"),
            sx.likelihoods.Categorical(2),
        )  # fmt: skip


def test_a_rule_without_outputs_is_told_when_they_are_asked_for():
    layer = Transposed(jax.random.normal(KEY, (3, 2)))
    try:
        sx.networks.register(Transposed, sx.networks.LayerRule(0, None, weight="kernel"))
        with pytest.raises(ValueError, match=r"Scales by output on 'network': a Trans"):
            sx.Model(layer, sx.ARD(sx.Bernoulli(0.5), by="output"), sx.likelihoods.Categorical(2))
    finally:
        del RULES[Transposed]


def test_other_attributes_pass_through():
    layer = eqx.nn.Linear(3, 4, key=KEY)
    sites = sx.networks.find_sites(layer)
    scaled = put_scales(layer, sites, {"network": {"unit": jnp.ones(3)}})
    assert scaled.out_features == 4
    np.testing.assert_array_equal(scaled.bias, layer.bias)
    with pytest.raises(AttributeError):
        _ = scaled.no_such_thing


def test_sites_with_several_weights_are_told_apart():
    names = [
        site.name for site in sx.networks.find_sites([Gate(jnp.ones((2, 2)), jnp.ones((2, 2)))])
    ]
    assert names == ["0.matrix", "0.gate"]


def test_impossible_registrations_are_refused():
    rule = RULES[eqx.nn.Linear][0]
    with pytest.raises(ValueError, match="one LayerRule or more"):
        sx.networks.register(Gate)
    with pytest.raises(ValueError, match="two rules name one weight"):
        sx.networks.register(Gate, rule, rule)
