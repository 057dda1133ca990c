"""States on disk: written whole or not at all, read without executing anything."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scalemix._files import replacing

FORMAT = "scalemix checkpoint"
VERSION = 1


def write(path: Path, tree: Any, fingerprints: dict[str, str]) -> None:
    """Save the arrays of a tree, replacing any earlier file at once."""
    arrays: dict[str, Any] = {
        f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))
    }
    header = json.dumps({"format": FORMAT, "version": VERSION, "fingerprints": fingerprints})
    with replacing(path) as file:
        np.savez(file, header=np.frombuffer(header.encode(), np.uint8), **arrays)


def read(path: Path, like: Any, fingerprints: dict[str, str]) -> Any:
    """The tree, if the file is of the run with these fingerprints.

    `like` is a tree of the same form, from which shapes and types are checked.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes().decode())
            found = [file[f"leaf{i}"] for i in range(len(file.files) - 1)]
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError("it is of another program or version")
        theirs = dict(header["fingerprints"])
    except Exception as error:
        raise ValueError(
            f"{path} is not a checkpoint that can be read ({error}). Delete it to start afresh."
        ) from None
    differing = [name for name, value in fingerprints.items() if theirs.get(name) != value]
    leaves, treedef = jax.tree.flatten(like)
    fits = len(found) == len(leaves) and all(
        f.shape == np.shape(leaf) and f.dtype == leaf.dtype
        for f, leaf in zip(found, leaves, strict=True)
    )
    if differing or not fits:
        raise ValueError(
            f"{path} is a checkpoint of another run: not the same {' and '.join(differing)}. Pass "
            f"what that run was given, or delete the file to start afresh."
        )
    return jax.tree.unflatten(treedef, found)


def fingerprint(programs, data, num_rows, sets, schedule, keys) -> dict[str, str]:
    """Equal for two runs that are the same; where they differ, the name says in what."""
    engines, models = programs
    arrays, static = eqx.partition(models, eqx.is_array)
    return {
        "model": _digest(eqx.tree_pformat(static), jax.tree.leaves(arrays)),
        "data": _digest("", [*data, num_rows, sets]),
        "method": _digest(
            repr((engines, schedule)), jax.tree.leaves(eqx.filter(engines, eqx.is_array))
        ),
        "key": _digest("", [jax.random.key_data(keys)]),
    }


def _digest(description: str, arrays: list[Any]) -> str:
    # The address of a function says nothing about it and differs between processes.
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", description).encode())
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return digest.hexdigest()
