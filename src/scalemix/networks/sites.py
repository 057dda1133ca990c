"""Finds the weights of any network that a prior can be put on."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import equinox as eqx
import jax
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.networks.rules import LayerRule, rules_for

Along = Literal["row", "output", "token"]
"""What lies along an axis of a weight."""
# The field of a `CalledNetwork` that holds the network itself, which is no part of any name.
WRAPPED = "wrapped_network"


@dataclasses.dataclass(frozen=True)
class Site:
    """The place of one weight matrix in a network. It holds no arrays.

    Attributes
    ----------
    name : str
        The name by which priors, weights and scales refer to it: `layers.0`, or
        `params.Dense_0.kernel` in a tree of parameters.
    path : tuple
        The path to its layer, as `jax.tree_util` has it.
    layer_type : str
        The name of the layer's class, or the one that the rule gives.
    rule : LayerRule
        Where the layer keeps the weight, and what lies along its axes.
    shape : tuple of int
        The shape of the weight.
    num_stacked : int
        How many of the weight's first axes only stack layers.
    num_groups : int
        The groups of a grouped convolution, one for all other layers.
    num_heads : int or None
        The heads of attention among which the rows are divided, where they are.
    columns, column_parts : tuple of int or None
        The number of the column of a table that each row's input was made of, and that of the part
        of a column, where they are known.

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
    num_stacked: int = 0
    num_groups: int = 1
    num_heads: int | None = None
    columns: tuple[int, ...] | None = None
    column_parts: tuple[int, ...] | None = None

    @property
    def weight_path(self) -> tuple[Any, ...]:
        """The path to the weight itself."""
        return (*self.path, *self.rule.path)

    @property
    def parts(self) -> "tuple[Site, ...]":
        """The sites whose weights this one's is made of: itself, unless it ties several."""
        return (self,)

    def split(self, weight: Any) -> tuple[Any, ...]:
        """The weight as those of its parts."""
        return (weight,)

    @property
    def stack(self) -> tuple[int, ...]:
        """The lengths of the axes that stack layers: empty for a layer of its own."""
        return self.shape[: self.num_stacked]

    @property
    def layer_shape(self) -> tuple[int, ...]:
        """The shape of the weight of one layer."""
        return self.shape[self.num_stacked :]

    @property
    def num_rows(self) -> int:
        """The number of rows of one layer: units of what the weight is multiplied with."""
        return self.num_groups * self.layer_shape[self.rule.row_axis]

    def axis(self, along: Along) -> int | None:
        """The axis of one layer's weight along which these lie, if there is one."""
        rule = self.rule
        axes = {"row": rule.row_axis, "output": rule.output_axis, "token": rule.token_axis}
        axis = axes[along]
        return None if axis is None else axis % len(self.layer_shape)

    def count(self, along: Along) -> int | None:
        """How many of them one layer has."""
        if along == "row":
            return self.num_rows
        axis = self.axis(along)
        return None if axis is None else self.layer_shape[axis]

    def layer(self, network: PyTree) -> Any:
        """The layer in a network of this shape."""
        return at_path(network, self.path)

    def weight(self, network: PyTree) -> Array:
        """The weight in a network of this shape."""
        return at_path(network, self.weight_path)


def find_sites(network: PyTree) -> tuple[Site, ...]:
    """The weight matrices of a network that a prior can be put on.

    Parameters
    ----------
    network : PyTree
        Any network of Equinox modules, lists, tuples and dicts, or what `from_function` and
        `from_nnx` make of others.

    Returns
    -------
    tuple of Site
        All sites, in the order in which the network holds them. A weight that is tied to another
        by `eqx.nn.Shared` is one site, where it is kept.

    Raises
    ------
    ValueError
        If a rule does not fit its layer.

    Examples
    --------
    >>> [site.name for site in sx.networks.find_sites(net)]
    ['layers.0', 'layers.1', 'layers.2']
    """
    heads = {path: mixer.num_heads for path, mixer in _nodes(network, eqx.nn.MultiheadAttention)}
    shared = [path for path, _ in _nodes(network, eqx.nn.Shared)]
    entries, _ = jax.tree_util.tree_flatten_with_path(network, is_leaf=lambda x: bool(rules_for(x)))
    sites = []
    for path, layer in entries:
        rules = rules_for(layer)
        for rule in rules:
            name, weight = _name(tuple(path), rule, alone=len(rules) == 1), _weight(layer, rule)
            if not hasattr(weight, "shape") and any(path[: len(p)] == p for p in shared):
                # Tied to a weight that is kept elsewhere.
                continue
            of_heads = heads.get(path[:-1]) if path_name(path[-1:]) == "output_proj" else None
            sites.append(_site(name, tuple(path), layer, weight, rule, of_heads))
    return tuple(sites)


def _nodes(network: PyTree, kind: type) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The outermost parts of a network that are of one class, with their paths."""
    entries, _ = jax.tree_util.tree_flatten_with_path(
        network, is_leaf=lambda node: isinstance(node, kind)
    )
    return ((tuple(path), node) for path, node in entries if isinstance(node, kind))


def _name(path: tuple[Any, ...], rule: LayerRule, *, alone: bool) -> str:
    """A layer gives its name to its only weight; in a tree, each weight has a name of its own."""
    if not isinstance(rule.weight, str):
        return path_name((*path, *rule.path))
    return path_name(path) if alone else f"{path_name(path)}.{rule.weight}"


def _weight(layer: Any, rule: LayerRule) -> Any:
    try:
        return at_path(layer, rule.path)
    except (AttributeError, LookupError, TypeError):
        return None


def _site(
    name: str,
    path: tuple[Any, ...],
    layer: Any,
    weight: Any,
    rule: LayerRule,
    num_heads: int | None,
) -> Site:
    kind = rule.name or type(layer).__name__
    if not hasattr(weight, "shape"):
        raise ValueError(
            f"The rule for {kind} names the weight {path_name(rule.path)!r}; layer {name!r} has "
            f"no array of that name."
        )
    ndim = rule.ndim if isinstance(rule.ndim, int) else rule.ndim(layer)
    axes = [axis for axis in (rule.row_axis, rule.output_axis, rule.token_axis) if axis is not None]
    if len(weight.shape) < ndim or not all(-ndim <= axis < ndim for axis in axes):
        raise ValueError(
            f"The rule for {kind} does not fit layer {name!r}: it says that the weight has {ndim} "
            f"axes with rows, outputs or tokens along {sorted(axes)}, and its shape is "
            f"{weight.shape}."
        )
    num_groups = 1 if rule.groups is None else rule.groups(layer)
    _check_groups(num_groups, weight.shape[-ndim:], rule, name, kind)
    columns, parts = (None if of is None else of(layer) for of in (rule.columns, rule.parts))
    num_stacked = len(weight.shape) - ndim
    return Site(
        name, path, kind, rule, weight.shape, num_stacked, num_groups, num_heads, columns, parts
    )


def _check_groups(
    num_groups: int, shape: tuple[int, ...], rule: LayerRule, name: str, kind: str
) -> None:
    if num_groups == 1:
        return
    if rule.output_axis is None or shape[rule.output_axis] % num_groups:
        raise ValueError(
            f"The rule for {kind} does not fit layer {name!r}: it divides the outputs of a weight "
            f"of the shape {shape} into {num_groups} groups, and says that they lie along "
            f"{rule.output_axis}."
        )


def path_name(path: tuple[Any, ...]) -> str:
    """`layers.0` for `network.layers[0]`; a network that is itself a layer is `network`."""
    steps = [str(_step(key)) for key in path]
    return ".".join(step for step in steps if step != WRAPPED) or "network"


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
