"""Networks without their arrays, described in JSON if they are scalemix's own.

Of any other network a file knows only the names, shapes and types of its leaves, and whoever loads
it brings one of the same form.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from scalemix._types import PyTree, Shaped
from scalemix.networks import MLP, ColumnLinear, ColumnReader, ResNet
from scalemix.networks.sites import path_name
from scalemix.posterior.storage.container import take

# By name, as jax.nn has them.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    name: getattr(jax.nn, name)
    for name in (
        "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "identity", "leaky_relu",
        "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus",
        "sparse_plus", "sparse_sigmoid", "squareplus", "tanh",
    )
}  # fmt: skip
NETWORKS = {kind.__name__: kind for kind in (MLP, ResNet)}
# A network is traced when it is loaded, which takes a few milliseconds for each layer.
MOST_LAYERS = 500
ADVICE = "Pass network= one of the class and sizes that were saved."


def describe(network: PyTree) -> dict[str, Any] | None:
    """What it takes to build the network again; nothing if its class is not scalemix's own."""
    kind = type(network)
    if kind not in NETWORKS.values():
        return None
    activation = [n for n, known in ACTIVATIONS.items() if known is network.activation]
    layers = {field: _describe_layers(getattr(network, field)) for field in kind.layer_fields}
    if not activation or None in layers.values():
        return None
    if sum(map(_num_layers, layers.values())) > MOST_LAYERS:
        return None
    description = {"class": kind.__name__, "activation": activation[0], **layers}
    # A layer that someone has put in may look like ours and be another.
    alike = jax.tree.structure(build(description)) == jax.tree.structure(network)
    return description if alike else None


def _describe_layers(layers: Any) -> Any:
    if isinstance(layers, tuple):
        described = [_describe_layers(layer) for layer in layers]
        return None if None in described else described
    if type(layers) is ColumnReader:
        dense = layers.dense
        of_dense = {} if dense is None else {"dense": _describe_layers(dense)}
        return {"levels": list(layers.levels), "out": layers.bias.shape[-1], **of_dense}
    if type(layers) not in (eqx.nn.Linear, ColumnLinear):
        return None
    sizes = {"in": layers.in_features, "out": layers.out_features, "bias": layers.use_bias}
    if type(layers) is not ColumnLinear:
        return sizes
    return sizes | {"columns": list(layers.columns), "parts": list(layers.parts)}


def build(description: dict[str, Any]) -> PyTree:
    """A network of this description, with shapes where its arrays go."""
    name = take(description, "class", str)
    if name not in NETWORKS:
        raise ValueError(f"its header describes the network {name[:60]!r}, which scalemix has not.")
    kind = NETWORKS[name]
    activation = take(description, "activation", str)
    if activation not in ACTIVATIONS:
        raise ValueError(f"its header names the activation {activation[:60]!r}, which is unknown.")
    described = [take(description, field, (list, dict)) for field in kind.layer_fields]
    num = sum(map(_num_layers, described))
    if num > MOST_LAYERS:
        raise ValueError(
            f"its header describes a network of {num:,} layers, and files describe up to "
            f"{MOST_LAYERS:,}. {ADVICE}"
        )
    # Widths may differ from layer to layer, as those of a pruned network do, although the
    # constructor takes one for all: so the layers are put into the smallest network.
    layers = [_build_layers(part) for part in described]
    least = eqx.filter_eval_shape(kind, 1, 1, 1, 1, activation=ACTIVATIONS[activation], key=_key())
    return eqx.tree_at(
        lambda net: [getattr(net, field) for field in kind.layer_fields], least, layers
    )


def _num_layers(description: Any) -> int:
    return sum(map(_num_layers, description)) if isinstance(description, list) else 1


def _build_layers(description: Any) -> Any:
    if isinstance(description, list):
        return tuple(_build_layers(layer) for layer in description)
    if not isinstance(description, dict):
        raise ValueError("its header describes no layer where there must be one.")
    if "levels" in description:
        return _build_reader(description)
    sizes = [take(description, end, (int, str)) for end in ("in", "out")]
    if any(size != "scalar" and not (isinstance(size, int) and size >= 0) for size in sizes):
        raise ValueError(f"its header describes a layer of the sizes {str(sizes)[:60]}.")
    bias = take(description, "bias", bool)
    if "columns" not in description:
        return _linear(*sizes, bias)
    columns, parts = (take(description, name, list) for name in ("columns", "parts"))
    whole = all(type(number) is int for number in (*columns, *parts))
    if len(columns) != sizes[0] or not whole:
        raise ValueError(f"its header describes a layer of the columns {str(columns)[:60]}.")
    return eqx.filter_eval_shape(ColumnLinear, columns, sizes[1], parts, use_bias=bias, key=_key())


def _build_reader(description: dict[str, Any]) -> ColumnReader:
    levels, width = take(description, "levels", list), take(description, "out", int)
    if width < 0 or not all(type(num) is int and num >= 0 for num in levels) or not any(levels):
        raise ValueError(f"its header describes a layer of the levels {str(levels)[:60]}.")
    columns = range(len(levels))
    reader = eqx.filter_eval_shape(ColumnReader, columns, columns, levels, width, key=_key())
    if "dense" not in description:
        return reader
    dense = _build_layers(take(description, "dense", dict))
    if type(dense) is not ColumnLinear or len(reader.dense_places) != dense.in_features:
        raise ValueError("its header describes a layer that reads more or fewer numbers than come.")
    return eqx.tree_at(lambda layer: layer.dense, reader, dense)


@functools.lru_cache(maxsize=MOST_LAYERS)
def _linear(num_inputs: int | Literal["scalar"], num_outputs: int | Literal["scalar"], bias: bool):
    return eqx.filter_eval_shape(eqx.nn.Linear, num_inputs, num_outputs, use_bias=bias, key=_key())


@functools.cache
def _key() -> jax.ShapeDtypeStruct:
    """The shape and type of a key: nothing is drawn where only shapes are asked for."""
    return jax.eval_shape(jax.random.key, 0)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | jax.ShapeDtypeStruct)


def arrays_of(network: PyTree) -> dict[str, Any]:
    """The network's arrays by the names of their places."""
    return _by_name(network, _is_array)


def numbers_of(network: PyTree) -> dict[str, str]:
    """The plain numbers that the network holds where others hold arrays, by name, as text."""
    numbers = _by_name(network, lambda leaf: isinstance(leaf, bool | int | float))
    return {name: repr(number) for name, number in numbers.items()}


def settings_of(network: PyTree) -> dict[str, str]:
    """What the network's parts say in their fields beside arrays, by name, as text.

    These are plain values, such as a number of heads, and functions, which go by their names. Two
    networks that differ in them may have the same arrays.
    """
    settings: dict[str, str] = {}

    def visit(node: Any, name: str) -> None:
        if isinstance(node, eqx.Module):
            for field in dataclasses.fields(node):
                visit(getattr(node, field.name, None), f"{name}.{field.name}")
        elif isinstance(node, list | tuple):
            for i, each in enumerate(node):
                visit(each, f"{name}.{i}")
        elif isinstance(node, dict):
            for key, each in node.items():
                visit(each, f"{name}.{key}")
        elif isinstance(node, np.generic):
            # One number is written in one way, be it NumPy's or Python's.
            settings[name[1:]] = repr(node.item())
        elif isinstance(node, bool | int | float | str):
            settings[name[1:]] = repr(node)
        elif callable(node) and getattr(node, "__name__", "<lambda>") != "<lambda>":
            settings[name[1:]] = node.__name__

    visit(network, "")
    return settings


def check_settings(network: PyTree, settings: dict[str, Any]) -> None:
    """Raise `ValueError` if the network differs in a setting that both it and the file have."""
    for name, value in settings_of(network).items():
        theirs = settings.get(name, value)
        if theirs != value and not _same_number(theirs, value):
            raise ValueError(
                f"{name!r} is {str(theirs)[:60]} in the file and {value} in the network. {ADVICE}"
            )


def _same_number(one: Any, other: str) -> bool:
    """Whether two texts are one number, such as 1 and 1.0."""
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return False


def _by_name(network: PyTree, wanted: Callable[[Any], bool]) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(network)[0]:
        if not wanted(leaf):
            continue
        name = path_name(path)
        if name in leaves:
            raise ValueError(f"Two leaves of the network are called {name!r}. Rename one of them.")
        leaves[name] = leaf
    return leaves


def check(
    skeleton: PyTree,
    like: Mapping[str, Shaped],
    numbers: dict[str, str],
    facts: tuple[str, ...],
) -> None:
    """Raise `ValueError` unless the skeleton has these numbers and arrays, in shape and dtype."""
    ours, plain = arrays_of(skeleton), numbers_of(skeleton)
    for name in [*like, *ours]:
        if name not in ours or name not in like:
            has, lacks = ("file", "network") if name in like else ("network", "file")
            raise ValueError(f"the {has} has an array {name!r}, and the {lacks} has none. {ADVICE}")
        for what in facts:
            theirs, mine = getattr(like[name], what), getattr(_as_jax(ours[name]), what)
            if theirs != mine:
                raise ValueError(
                    f"the array {name!r} has the {what} {theirs} in the file and {mine} in the "
                    f"network. {ADVICE}"
                )
    for name in [*numbers, *plain]:
        if plain.get(name) != numbers.get(name):
            raise ValueError(
                f"{name!r} is {numbers.get(name)} in the file and {plain.get(name)} in the "
                f"network. {ADVICE}"
            )


def _as_jax(leaf: Any) -> Any:
    # NumPy arrays are in double precision by default; in a network they count as JAX takes them.
    if not isinstance(leaf, np.ndarray):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))


def fill(skeleton: PyTree, arrays: dict[str, Any]) -> PyTree:
    """The skeleton with these arrays in place of its own."""
    leaves, form = jax.tree_util.tree_flatten_with_path(skeleton)
    filled = [arrays[path_name(path)] if _is_array(leaf) else leaf for path, leaf in leaves]
    return jax.tree.unflatten(form, filled)
