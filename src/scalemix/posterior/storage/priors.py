"""Structures, mixtures, bases and likelihoods as JSON, and back.

Classes are found by name in the tables of `classes.py`, and nowhere else.
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix.bases import Base
from scalemix.likelihoods import Likelihood
from scalemix.mixtures import ScaleMixture
from scalemix.posterior.storage.arrays import to_jax
from scalemix.posterior.storage.classes import (
    BASE_CLASSES,
    LIKELIHOOD_CLASSES,
    MIXTURE_CLASSES,
    STRUCTURE_CLASSES,
)
from scalemix.posterior.storage.container import take
from scalemix.structures import Structure

# JSON has no numbers for these.
WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
# Fields of structures that the first files did not have. A file leaves them out where they have
# their defaults.
LATER = ("base", "by")


def encode(part: Structure | ScaleMixture | Base | Likelihood) -> dict[str, Any]:
    """A structure, mixture, base or likelihood: its class and its fields."""
    tables = STRUCTURE_CLASSES, MIXTURE_CLASSES, BASE_CLASSES, LIKELIHOOD_CLASSES
    if not any(type(part) in table.values() for table in tables):
        raise ValueError(
            f"{type(part).__name__} is a class of your own, and files hold only those of scalemix, "
            f"for nothing in a file is ever executed. Save the network's arrays yourself "
            f"(equinox.tree_serialise_leaves), or propose the class to scalemix."
        )
    values = ((f, getattr(part, f.name)) for f in dataclasses.fields(part))
    fields = {
        f.name: _encode_value(value)
        for f, value in values
        if f.name not in LATER or value != f.default
    }
    return {"class": type(part).__name__, **fields}


def _encode_value(value: Any) -> Any:
    if isinstance(value, ScaleMixture | Base | Likelihood):
        return encode(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        # Several words, such as who shares a scale.
        return list(value)
    if isinstance(value, float):
        return _encode_number(value)
    array = np.asarray(value)
    wide = array.astype(np.float64)
    numbers = [_encode_number(number) for number in wide.reshape(-1).tolist()]
    return {"dtype": array.dtype.name, "values": numbers if array.ndim else numbers[0]}


def _encode_number(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def decode_structure(description: Any, lead: tuple[int, ...]) -> Structure:
    """The structure that was encoded; `lead` is the shape of its parameters, the members."""
    kind, fields = _lookup(description, STRUCTURE_CLASSES, "structure")
    values = {}
    for name, value in fields.items():
        if isinstance(value, dict) and "class" in value:
            table, what = (BASE_CLASSES, "base") if name == "base" else (MIXTURE_CLASSES, "mixture")
            part, parameters = _lookup(value, table, what)
            numbers = {n: _parameter(v, n, lead) for n, v in parameters.items()}
            values[name] = part(**numbers)
        elif name == "by":
            values[name] = take(fields, name, (str, list))
        elif value is not None:
            values[name] = _parameter(value, name, lead)
    return kind(**values)


def decode_likelihood(
    description: Any, lead: tuple[int, ...], each: tuple[int, ...] = ()
) -> Likelihood:
    """The likelihood that was encoded, with what was learned in it.

    `each` is the shape of what one member learned: it has one entry for each of several targets.
    """
    kind, fields = _lookup(description, LIKELIHOOD_CLASSES, "likelihood")
    static = {f.name for f in dataclasses.fields(kind) if f.metadata.get("static")}
    values: dict[str, Any] = {name: take(fields, name, (bool, int)) for name in static}
    for name, value in fields.items():
        if name == "likelihood":
            num = values.get("num_targets")
            values[name] = decode_likelihood(value, lead, each if num is None else (*each, num))
        elif name not in static:
            mine = (*each, *kind.learned_shape(values)) if name in kind.learned else ()
            shape = (*lead, *mine)
            values[name] = _parameter(value, name, shape)
    learned = {name: values.pop(name) for name in kind.learned}
    if "floor" in values:
        # The file does not hold where learning started; any value above the floor will do.
        values["scale"] = 2 * values["floor"] + 1.0
    likelihood = kind(**values)
    for name, value in learned.items():
        if not isinstance(value, Array) or not np.isfinite(value).all():
            raise ValueError(f"{name} of {kind.__name__} is no finite number of some precision.")
        likelihood = eqx.tree_at(lambda part, n=name: getattr(part, n), likelihood, value)
    return likelihood


def _lookup(description: Any, table: dict[str, type], what: str) -> tuple[type, dict[str, Any]]:
    if not isinstance(description, dict):
        raise ValueError(f"its header describes no {what} where there must be one.")
    name = take(description, "class", str)
    if name not in table:
        raise ValueError(f"its header names the {what} {name[:60]!r}, which scalemix has not.")
    kind = table[name]
    fields = {key: value for key, value in description.items() if key != "class"}
    wanted = [field.name for field in dataclasses.fields(kind)]
    given = [*fields, *(name for name in LATER if name in wanted and name not in fields)]
    if sorted(given) != sorted(wanted):
        raise ValueError(
            f"its header gives {name} the fields {', '.join(fields)[:200] or 'none'}; it has "
            f"{', '.join(wanted) or 'none'}."
        )
    return kind, fields


def _parameter(value: Any, name: str, shape: tuple[int, ...]) -> float | Array:
    if not isinstance(value, dict):
        return _decode_number(value, name)
    dtype, numbers = take(value, "dtype", str), take(value, "values", (list, int, float, str))
    if dtype not in ("float16", "bfloat16", "float32", "float64"):
        raise ValueError(f"the parameter {name!r} is of the type {dtype[:20]!r}.")
    flat = numbers if isinstance(numbers, list) else [numbers]
    wide = np.array([_decode_number(number, name) for number in flat], np.float64)
    if isinstance(numbers, list) != bool(shape) or wide.size != math.prod(shape):
        raise ValueError(f"the parameter {name!r} has not one number for each member.")
    with np.errstate(over="ignore"):
        exact = wide.astype(jnp.dtype(dtype))
    if not np.array_equal(exact.astype(np.float64), wide, equal_nan=True):
        raise ValueError(f"the parameter {name!r} holds a number that no {dtype} is.")
    return to_jax(exact.reshape(shape), name)


def _decode_number(value: Any, name: str) -> float:
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"the parameter {name!r} is no number.")
    return float(value)


def in_words(description: dict[str, Any]) -> str:
    """`ARD(HalfCauchy(scale=1))` for the encoded thing, without building it."""
    shown = []
    for name, value in description.items():
        if name == "class" or value is None:
            continue
        if isinstance(value, dict) and "class" in value:
            text = in_words(value)
            shown.append(text if name == "mixture" else f"{name}={text}")
            continue
        if isinstance(value, dict):
            value = value.get("values")
        # Members differ only in what they learned; elsewhere one number stands for all.
        numbers = value if isinstance(value, list) else [value]
        texts = dict.fromkeys(f"{n:.4g}" if isinstance(n, float) else str(n) for n in numbers)
        shown.append(f"{name}={' / '.join(texts)}")
    return f"{description.get('class')}({', '.join(shown)})"
