"""Units that are constants, moved into the biases after them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._jaxprs import bind
from scalemix._types import PyTree
from scalemix.networks.cutting.constants import Changes, Constants, Stuck
from scalemix.networks.cutting.flow import any_along
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.primitives.products import contract
from scalemix.networks.cutting.sizes import with_fields


class Folded(NamedTuple):
    """What makes the weights of constant units zero."""

    changes: Changes
    stuck: bool
    """Whether a bias was missing somewhere."""
    again: bool
    """Whether there are more such units, whose values come to be others by these changes."""


def fold_units(constants: Constants) -> Folded:
    """A unit that no input leads to has one value: what a layer makes of it goes into a bias.

    That is the layer's own, or if it has none that can take it up, one of a layer after it.
    """
    changes, stuck, again = Changes(), False, False
    for node in constants.trace.graph.nodes:
        if node.name not in ("dot_general", "conv_general_dilated"):
            continue
        for data, weight in ((0, 1), (1, 0)):
            if node.name == "conv_general_dilated" and weight == 0:
                continue
            if node.inputs[data] in changes.passed:
                again = True
                continue
            try:
                changes.update(_fold(constants, node, data, weight))
            except Stuck:
                stuck = True
    return Folded(changes, stuck, again)


def _fold(constants: Constants, node: Node, data: int, weight: int) -> Changes:
    flow, nothing = constants.flows[node.inputs[data]], Changes()
    if constants.flows.varies(node.inputs[weight]):
        return nothing
    constant, unread = _constant_units(node, data, weight, flow.varies)
    if not (constant & flow.nonzero).any():
        return nothing
    placed = constants.places(node.inputs[weight])
    if placed is None:
        return nothing
    leaf, places = placed
    if not (unread & constants.flows[node.inputs[weight]].nonzero).any():
        return nothing
    values = np.where(constant, np.asarray(constants.value(node.inputs[data])), 0)
    factor = constants.value(node.inputs[weight])
    if node.name == "dot_general":
        pair: list[Any] = [values.astype(np.float64), np.asarray(factor, np.float64)]
        offset = contract(node, *(pair if data == 0 else reversed(pair)))
    else:
        offset = bind(node.equation, [jnp.asarray(values), factor])[0]
    changes = constants.follow({node.outputs[0]: offset})
    gone = np.zeros(constants.trace.shapes[constants.trace.leaves[leaf]], bool)
    gone.reshape(-1)[places[unread]] = True
    changes.zero(leaf, gone)
    return changes


def _constant_units(
    node: Node, data: int, weight: int, varies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where units of the data are constant, and the weights that read them."""
    shape = node.equation.invars[weight].aval.shape  # pyright: ignore[reportAttributeAccessIssue]
    if node.name == "dot_general":
        both_summed, both_shared = node.params["dimension_numbers"]
        mine, theirs = both_summed[data], both_summed[weight]
        mine, theirs = (*mine, *both_shared[data]), (*theirs, *both_shared[weight])
        others = tuple(axis for axis in range(varies.ndim) if axis not in mine)
        constant = np.broadcast_to(~varies.any(axis=others, keepdims=True), varies.shape)
        each = ~any_along(varies, others)
        # The axes that are left are in the order of the data; those of the weight have theirs.
        order = [sorted(mine).index(axis) for axis in mine]
        pairs = sorted(zip(theirs, order, strict=True))
        each = np.transpose(each, [place for _, place in pairs])
        spread = [1] * len(shape)
        for axis, _ in pairs:
            spread[axis] = shape[axis]
        return constant, np.broadcast_to(each.reshape(spread), shape)
    places, groups = node.params["dimension_numbers"], node.params["feature_group_count"]
    channels, (filters, rows) = places.lhs_spec[1], places.rhs_spec[:2]
    others = tuple(axis for axis in range(varies.ndim) if axis != channels)
    constant = np.broadcast_to(~varies.any(axis=others, keepdims=True), varies.shape)
    by_group = (~varies.any(axis=others)).reshape(groups, -1)
    by_filter = np.repeat(by_group, shape[filters] // groups, axis=0)
    by_filter = by_filter.reshape(*by_filter.shape, *[1] * (len(shape) - 2))
    return constant, np.broadcast_to(np.moveaxis(by_filter, (0, 1), (filters, rows)), shape)


def with_biases(network: PyTree) -> PyTree:
    """The network with a bias of zeros in each layer that can have one and has none."""
    return _map_layers(network, _give_bias)


def without_idle_biases(networks: Sequence[PyTree], like: PyTree) -> list[PyTree]:
    """The networks without those biases that are zero in all of them, and that `like` has not."""
    by_layer = zip(_layers(like), *map(_layers, networks), strict=True)
    idle = [
        old.bias is None and all(_is_idle(layer.bias) for layer in new) for old, *new in by_layer
    ]

    def strip(network: PyTree) -> PyTree:
        which = iter(idle)
        return _map_layers(
            network, lambda n: with_fields(n, bias=None, use_bias=False) if next(which) else n
        )

    return [strip(network) for network in networks]


def _is_idle(bias: Any) -> bool:
    return bias is None or not bool(jnp.any(bias != 0))


_BIASED = (eqx.nn.Linear, eqx.nn.Conv, eqx.nn.ConvTranspose)


def _give_bias(layer: Any) -> Any:
    if layer.bias is not None or not eqx.is_array(layer.weight):
        return layer
    spatial = getattr(layer, "num_spatial_dims", 0)
    *stack, outputs = layer.weight.shape[: layer.weight.ndim - 1 - spatial]
    shape = (*stack, outputs, *[1] * spatial)
    return with_fields(layer, bias=jnp.zeros(shape, layer.weight.dtype), use_bias=True)


def _is_layer(node: Any) -> bool:
    return isinstance(node, _BIASED)


def _layers(network: PyTree) -> list[Any]:
    return [n for n in jax.tree.leaves(network, is_leaf=_is_layer) if _is_layer(n)]


def _map_layers(network: PyTree, change: Any) -> PyTree:
    return jax.tree.map(lambda n: change(n) if _is_layer(n) else n, network, is_leaf=_is_layer)
