"""Finds the weights of any Equinox network that a prior can be put on."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.networks.rules import LayerRule, rules_for


@dataclasses.dataclass(frozen=True)
class Site:
    """The place of one weight matrix in a network. It holds no arrays.

    Attributes
    ----------
    name : str
        The name by which priors, weights and scales refer to it: `layers.0`.
    path : tuple
        The path to its layer, as `jax.tree_util` has it.
    layer_type : str
        The name of the layer's class.
    rule : LayerRule
        How scales act on the weight.
    shape : tuple of int
        The shape of the weight.
    num_rows : int
        The number of rows: units of the layer's input.
    num_outputs : int or None
        The number of outputs: units of the layer's output, or filters of a convolution; `None`
        where the rule does not say.

    Examples
    --------
    >>> site = sx.networks.find_sites(net)[0]
    >>> site.name, site.layer_type, site.shape, site.num_rows
    ('layers.0', 'Linear', (8, 3), 3)
    >>> site.weight(net).shape
    (8, 3)
    """

    name: str
    path: tuple[Any, ...]
    layer_type: str
    rule: LayerRule
    shape: tuple[int, ...]
    num_rows: int
    num_outputs: int | None = None

    @property
    def weight_path(self) -> tuple[Any, ...]:
        """The path to the weight itself."""
        return (*self.path, jax.tree_util.GetAttrKey(self.rule.weight))

    def layer(self, network: PyTree) -> Any:
        """The layer in a network of this shape."""
        return at_path(network, self.path)

    def weight(self, network: PyTree) -> Array:
        """The weight in a network of this shape."""
        return getattr(self.layer(network), self.rule.weight)


def find_sites(network: PyTree) -> tuple[Site, ...]:
    """The weight matrices of a network that a prior can be put on.

    Parameters
    ----------
    network : PyTree
        Any network of Equinox modules, lists, tuples and dicts.

    Returns
    -------
    tuple of Site
        All sites, in the order in which the network holds them.

    Raises
    ------
    ValueError
        If a rule does not fit its layer.

    Examples
    --------
    >>> [site.name for site in sx.networks.find_sites(net)]
    ['layers.0', 'layers.1', 'layers.2']
    """
    entries, _ = jax.tree_util.tree_flatten_with_path(network, is_leaf=lambda x: bool(rules_for(x)))
    sites = []
    for path, layer in entries:
        rules = rules_for(layer)
        for rule in rules:
            name = path_name(path) + (f".{rule.weight}" if len(rules) > 1 else "")
            sites.append(_site(name, tuple(path), layer, rule))
    return tuple(sites)


def _site(name: str, path: tuple[Any, ...], layer: Any, rule: LayerRule) -> Site:
    kind = type(layer).__name__
    weight: Any = getattr(layer, rule.weight, None)
    if not hasattr(weight, "shape"):
        raise ValueError(
            f"The rule for {kind} names the weight {rule.weight!r}; layer {name!r} has no array "
            f"of that name (weights tied with eqx.nn.Shared cannot carry a prior)."
        )
    num_rows, num_outputs = rule.num_rows(layer), None

    def check(which: str, expand: Callable[[Any, Array], Array], num: int, what: str) -> None:
        try:
            expanded = jax.eval_shape(expand, layer, jax.ShapeDtypeStruct((num,), weight.dtype))
            fits = np.broadcast_shapes(expanded.shape, weight.shape) == weight.shape
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise ValueError(
                f"The rule for {kind} does not fit layer {name!r}: {which} must turn the scales of "
                f"{num} {what} into a shape that broadcasts against the weight's, {weight.shape}."
            )

    check("expand", rule.expand, num_rows, "rows")
    if rule.num_outputs is not None and rule.expand_outputs is not None:
        num_outputs = rule.num_outputs(layer)
        check("expand_outputs", rule.expand_outputs, num_outputs, "outputs")
    return Site(name, path, kind, rule, weight.shape, num_rows, num_outputs)


def path_name(path: tuple[Any, ...]) -> str:
    """`layers.0` for `network.layers[0]`; a network that is itself a layer is `network`."""
    return ".".join(str(_step(key)) for key in path) or "network"


def at_path(tree: PyTree, path: tuple[Any, ...]) -> Any:
    """The part of a tree at a path that `jax.tree_util` gave."""
    for key in path:
        by_attribute = isinstance(key, jax.tree_util.GetAttrKey)
        tree = getattr(tree, key.name) if by_attribute else tree[_step(key)]
    return tree


def _step(key: Any) -> Any:
    for field in ("name", "idx", "key"):
        if hasattr(key, field):
            return getattr(key, field)
    raise ValueError(
        f"Networks are Equinox modules, lists, tuples and dicts; {key!r} is a key of none of them."
    )
