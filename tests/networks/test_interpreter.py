"""Odd ways of using a weight: under scales, each gives what the product of both would."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks.gaussians import find_uses
from scalemix.networks.placing import put_scales
from scalemix.networks.sites import find_sites

RNG = np.random.default_rng(0)
WEIGHT = jnp.asarray(RNG.normal(size=(4, 4)), jnp.float32)
X = jnp.asarray(RNG.normal(size=4), jnp.float32)
PLACES = jnp.array([0, 0, 3, 9])


def dot(weight, x, dtype=None):
    return jax.lax.dot_general(weight, x, (((1,), (0,)), ((), ())), preferred_element_type=dtype)


USES = {
    "a value of its own beyond the table": lambda w, x: jnp.take(
        w, PLACES, axis=0, mode="fill", fill_value=5.0
    ),
    "zero beyond the table": lambda w, x: jnp.take(w, PLACES, axis=1, mode="fill", fill_value=0.0),
    "whole numbers as data": lambda w, x: dot(w, (3 * x).astype(jnp.int32), jnp.float32),
    "data of half the precision": lambda w, x: dot(w, x.astype(jnp.bfloat16), jnp.float32),
    "output of half the precision": lambda w, x: dot(w, x, jnp.bfloat16).astype(jnp.float32),
    "a smaller range": lambda w, x: (w.astype(jnp.float16) @ x.astype(jnp.float16)).astype(
        jnp.float32
    ),
}


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
@pytest.mark.parametrize("name", USES)
def test_a_use_of_a_scaled_weight(name, scale):
    rule = sx.PathRule("*/w", row_axis=1, output_axis=0)
    # The weight makes up for the scales, so that their product is in the range of every type.
    params = {"w": WEIGHT / scale**2}
    network = sx.networks.from_function(lambda p, x: USES[name](p["w"], x), params, rules=[rule])
    sites = find_sites(network)
    by_row = scale * jnp.array([0.5, 2.0, 0.0, 1.0])
    by_output = scale * jnp.array([1.0, -1.0, 3.0, 0.3])

    def ours(by_row, by_output):
        return put_scales(network, sites, {"params.w": {"unit": by_row, "output": by_output}})(X)

    def plain(by_row, by_output):
        return USES[name](params["w"] * by_row[None] * by_output[:, None], X)

    close = {"rtol": 2e-2, "atol": 2e-2} if "precision" in name else {"rtol": 1e-2, "atol": 1e-3}
    np.testing.assert_allclose(ours(by_row, by_output), plain(by_row, by_output), **close)
    for place in (0, 1):
        slopes = [
            scale * jax.grad(lambda *s, f=f: jnp.sum(f(*s)), place)(by_row, by_output)
            for f in (ours, plain)
        ]
        np.testing.assert_allclose(*slopes, rtol=5e-2, atol=5e-2)


def grouped(kernel, x, groups):
    """A grouped convolution with the channels last, and its kernel as (width, rows, outputs)."""
    return jax.lax.conv_general_dilated(
        x[None], kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=groups,
    )[0]  # fmt: skip


class Grouped(sx.networks.FunctionNetwork):
    groups: int = 2


def test_groups_may_lie_along_any_axes():
    """The rows of a group are those of its outputs, whatever the order of the axes."""
    kernel, x = (jnp.asarray(RNG.normal(size=s), jnp.float32) for s in ((3, 2, 6), (5, 4)))
    rule = sx.networks.LayerRule(
        row_axis=-2, output_axis=-1, ndim=3, groups=lambda layer: layer.groups,
        weight=(jax.tree_util.GetAttrKey("params"), jax.tree_util.DictKey("kernel")),
    )  # fmt: skip
    uses = {
        "as it is": lambda p, x: grouped(p["kernel"], x, 2),
        # Each group here is half of one there: the rows of its outputs stay those of the layer.
        "in other groups": lambda p, x: grouped(p["kernel"], jnp.concatenate([x] * 3, 1)[:, :6], 3),
        "multiplied out": lambda p, x: grouped(2 * p["kernel"], x, 2),
    }
    scales = jnp.array([0.5, 2.0, 0.0, 3.0])
    by_output = jnp.repeat(scales.reshape(2, 2), 3, axis=0).T
    for use in uses.values():
        network = Grouped({"kernel": kernel}, use, (rule,))
        sites = find_sites(network)
        ours = put_scales(network, sites, {sites[0].name: {"unit": scales}})(x)
        np.testing.assert_allclose(ours, use({"kernel": kernel * by_output[None]}, x), atol=1e-5)


def test_groups_need_outputs_to_divide():
    rule = sx.networks.LayerRule(
        row_axis=1, output_axis=None, groups=lambda layer: 2,
        weight=(jax.tree_util.GetAttrKey("params"), jax.tree_util.DictKey("w")),
    )  # fmt: skip
    with pytest.raises(ValueError, match="into 2 groups, and says that they lie along None"):
        find_sites(Grouped({"w": WEIGHT}, lambda p, x: p["w"] @ x, (rule,)))


def test_products_with_data_of_another_type_are_not_drawn():
    """Squares of the data, which their variance needs, may be too large for that type."""
    rule = sx.PathRule("*/w", row_axis=1)
    for name, act_once in (
        ("whole numbers as data", False),
        ("output of half the precision", True),
    ):
        use = USES[name]
        network = sx.networks.from_function(
            lambda p, x, use=use: use(p["w"], x), {"w": WEIGHT}, rules=[rule]
        )
        uses = find_uses(network, find_sites(network), X[None])
        assert ("params.w" in uses.once) == act_once


def test_each_operand_of_a_product_keeps_its_precision():
    """A weight and a vector change places."""
    high, low = jax.lax.Precision.HIGHEST, jax.lax.Precision.DEFAULT
    rule = sx.PathRule("*/w", row_axis=1, output_axis=0)
    network = sx.networks.from_function(
        lambda p, x: jnp.dot(p["w"], x, precision=(high, low)), {"w": WEIGHT}, rules=[rule]
    )
    scales = {"params.w": {"unit": jnp.ones(4)}}
    traced = jax.make_jaxpr(put_scales(network, find_sites(network), scales))(X)
    (product,) = (e for e in traced.jaxpr.eqns if e.primitive.name == "dot_general")
    is_weight = [len(atom.aval.shape) == 2 for atom in product.invars]
    assert product.params["precision"] == tuple(high if weight else low for weight in is_weight)
