"""Many methods and models as one: their arrays stacked on a leading axis."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.model.model import Model


class SideBySide(NamedTuple):
    """Methods and models of several fits.

    Arrays have a leading axis, the fits. Everything else is the same for all of them.
    """

    methods: Any
    models: Any


def stack_fits(methods: Sequence[Any], models: Sequence[Model]) -> SideBySide:
    """Methods and models on a leading axis.

    The numbers of priors, likelihoods and methods become arrays, so that another value of one is
    not another program. A difference in anything else is a `ValueError`.
    """
    fits = [_with_arrays(*fit) for fit in zip(methods, models, strict=True)]
    parts = [eqx.partition(fit, _is_array) for fit in fits]
    static = parts[0][1]
    shapes = jax.tree.map(jnp.shape, parts[0][0])
    for i, (arrays, other) in enumerate(parts):
        if not eqx.tree_equal(static, other) or jax.tree.map(jnp.shape, arrays) != shapes:
            what = "model" if eqx.tree_equal(static.methods, other.methods) else "method"
            known = _difference(other.models, static.models)
            raise ValueError(
                f"Fits that run together must be of one kind: {what} {i} differs from {what} 0 in "
                + (
                    f"{known}. Fit them one by one."
                    if known is not None
                    else "its network, its frozen arrays, its structures or its likelihood."
                    if what == "model"
                    else "more than its learning rate, temperature or objective."
                )
            )
    stacked = jax.tree.map(
        # Not `asarray`, which compiles a program for every shape.
        lambda *leaves: jax.device_put(np.stack([np.asarray(leaf) for leaf in leaves])),
        *(arrays for arrays, _ in parts),
    )
    return eqx.combine(stacked, static)


def _difference(model: Model, other: Model) -> str | None:
    """The first plain value that two models do not share, by its name; `None` if there is none.

    Most numbers are arrays, and may differ. Those that decide on a program are not, such as whole
    degrees of freedom.
    """
    (leaves, tree), (others, other_tree) = (
        jax.tree_util.tree_flatten_with_path(each) for each in (model, other)
    )
    if tree != other_tree:
        return None
    for (path, value), (_, beside) in zip(leaves, others, strict=True):
        if isinstance(value, int | float | str) and value != beside:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            return f"{name}: {value!r}, and not {beside!r}"
    return None


def take(tree: PyTree, rows: int | slice) -> PyTree:
    """The entries of a tree whose arrays are stacked on a leading axis."""
    on_device, rest = eqx.partition(tree, lambda leaf: isinstance(leaf, jax.Array))
    if isinstance(rows, int):
        # One program for all arrays and all entries.
        on_device = _entry(on_device, np.int32(rows))
    else:
        on_device = jax.tree.map(lambda leaf: leaf[rows], on_device)
    # Arrays of the host stay there.
    rest = jax.tree.map(lambda leaf: leaf[rows] if isinstance(leaf, np.ndarray) else leaf, rest)
    return eqx.combine(on_device, rest)


@jax.jit
def _entry(arrays: PyTree, which: Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[which], arrays)


def _with_arrays(method: Any, model: Model) -> SideBySide:
    dtype = next(iter(model.weights.values())).dtype

    def arrays_of(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda v: np.asarray(v, dtype) if isinstance(v, float) else v, tree)

    model = eqx.tree_at(
        lambda m: (m.structures, m.likelihood),
        model,
        arrays_of((model.structures, model.likelihood)),
    )
    return SideBySide(arrays_of(method), model)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray)
