"""The file itself: arrays in the safetensors format, with a JSON header and digests of both.

A file is what `safetensors` defines, so that other tools can look at the arrays. Its metadata hold
one entry, `scalemix`, a JSON dict of four texts: `format`, `version`, `header` (JSON again) and
`sha256`, the digest of the three before it. The header lists every array with its type, its shape
and the digest of its bytes. The digests find damage and careless edits; they are no signature.
Against ill will the defence is that nothing in a file is ever executed or imported, and that
nothing is allocated which the file does not contain.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import safetensors
from safetensors.numpy import save

from scalemix._files import replacing

FORMAT = "scalemix posterior"
VERSION = 1
# What the safetensors library itself accepts.
LARGEST_HEADER = 100_000_000

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype(np.uint16),
    "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(jnp.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}
NAMES = {dtype.name for dtype in DTYPES.values()}


def write(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a file of this content, replacing any earlier one at once."""
    packed = {name: np.asarray(array, order="C") for name, array in sorted(arrays.items())}
    for name, array in packed.items():
        if array.dtype.name not in NAMES:
            raise ValueError(
                f"The array {name!r} is of the type {array.dtype}, which files do not hold. They "
                f"hold {', '.join(sorted(NAMES))}."
            )
    listed = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": _digest(array)}
        for name, array in packed.items()
    }
    content = {"scalemix": this_version(), "arrays": listed, **header}
    text = json.dumps(content, allow_nan=False)
    sealed = {"format": FORMAT, "version": str(VERSION), "header": text}
    sealed["sha256"] = _seal(*sealed.values())
    # One entry: the library writes several in any order, and equal posteriors give equal files.
    whole = save(packed, {"scalemix": json.dumps(sealed)})
    with replacing(path) as file:
        file.write(whole)


@contextlib.contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn whatever the content of a file leads to into one `ValueError` that names the file."""
    try:
        yield
    except OSError:
        # The disk, not the content: it says itself what is wrong, and names the file.
        raise
    except ValueError as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from None
    except Exception as error:
        # Not foreseen, but a file is data, and data must not raise what they like.
        raise ValueError(
            f"{path} cannot be loaded: its content makes no sense ({type(error).__name__}: "
            f"{error}). It is damaged, or was not written by scalemix."
        ) from error


def read_header(path: Path) -> dict[str, Any]:
    """The header alone, checked against its digest."""
    _check_file(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        return _parse_header(start + file.read(_header_length(start, size)), size)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays, each checked against its digest."""
    _check_file(path)
    content = path.read_bytes()
    header = _parse_header(content, len(content))
    try:
        found = dict(safetensors.deserialize(content))
    except safetensors.SafetensorError as error:
        raise ValueError(f"it is damaged or cut short ({error}).") from None
    listed = take(header, "arrays", dict)
    if listed.keys() != found.keys():
        name = sorted(listed.keys() ^ found.keys())[0]
        raise ValueError(f"it is damaged: its header and its arrays differ at {name!r}.")
    arrays = {}
    for name, entry in found.items():
        dtype = DTYPES.get(entry["dtype"])
        promised = take(listed, name, dict)
        if dtype is None or take(promised, "dtype", str) != dtype.name:
            raise ValueError(f"the array {name!r} is not of the type that the header says.")
        if take(promised, "shape", list) != list(entry["shape"]):
            raise ValueError(f"the array {name!r} has not the shape that the header says.")
        array = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
        if take(promised, "sha256", str) != _digest(array):
            raise ValueError(f"the array {name!r} is not what was written: the file is damaged.")
        arrays[name] = array
    return header, arrays


def take(mapping: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """An entry of the header, which must be there and of this kind."""
    if name not in mapping:
        raise ValueError(f"its header has no entry {name!r}.")
    value = mapping[name]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # JSON's true is not a number here, though Python's is.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"its header's entry {name!r} is {_short(value)}, which it cannot be.")
    return value


def this_version() -> str:
    """The version of scalemix that runs."""
    try:
        return importlib.metadata.version("scalemix")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _check_file(path: Path) -> None:
    # Not a folder, and not a pipe or a device, which may never end.
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file.")


def _header_length(start: bytes, size: int) -> int:
    foreign = ValueError("it is not a file that scalemix wrote, or it was cut short.")
    if len(start) < 8:
        raise foreign
    (length,) = struct.unpack("<Q", start)
    if length > min(size - 8, LARGEST_HEADER):
        raise foreign
    return length


def _parse_header(start: bytes, size: int) -> dict[str, Any]:
    length = _header_length(start[:8], size)
    try:
        outer = _parse(start[8 : 8 + length])
        sealed = _parse(outer["__metadata__"]["scalemix"].encode())
        kind, version, text, seal = (
            sealed[name] for name in ("format", "version", "header", "sha256")
        )
        if kind != FORMAT:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("it is not a file that scalemix wrote, or it is damaged.") from None
    if version != str(VERSION):
        raise ValueError(
            f"it is of version {str(version)[:20]} of the format, and scalemix {this_version()} "
            f"reads version {VERSION}. Upgrade scalemix."
        )
    if not isinstance(text, str) or seal != _seal(kind, version, text):
        raise ValueError("its header is not what was written: the file is damaged.")
    header = _parse(text.encode())
    if not isinstance(header, dict):
        raise ValueError("its header is not a dict.")
    return header


def _parse(text: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"its header holds {constant}, which is no JSON.")

    return json.loads(text.decode(), parse_constant=refuse)


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _seal(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
