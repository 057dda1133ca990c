"""Every layer rule passes these unasked: one row a layer."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import scalemix as sx
from scalemix.networks.groups import GROUPS
from scalemix.networks.placing import expand_scales, get_weights, put_scales, put_weights
from scalemix.networks.rules import RULES

KEY = jax.random.key(0)


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
    def rule(field):
        return sx.networks.LayerRule(
            num_rows=lambda layer: getattr(layer, field).shape[1],
            expand=lambda layer, scales: scales[None, :],
            scale_input=None,
            weight=field,
            num_outputs=lambda layer: getattr(layer, field).shape[0],
            expand_outputs=lambda layer, scales: scales[:, None],
        )

    sx.networks.register(Gate, rule("matrix"), rule("gate"))
    yield
    del RULES[Gate]


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
}


def test_every_rule_has_a_row():
    built = [type(build()) for build, _ in LAYERS.values()]
    # Others are those of users, such as the ones in examples of the documentation.
    ours = [layer_type for layer_type in RULES if layer_type.__module__.startswith("equinox")]
    for layer_type in ours:
        assert any(issubclass(b, layer_type) for b in built), layer_type


@pytest.mark.parametrize(
    "groups",
    [
        ("unit",),
        ("weight",),
        ("layer",),
        ("unit", "layer"),
        ("output",),
        ("output", "unit", "layer"),
    ],
)
@pytest.mark.parametrize("name", LAYERS)
def test_scaling_the_input_is_scaling_the_weight(name, groups):
    build, shape = LAYERS[name]
    layer = build()
    sites = sx.networks.find_sites(layer)
    scales = {
        site.name: {
            group: 0.5 + jax.random.uniform(jax.random.fold_in(KEY, i), GROUPS[group].shape(site))
            for i, group in enumerate(groups)
        }
        for site in sites
    }
    x = jax.random.normal(KEY, shape)
    weights = {
        site.name: site.weight(layer) * expand_scales(site, layer, scales[site.name])
        for site in sites
    }
    scaled = put_scales(layer, sites, scales)
    expected = put_weights(layer, sites, weights)(x)
    np.testing.assert_allclose(scaled(x), expected, rtol=2e-5, atol=1e-5)
    assert not np.allclose(scaled(x), layer(x))
    # Code that reads the weight instead of calling the layer sees the scaled one.
    for site in sites:
        np.testing.assert_allclose(getattr(scaled, site.rule.weight), weights[site.name], rtol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_every_rule_stands_its_own_check(name):
    build, shape = LAYERS[name]
    sx.networks.check_rule(build(), jax.random.normal(KEY, shape))


class Transposed(eqx.Module):
    """A dense layer with its rows first, as the paper writes it."""

    kernel: Array

    def __call__(self, x):
        return x @ self.kernel


def test_a_wrong_rule_is_found_out():
    layer, x = Transposed(jax.random.normal(KEY, (3, 3))), jnp.arange(3.0)
    with pytest.raises(ValueError, match="No rule is registered"):
        sx.networks.check_rule(layer, x)
    rows = lambda layer: layer.kernel.shape[0]  # noqa: E731
    rule = sx.networks.LayerRule
    try:
        sx.networks.register(Transposed, rule(rows, lambda _, s: s[:, None], weight="kernel"))
        sx.networks.check_rule(layer, x)
        sx.networks.register(Transposed, rule(rows, lambda _, s: s[None, :], weight="kernel"))
        with pytest.raises(ValueError, match="not the same as scaling the rows of 'kernel'"):
            sx.networks.check_rule(layer, x)
        sx.networks.register(
            Transposed, rule(lambda _: 4, lambda _, s: s[:, None], weight="kernel")
        )
        with pytest.raises(ValueError, match=r"does not fit layer 'network'.*4 rows"):
            sx.networks.find_sites(layer)
        sx.networks.register(Transposed, rule(rows, lambda _, s: s[:, None]))
        with pytest.raises(ValueError, match="names the weight 'weight'"):
            sx.networks.find_sites(layer)
    finally:
        del RULES[Transposed]


@pytest.mark.parametrize("name", LAYERS)
def test_a_row_holds_the_outgoing_weights_of_one_unit(name):
    build, shape = LAYERS[name]
    layer = build()
    for site in sx.networks.find_sites(layer):
        rows = jnp.arange(site.num_rows, dtype=jnp.float32)
        owner = jnp.broadcast_to(expand_scales(site, layer, {"unit": rows}), site.shape)
        # Zeroing a unit's row makes the layer deaf to that unit, and to no other.
        row = site.num_rows - 1
        deaf = put_weights(
            layer,
            (site,),
            {site.name: jnp.where(owner == row, 0.0, get_weights(layer, (site,))[site.name])},
        )
        if site.rule.scale_input is None:
            continue
        x = jax.random.normal(KEY, shape)
        changed = x + 1.0 if shape == () else x.at[row].add(1.0)
        np.testing.assert_allclose(deaf(changed), deaf(x), atol=1e-5)
        assert not np.allclose(layer(changed), layer(x))


@pytest.mark.parametrize("name", LAYERS)
def test_the_weights_of_an_output_lead_to_it_alone(name):
    build, shape = LAYERS[name]
    layer, x = build(), jax.random.normal(KEY, shape)
    for site in sx.networks.find_sites(layer):
        scales = jnp.ones(site.num_outputs).at[-1].set(0.0)
        silent = put_scales(layer, (site,), {site.name: {"output": scales}})
        here, there = silent(x), silent(x + 1.0)
        before = layer(x)
        if site.num_outputs > 1:
            np.testing.assert_allclose(here[:-1], before[:-1], rtol=1e-5, atol=1e-6)
            here, there, before = here[-1], there[-1], before[-1]
        assert not np.allclose(here, before)
        if isinstance(layer, Gate):
            continue
        # Whatever the input, what is left of the output is its bias.
        np.testing.assert_array_equal(here, there)


def test_scales_of_outputs_copy_no_weight_for_each_example():
    layer = eqx.nn.Linear(3, 4, key=KEY)
    sites = sx.networks.find_sites(layer)

    def batch(scales, x):
        return jax.vmap(lambda s, row: put_scales(layer, sites, {"network": {"output": s}})(row))(
            scales, x
        )

    program = str(jax.make_jaxpr(batch)(jnp.ones((50, 4)), jnp.ones((50, 3))))
    assert "[50,4,3]" not in program.replace(" ", "")


def test_a_rule_without_outputs_is_told_when_they_are_asked_for():
    layer = Transposed(jax.random.normal(KEY, (3, 2)))
    rows = sx.networks.LayerRule(
        lambda layer: layer.kernel.shape[0], lambda _, s: s[:, None], weight="kernel"
    )
    try:
        sx.networks.register(Transposed, rows)
        with pytest.raises(ValueError, match=r"Scales by output on 'network': the rule for Trans"):
            sx.Model(layer, sx.ARD(sx.Bernoulli(0.5), by="output"), sx.likelihoods.Categorical(2))
        outputs = dataclasses.replace(
            rows, num_outputs=lambda _: 3, expand_outputs=lambda _, s: s[None, :]
        )
        sx.networks.register(Transposed, outputs)
        with pytest.raises(ValueError, match=r"expand_outputs must turn the scales of 3 outputs"):
            sx.networks.find_sites(layer)
        with pytest.raises(ValueError, match="num_outputs and expand_outputs go together"):
            sx.networks.register(Transposed, dataclasses.replace(outputs, num_outputs=None))
        wrong = dataclasses.replace(
            outputs,
            num_outputs=lambda _: 2,
            scale_output=lambda layer, scales, product: product * scales**2,
        )
        sx.networks.register(Transposed, wrong)
        with pytest.raises(ValueError, match="not the same as scaling the outputs of 'kernel'"):
            sx.networks.check_rule(layer, jnp.ones(3))
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
    other = sx.networks.LayerRule(rule.num_rows, rule.expand, weight="other")
    with pytest.raises(ValueError, match="scale_input=None"):
        sx.networks.register(Gate, rule, other)
    rules = [dataclasses.replace(r, scale_input=None) for r in (rule, other)]
    with pytest.raises(ValueError, match="scale_output=None"):
        sx.networks.register(Gate, *rules)
