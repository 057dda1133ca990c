"""The file itself: arrays in the safetensors format, with a JSON header and digests of both.

Other tools that read `safetensors` can look at the arrays. The metadata of a file have one entry,
`scalemix`, a JSON dict of four texts: `format`, `version`, `header` (JSON again) and `sha256`, the
digest of the first three. The header lists every array with its type, its shape and the digest of
its bytes. The digests detect damage and careless edits; they are no signature. The defence against
malicious files is that nothing in a file is ever executed or imported, that the header is checked
first, and that nothing is read or allocated beyond the length of the file and the limits below.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save

from scalemix._files import replacing
from scalemix._versions import this_version, versions

FORMAT = "scalemix posterior"
VERSION = 1
# Bytes: what the safetensors library itself accepts.
LARGEST_HEADER = 100_000_000
# Values of JSON, each of which takes many times the memory of its text.
MOST_VALUES = 1_000_000
MOST_ARRAYS = 10_000
# The most axes that NumPy has.
MOST_AXES = 64
LONGEST_AXIS = 2**48
# How other files begin: pickles, and within so many bytes the compiled functions of JAX.
PICKLE, COMPILED, PEEKED = re.compile(rb"\x80[\x02-\x05]"), b"ML\xefR", 2**16

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


def to_bytes(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The content of a file that holds this header and these arrays, or a `ValueError`."""
    if len(arrays) > MOST_ARRAYS:
        raise ValueError(f"Files hold up to {MOST_ARRAYS:,} arrays, and these are {len(arrays):,}.")
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
    content = {"scalemix": this_version(), "versions": versions(), "arrays": listed, **header}
    text = json.dumps(content, allow_nan=False)
    sealed = {"format": FORMAT, "version": str(VERSION), "header": text}
    sealed["sha256"] = _seal(*sealed.values())
    # One entry: the library writes several in any order, and equal posteriors give equal files.
    whole = save(packed, {"scalemix": json.dumps(sealed)})
    start = whole[8 : 8 + struct.unpack("<Q", whole[:8])[0]]
    if len(start) > LARGEST_HEADER or _num_values(start) > MOST_VALUES:
        raise ValueError(
            f"Besides arrays, files hold up to {MOST_VALUES:,} values and {LARGEST_HEADER:,} "
            f"characters. Save less as metadata."
        )
    return whole


def write(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a file of this content, replacing any earlier one at once."""
    whole = to_bytes(header, arrays)
    with replacing(path) as file:
        file.write(whole)


@contextlib.contextmanager
def explaining(source: str | Path) -> Iterator[None]:
    """Turn every error that the content of a file causes into one `ValueError`, which names it."""
    try:
        yield
    except OSError:
        # The disk is at fault, not the content; the error names the file itself.
        raise
    except ValueError as error:
        raise ValueError(f"{source} cannot be loaded: {error}") from None
    except Exception as error:
        # Unforeseen, but whatever a file contains, reading it raises `ValueError`.
        raise ValueError(
            f"{source} cannot be loaded: its content makes no sense ({type(error).__name__}: "
            f"{error}). It is damaged, or was not written by scalemix."
        ) from error


class _Place(NamedTuple):
    """Where the bytes of an array are in the file, and what they mean."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, Any]:
    """The header alone, checked against its digest and against the length of the file."""
    _check_file(path)
    with path.open("rb") as file:
        return _read_start(file, os.fstat(file.fileno()).st_size)[0]


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays, each checked against its digest."""
    _check_file(path)
    with path.open("rb") as file:
        return _read_all(file, os.fstat(file.fileno()).st_size)


def from_bytes(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file with this content, checked in the same way."""
    return _read_all(io.BytesIO(content), len(content))


def _read_all(file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header, places = _read_start(file, size)
    arrays = {}
    for name, place in places.items():
        file.seek(place.start)
        content = file.read(place.end - place.start)
        if header["arrays"][name].get("sha256") != hashlib.sha256(content).hexdigest():
            raise ValueError(f"the array {name!r} is not what was written: the file is damaged.")
        arrays[name] = np.frombuffer(content, place.dtype).reshape(place.shape)
    return header, arrays


def _read_start(file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, _Place]]:
    """The header and the places of the arrays, none of which has been read yet."""
    length = _header_length(file, size)
    header, outer = _parse_header(file.read(length))
    return header, _find_arrays(header, outer, 8 + length, size)


def _find_arrays(
    header: dict[str, Any], outer: dict[str, Any], start: int, size: int
) -> dict[str, _Place]:
    """The places of the arrays, which follow one another and fill the rest of the file."""
    listed = take(header, "arrays", dict)
    entries = {name: entry for name, entry in outer.items() if name != "__metadata__"}
    if listed.keys() != entries.keys():
        name = sorted(listed.keys() ^ entries.keys())[0]
        raise ValueError(f"it is damaged: its header and its arrays differ at {name[:60]!r}.")
    if len(entries) > MOST_ARRAYS:
        raise ValueError(f"it holds {len(entries):,} arrays, more than {MOST_ARRAYS:,}.")
    places = {name: _find_array(name, entries[name], listed[name], start) for name in entries}
    places = dict(sorted(places.items(), key=lambda item: item[1][:2]))
    end = start
    for place in places.values():
        if place.start != end:
            raise ValueError("it is damaged: its arrays do not follow one another.")
        end = place.end
    if end != size:
        raise ValueError(f"it is damaged or cut short: {size:,} bytes, where {end:,} should be.")
    return places


def _find_array(name: str, entry: Any, promised: Any, start: int) -> _Place:
    if not isinstance(entry, dict) or not isinstance(promised, dict):
        raise ValueError(f"what it says of the array {name[:60]!r} makes no sense.")
    dtype = DTYPES.get(take(entry, "dtype", str))
    if dtype is None or take(promised, "dtype", str) != dtype.name:
        raise ValueError(f"the array {name!r} is not of the type that the header says.")
    shape = take(entry, "shape", list)
    if take(promised, "shape", list) != shape:
        raise ValueError(f"the array {name!r} has not the shape that the header says.")
    whole = all(type(axis) is int and 0 <= axis <= LONGEST_AXIS for axis in shape)
    if not whole or len(shape) > MOST_AXES:
        raise ValueError(f"the array {name!r} has the shape {_short(shape)}, which none has.")
    offsets = take(entry, "data_offsets", list)
    if len(offsets) != 2 or not all(type(offset) is int and offset >= 0 for offset in offsets):
        raise ValueError(f"what it says of the array {name[:60]!r} makes no sense.")
    if offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"the array {name!r} has not the size that its shape says.")
    return _Place(start + offsets[0], start + offsets[1], dtype, tuple(shape))


def take(mapping: dict[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """An entry of the header, or a `ValueError` if it is missing or of another kind."""
    if name not in mapping:
        raise ValueError(f"its header has no entry {name!r}.")
    value = mapping[name]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # In Python, but not here, JSON's true is a number.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"its header's entry {name!r} is {_short(value)}, which it cannot be.")
    return value


def _check_file(path: Path) -> None:
    # A folder has no content; a pipe or a device may never end.
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file.")


def _header_length(file: BinaryIO, size: int) -> int:
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
    if length > min(size - 8, LARGEST_HEADER):
        raise ValueError(_what_else(start + file.read(PEEKED)))
    return length


def _what_else(start: bytes) -> str:
    """What a file is that does not begin as those of posteriors do, and what reads it."""
    if PICKLE.match(start):
        return (
            "it is not a file that scalemix wrote but a pickle, such as joblib.dump makes of an "
            "estimator. joblib.load reads it; that executes what is in it, so trust its source."
        )
    if COMPILED in start:
        return (
            "it is not a posterior but a function, such as Posterior.export writes. "
            "jax.export.deserialize(path.read_bytes()).call(x) runs it."
        )
    return (
        "it is not a file that scalemix wrote, or it was cut short. What joblib.dump wrote is read "
        "by joblib.load, and what Posterior.export wrote by jax.export.deserialize."
    )


def _parse_header(text: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Our own header, and that of the format around it."""
    if _num_values(text) > MOST_VALUES:
        raise ValueError(f"its header holds more than {MOST_VALUES:,} values.")
    try:
        outer = _parse(text)
        sealed = _parse(outer["__metadata__"]["scalemix"].encode())
        kind, version, inner, seal = (
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
    if not isinstance(inner, str) or seal != _seal(kind, version, inner):
        raise ValueError("its header is not what was written: the file is damaged.")
    header = _parse(inner.encode())
    if not isinstance(header, dict):
        raise ValueError("its header is not a dict.")
    return header, outer


def _parse(text: bytes) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"its header holds {constant}, which is no JSON.")

    return json.loads(text.decode(), parse_constant=refuse)


def _num_values(text: bytes) -> int:
    """How many values a JSON text has at most."""
    return 1 + sum(text.count(mark) for mark in (b",", b"[", b"{"))


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _seal(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
