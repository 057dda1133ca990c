"""The model of a file: its network, its priors, its likelihood, each checked."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.model.assembly import assemble
from scalemix.model.model import Model
from scalemix.posterior.storage import priors, skeletons
from scalemix.posterior.storage.arrays import FileArrays, check_finite
from scalemix.posterior.storage.container import take

# No example has more axes than this.
MOST_AXES = 32


def read_model(
    header: dict[str, Any], arrays: FileArrays, lead: tuple[int, ...], network: PyTree | None
) -> Model:
    """The model, its arrays with the leading axes `lead`, or a `ValueError`.

    `network` stands in for one whose code the file does not hold.
    """
    entry = take(header, "network", dict)
    stacked: dict[str, Array] = {
        name: arrays.tree(place) for name, place in take(entry, "arrays", dict).items()
    }
    like = {
        name: jax.ShapeDtypeStruct(without_lead(lead, array.shape, name), array.dtype)
        for name, array in stacked.items()
    }
    facts = ("shape", "dtype")
    if network is None:
        build = take(entry, "build", (dict, type(None)))
        if build is None:
            raise ValueError(
                f"a file holds no code, and its network is of the class "
                f"{take(entry, 'class', str)[:60]!r} or has an activation that is not in jax.nn. "
                f"{skeletons.ADVICE}"
            )
        # It is built in the default precision, whatever that of the file.
        network, facts = skeletons.build(build), ("shape",)
        built = skeletons.arrays_of(network)
        if any(_is_real(like[name]) != _is_real(built[name]) for name in like.keys() & built):
            raise ValueError("its network holds whole numbers where weights must be.")
    skeletons.check(network, like, take(entry, "numbers", dict), facts)
    # Files of earlier versions have none.
    skeletons.check_settings(network, take({"settings": {}, **entry}, "settings", dict))
    own = skeletons.arrays_of(network)
    for name, array in stacked.items():
        check_finite(name, array, own[name])
    structures = take(header, "structures", dict)
    model = assemble(
        skeletons.fill(network, like),
        {name: priors.decode_structure(part, lead) for name, part in structures.items()},
        priors.decode_likelihood(take(header, "likelihood", dict), lead),
        example=_read_example(header),
        frozen=_read_frozen(header, like),
    )
    return eqx.tree_at(lambda m: m.network, model, skeletons.fill(network, stacked))


def _is_real(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jnp.floating)


def without_lead(lead: tuple[int, ...], shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape of an array for one member."""
    if shape[: len(lead)] != lead:
        raise ValueError(f"the array {name!r} has not one entry for each of {lead[0]} members.")
    return shape[len(lead) :]


def _read_example(header: dict[str, Any]) -> PyTree:
    # Files of earlier versions have none.
    entry = take({"example": None, **header}, "example", (dict, type(None)))
    return None if entry is None else _read_inputs(entry)


def _read_inputs(entry: dict[str, Any], depth: int = 0) -> PyTree:
    if depth > MOST_AXES:
        raise ValueError("the example is nested too deeply.")
    if "dict" in entry or "tuple" in entry:
        parts = entry.get("dict", entry.get("tuple"))
        values = list(parts.values()) if isinstance(parts, dict) else parts
        if not isinstance(values, list) or not all(isinstance(part, dict) for part in values):
            raise ValueError("the parts of its example are none.")
        read = [_read_inputs(part, depth + 1) for part in values]
        return dict(zip(parts, read, strict=True)) if isinstance(parts, dict) else tuple(read)
    shape, dtype = take(entry, "shape", list), take(entry, "dtype", str)
    if len(shape) > MOST_AXES or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("the shape of its example is none.")
    try:
        return jax.ShapeDtypeStruct(tuple(shape), jax.dtypes.canonicalize_dtype(dtype))
    except TypeError:
        raise ValueError(f"the type of its example is {dtype[:60]!r}, which is none.") from None


def _read_frozen(header: dict[str, Any], arrays: dict[str, Any]) -> tuple[str, ...]:
    # Files of earlier versions have none.
    names = take({"frozen": [], **header}, "frozen", list)
    unknown = [name for name in names if not isinstance(name, str) or name not in arrays]
    if unknown:
        raise ValueError(f"it speaks of a frozen array {str(unknown[0])[:60]!r}, and has none.")
    return tuple(names)
