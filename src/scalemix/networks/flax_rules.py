"""The conventions of Flax: what lies along the axes of a parameter, by its name."""

from collections.abc import Mapping
from typing import Any

from scalemix._types import PyTree
from scalemix.networks.path_rules import PathRule, arrays_of
from scalemix.networks.rules import LayerRule
from scalemix.networks.sites import at_path, path_name

ATTENTION = ("query", "key", "value", "out")
EMBEDDING = PathRule("*/embedding", row_axis=1, token_axis=0, ndim=2)
# (inputs, heads, features) and (heads, features, outputs).
TO_HEADS = PathRule("*/kernel", row_axis=0, ndim=3)
FROM_HEADS = PathRule("*/kernel", row_axis=0, output_axis=2, ndim=3)


def flax_rules(params: PyTree) -> tuple[LayerRule, ...]:
    """A rule for each `kernel` and each `embedding`; `ValueError` if there are none."""
    rules: list[LayerRule] = []
    names: list[str] = []
    for path, leaf in arrays_of(params):
        names.append(path_name(path))
        # The paths are those in a network, which keeps the tree in one of its fields.
        rule = _rule(params, path[1:], leaf.shape, names[-1])
        if rule is not None:
            rules.append(rule.layer_rule(path, leaf.shape))
    if not rules:
        raise ValueError(
            f"None of the parameters is a 'kernel' or an 'embedding', as they are called in Flax: "
            f"{', '.join(names) or 'there are none'}. Say which ones can carry a prior: "
            f"rules=[PathRule('*/w', row_axis=0, output_axis=1)]."
        )
    return tuple(rules)


def _rule(
    params: PyTree, path: tuple[Any, ...], shape: tuple[int, ...], name: str
) -> PathRule | None:
    last = path_name(path[-1:])
    if len(shape) < 2 or last not in ("kernel", "embedding"):
        return None
    if last == "embedding":
        return EMBEDDING
    part = path_name(path[-2:-1])
    if part in ATTENTION and _has_heads(at_path(params, path[:-2])):
        return FROM_HEADS if part == "out" else TO_HEADS
    bias = _shape_of(at_path(params, path[:-1]), "bias")
    if bias is None or len(bias) < 2:
        # Dense layers, and convolutions with their further axes in front.
        return PathRule("*/kernel", row_axis=-2, output_axis=-1)
    # Layers on top of each other, or one with several axes of outputs?
    stacked = bias == (*shape[: len(bias) - 1], shape[-1]) and len(bias) < len(shape)
    spread = bias == shape[1:]
    if stacked == spread:
        raise ValueError(
            f"It cannot be told what lies along the axes of {name!r}, of the shape {shape}, beside "
            f"a bias of the shape {bias}: layers that are stacked, or outputs on several axes. "
            f"Give rules for all parameters that can carry a prior, such as "
            f"rules=[PathRule('*/kernel', row_axis=-2, output_axis=-1, ndim=2)] if they are "
            f"stacked."
        )
    if spread:
        return PathRule("*/kernel", row_axis=0)
    return PathRule("*/kernel", row_axis=-2, output_axis=-1, ndim=len(shape) - len(bias) + 1)


def _has_heads(layer: Any) -> bool:
    """Whether this is attention whose kernels have an axis of heads."""
    if not isinstance(layer, Mapping):
        return False
    kernels = [_shape_of(layer.get(part), "kernel") or () for part in ATTENTION]
    return all(len(kernel) > 2 for kernel in kernels) and kernels[0][-2:] == kernels[-1][-3:-1]


def _shape_of(layer: Any, name: str) -> tuple[int, ...] | None:
    leaf = layer.get(name) if isinstance(layer, Mapping) else None
    return getattr(leaf, "shape", None)
