"""What identifies a run: a digest for each setting, so that a difference has a name."""

import dataclasses
from typing import Any

import jax

from scalemix.inference.digests import arrays_digest, digest


def fingerprint(programs: Any, data: list[Any], held_out: Any, keys: Any) -> dict[str, str]:
    """Equal for two runs that are the same; where they differ, the name says in what.

    `data` are arrays. How many steps a run has, and on which batches, follows from its settings
    and its data.
    """
    method, model = programs
    return {
        "method": digest(type(method), "method"),
        **_settings(method),
        "model": digest(model, "model"),
        "data": arrays_digest(data),
        "held-out data": arrays_digest(jax.tree.leaves(held_out)),
        "key": arrays_digest([jax.random.key_data(keys)]),
    }


def _settings(method: Any, within: str = "") -> dict[str, str]:
    """A digest for each field, and for each field of a method within the method."""
    digests = {}
    for field in dataclasses.fields(method):
        name, value = f"{within}{field.name}", getattr(method, field.name)
        nested = dataclasses.is_dataclass(value) and not isinstance(value, type)
        digests[name] = digest(type(value) if nested else value, name)
        if nested:
            digests |= _settings(value, f"{name}.")
    return digests
