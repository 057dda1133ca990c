"""The sizes that layers write down beside their arrays, corrected to the arrays that are left.

One rule for each layer type: (layer with its new arrays, layer as it was, the same with the places
that stay in place of arrays) -> new fields.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.columns import ColumnLinear, ColumnReader, renumbered
from scalemix.networks.cutting.graph import is_numeric

SizeRule = Callable[[Any, Any, Any], dict[str, Any]]


class Places(tuple[np.ndarray, ...]):
    """In place of an array: which places of each of its axes stay."""

    def parts(self, axis: int, num: int) -> int:
        """How many parts are left of as many equal parts of an axis."""
        return int(self[axis].reshape(num, -1).any(axis=1).sum())

    def as_marks(self, dtype: Any) -> Any:
        """An array that is one where all axes stay, and zero elsewhere."""
        return jnp.asarray(functools.reduce(np.logical_and.outer, self, np.True_), dtype)

    @classmethod
    def of_marks(cls, marks: Any) -> "Places":
        """The places at which such an array is not all zero."""
        on, axes = np.asarray(marks) != 0, range(np.ndim(marks))
        return cls(on.any(axis=tuple(o for o in axes if o != axis)) for axis in axes)


def _unless_scalar(old: Any, size: int) -> Any:
    return old if old == "scalar" else size


def _linear(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    *_, outputs, inputs = new.weight.shape
    return {
        "in_features": _unless_scalar(old.in_features, inputs),
        "out_features": _unless_scalar(old.out_features, outputs),
    }


def _conv(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    axis = -2 - old.num_spatial_dims
    groups = kept.weight.parts(axis, old.groups)
    filters, rows = new.weight.shape[axis], new.weight.shape[axis + 1]
    return {"groups": groups, "in_channels": rows * groups, "out_channels": filters}


def _attention(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    num_heads = kept.query_proj.weight.parts(-2, old.num_heads)
    return {
        "num_heads": num_heads,
        "query_size": new.query_proj.weight.shape[-1],
        "key_size": new.key_proj.weight.shape[-1],
        "value_size": new.value_proj.weight.shape[-1],
        "output_size": new.output_proj.weight.shape[-2],
        "qk_size": new.query_proj.weight.shape[-2] // num_heads,
        "vo_size": new.value_proj.weight.shape[-2] // num_heads,
    }


def _norm(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    # A stack of norms has the shape of each.
    return {} if new.weight is None else {"shape": new.weight.shape[-len(old.shape) :]}


def _group_norm(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    if new.weight is None:
        return {}
    return {"channels": new.weight.shape[0], "groups": kept.weight.parts(0, old.groups)}


def _batch_norm(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    return {} if new.weight is None else {"input_size": new.weight.shape[0]}


def _recurrent(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    return {"input_size": new.weight_ih.shape[-1], "hidden_size": new.weight_hh.shape[-1]}


def _embedding(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    tokens, size = new.weight.shape
    return {"num_embeddings": tokens, "embedding_size": size}


def _column_linear(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    stay = np.flatnonzero(kept.weight[-1])
    numbers = {"columns": old.columns, "parts": old.parts}
    return _linear(new, old, kept) | {
        name: renumbered([of[place] for place in stay]) for name, of in numbers.items()
    }


def _column_reader(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    stay = np.ones(len(old.levels), bool)
    if old.dense is not None:
        stay[old.dense_places] = kept.dense.weight[-1]
    return {"levels": tuple(np.array(old.levels)[stay].tolist())}


def _mlp(new: Any, old: Any, kept: Any) -> dict[str, Any]:
    # It says one width for all layers, which need not have one any more.
    widest = jax.tree.leaves(new.layers, is_leaf=lambda node: isinstance(node, eqx.nn.Linear))
    sizes = [layer.in_features for layer in widest[1:]]
    return {
        "in_size": _unless_scalar(old.in_size, widest[0].in_features),
        "width_size": max(sizes, default=old.width_size),
    }


# A rule holds for subclasses too.
SIZES: dict[type, SizeRule] = {
    eqx.nn.Linear: _linear,
    eqx.nn.Conv: _conv,
    eqx.nn.ConvTranspose: _conv,
    eqx.nn.MultiheadAttention: _attention,
    eqx.nn.LayerNorm: _norm,
    eqx.nn.RMSNorm: _norm,
    eqx.nn.GroupNorm: _group_norm,
    eqx.nn.BatchNorm: _batch_norm,
    eqx.nn.GRUCell: _recurrent,
    eqx.nn.LSTMCell: _recurrent,
    eqx.nn.Embedding: _embedding,
    eqx.nn.MLP: _mlp,
    ColumnLinear: _column_linear,
    ColumnReader: _column_reader,
}


def size_rule(layer: Any) -> SizeRule | None:
    """The rule of a layer's type, or of the nearest base class that has one."""
    return next((SIZES[base] for base in type(layer).__mro__ if base in SIZES), None)


def corrected(new: PyTree, old: PyTree, kept: PyTree) -> PyTree:
    """A network that has its new arrays already, its known sizes corrected from the inside out.

    `kept` is the old network with `Places` for arrays.
    """
    if isinstance(old, eqx.nn.Shared):
        # Sizes are those of the layers with all their weights; then what is tied goes again.
        whole = corrected(new(), old(), _shared(kept, old))
        blank = new.where(new.pytree)
        return with_fields(new, pytree=eqx.tree_at(new.where, whole, blank))
    if isinstance(old, eqx.Module):
        names = [field.name for field in dataclasses.fields(old) if hasattr(old, field.name)]
        parts = {n: corrected(*(getattr(each, n) for each in (new, old, kept))) for n in names}
        new, rule = with_fields(new, **parts), size_rule(old)
        return new if rule is None else with_fields(new, **rule(new, old, kept))
    if isinstance(old, tuple | list):
        parts = [corrected(*each) for each in zip(new, old, kept, strict=True)]
        return type(old)(*parts) if hasattr(old, "_fields") else type(old)(parts)
    if isinstance(old, dict):
        return {key: corrected(new[key], old[key], kept[key]) for key in old}
    return new


def _shared(kept: eqx.nn.Shared, old: eqx.nn.Shared) -> PyTree:
    """The places that stay in all layers, also where they are those of another array.

    How that one is turned, its own code says, which works on arrays alone.
    """

    def marks(array: Any, places: Any) -> Any:
        has_marks = isinstance(places, Places) and is_numeric(array)
        return places.as_marks(array.dtype) if has_marks else places

    marked = with_fields(kept, pytree=jax.tree.map(marks, old.pytree, kept.pytree))
    return jax.tree.map(lambda a: Places.of_marks(a) if eqx.is_array(a) else a, marked())


def with_fields(module: Any, **fields: Any) -> Any:
    """The module with other values of these fields; its constructor does not run again."""
    new = object.__new__(type(module))
    for field in dataclasses.fields(module):
        if hasattr(module, field.name):
            value = fields.get(field.name, getattr(module, field.name))
            object.__setattr__(new, field.name, value)
    return new
