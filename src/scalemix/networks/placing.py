"""Puts weights and scales into a network. The network given stays as it is; a new one is made."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.networks.groups import GROUPS
from scalemix.networks.sites import Site, at_path

Scales = dict[str, dict[str, Array]]
"""One draw: for each site the scales of each group."""


def check_by_site(given: Any, shapes: dict[str, Any], what: str) -> None:
    """Raise `ValueError` unless `given` has these names and shapes, site by site."""
    if not isinstance(given, dict) or given.keys() != shapes.keys():
        got = ", ".join(map(str, given)) if isinstance(given, dict) else type(given).__name__
        raise ValueError(f"{what} are a dict of {', '.join(shapes)}; got {got}.")
    for name, shape in shapes.items():
        if isinstance(shape, dict):
            check_by_site(given[name], shape, f"{what} of {name!r}")
        elif jnp.shape(given[name]) != shape:
            raise ValueError(
                f"{what}: {name!r} must have the shape {shape}, got {jnp.shape(given[name])}. "
                f"Several at once go through jax.vmap."
            )


def get_weights(network: PyTree, sites: tuple[Site, ...]) -> dict[str, Array]:
    """The weights of all sites, by name."""
    return {site.name: site.weight(network) for site in sites}


def put_weights(network: PyTree, sites: tuple[Site, ...], weights: dict[str, Array]) -> PyTree:
    """The network with these weights in place of its own."""
    return eqx.tree_at(
        lambda net: [site.weight(net) for site in sites],
        network,
        [weights[site.name] for site in sites],
    )


def expand_scales(site: Site, layer: Any, scales: dict[str, Array]) -> Array:
    """The product of a site's groups of scales, broadcastable against its weight."""
    product = jnp.ones((1,) * len(site.shape), getattr(layer, site.rule.weight).dtype)
    for group, scale in scales.items():
        product = product * GROUPS[group].expand(site, layer, scale)
    return product


def replace_layers(
    network: PyTree, sites: tuple[Site, ...], change: Callable[[Site, Any], Any]
) -> PyTree:
    """The network with the layer of each site changed, once for each of its sites."""
    layers = {}
    for site in sites:
        layers[site.path] = change(site, layers.get(site.path, site.layer(network)))
    return eqx.tree_at(lambda net: [at_path(net, p) for p in layers], network, [*layers.values()])


def put_scales(network: PyTree, sites: tuple[Site, ...], scales: Scales) -> PyTree:
    """The network in the expanded parametrization: each weight `z` acts as `xi * z`."""
    return replace_layers(
        network, sites, lambda site, layer: _scale_layer(site, layer, scales[site.name])
    )


def with_weight(layer: Any, site: Site, weight: Array) -> Any:
    """The layer with this weight in place of its own."""
    return eqx.tree_at(lambda node: getattr(node, site.rule.weight), layer, weight)


def _without_bias(layer: Any, name: str) -> Any:
    """The layer with a bias of zero, if it has one."""
    bias = getattr(layer, name, None)
    if bias is None:
        return layer
    return eqx.tree_at(lambda node: getattr(node, name), layer, jnp.zeros_like(bias))


def _scale_layer(site: Site, layer: Any, scales: dict[str, Array]) -> Any:
    # Scales of rows act on the layer's input and those of outputs on its output, where the rule
    # knows how; all others act on the weight.
    on_input, on_output = site.rule.scale_input is not None, site.rule.scale_output is not None
    around = {
        name: s
        for name, s in scales.items()
        if (on_input and GROUPS[name].by_row) or (on_output and GROUPS[name].by_output)
    }
    of_weights = {name: s for name, s in scales.items() if name not in around}
    if of_weights:
        weight = getattr(layer, site.rule.weight) * expand_scales(site, layer, of_weights)
        layer = with_weight(layer, site, weight)
    if around:
        layer = ScaledLayer(layer, around, site)
    return layer


class ScaledLayer(eqx.Module):
    """A layer with scales on its input units, `f(h * xi)` in place of `f(h)`, or on its outputs,
    `xi * W h + b` in place of `W h + b`.

    The weight itself stays shared by all examples, so that a batch in which every example has noise
    of its own is still one matrix product. Code that reads the weight sees the scaled one.
    """

    layer: Any
    scales: dict[str, Array]
    site: Site = eqx.field(static=True)

    def __call__(self, x: Array, *args: Any, **kwargs: Any) -> Any:
        of_outputs = []
        for group, scale in self.scales.items():
            if GROUPS[group].by_output:
                of_outputs.append(GROUPS[group].outputs(self.site, scale))
            else:
                x = GROUPS[group].scale_input(self.site, scale, x)
        if not of_outputs:
            return self.layer(x, *args, **kwargs)
        rule = self.site.rule
        assert rule.scale_output is not None
        product = _without_bias(self.layer, rule.bias)(x, *args, **kwargs)
        return rule.scale_output(
            self.layer, math.prod(of_outputs[1:], start=of_outputs[0]), product
        )

    def __getattr__(self, name: str) -> Any:
        # Reached only for names that are not fields of this class.
        if name.startswith("__") or name in ("layer", "scales", "site"):
            raise AttributeError(name)
        value = getattr(self.layer, name)
        if name == self.site.rule.weight:
            return value * expand_scales(self.site, self.layer, self.scales)
        return value
