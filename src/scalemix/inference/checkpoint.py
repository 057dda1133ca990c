"""Checkpoints: written whole or not at all, read without executing anything.

A checkpoint is an uncompressed npz file: a header in JSON, and the leaves of the state by number.
The header holds the digest of each setting, and the versions that the file was written with.
"""

import contextlib
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np

from scalemix._files import replacing
from scalemix._versions import in_words, versions
from scalemix._warnings import warn

FORMAT = "scalemix checkpoint"
VERSION = 4
# Version 1 knew an optimiser by the name of its functions. These two of its digests still hold.
READ_BY_VERSION_1 = ("data", "key")
# Version 2 knew this package's classes by their modules, which have moved since. These digests,
# which depend on classes, no longer hold.
LOST_SINCE_VERSION_2 = ("method", "model", "warm_start")
# Version 3 is of a time when training met its rows in another order.
LARGEST_HEADER = 2**20
# Differences that one message lists.
MOST_NAMED = 8


class ResumeWarning(UserWarning):
    """A run that was to continue need not be bit for bit the one that was interrupted.

    Other versions of this library or its dependencies have begun it, or there is no checkpoint and
    it starts from the beginning.
    """


def check_files(paths: Sequence[Path], resume: bool) -> None:
    """Raise `ValueError` if one of a run's files cannot be used; warn if none is there to resume.

    The run itself would find the last of them only when it gets there.
    """
    there = [path for path in paths if can_resume(path, resume)]
    if resume and not there:
        warn(
            f"resume=True, but there is no checkpoint {paths[0]}: the run starts from the "
            f"beginning.",
            ResumeWarning,
        )


def can_resume(path: Path, resume: bool) -> bool:
    """Whether there is a run to continue at this path; `ValueError` if the path cannot be used."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give checkpoint= the path of a file.")
    if path.exists() and not resume:
        raise ValueError(f"{path} exists. Pass resume=True to continue that run, or delete it.")
    return path.exists()


def write(path: Path, tree: Any, fingerprints: dict[str, str]) -> None:
    """Save the arrays of a tree, replacing any earlier file at once."""
    arrays: dict[str, Any] = {
        f"leaf{i}": np.asarray(leaf, order="C") for i, leaf in enumerate(jax.tree.leaves(tree))
    }
    header = {
        "format": FORMAT,
        "version": VERSION,
        "versions": _environment(),
        "fingerprints": fingerprints,
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with replacing(path) as file:
        np.savez(file, header=text, **arrays)


def read(path: Path, like: Any, fingerprints: dict[str, str]) -> Any:
    """The tree, if the file is of the run with these fingerprints.

    `like` is a tree of the same form, by which shapes and types are checked before any array is
    read: nothing is allocated that the run would not have.
    """
    leaves, treedef = jax.tree.flatten(like)
    with _opened(path) as file:
        _check_sizes(file, path.stat().st_size)
        version, theirs, written = _parse_header(_read_header(file))
    _compare(path, version, theirs, written, fingerprints)
    with _opened(path) as file:
        num_held = len(file.infolist()) - 1
        # Checkpoints of training in version 1 lack the last field.
        if len(leaves) - num_held not in ((0, 1) if version == 1 else (0,)):
            raise ValueError("it does not hold the arrays of this run")
        held = [_read_array(file, f"leaf{i}", leaf) for i, leaf in enumerate(leaves[:num_held])]
    return jax.tree.unflatten(treedef, [*held, *leaves[num_held:]])


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The open file. Any error that its content leads to becomes a `ValueError` with its name."""
    try:
        with path.open("rb") as raw, zipfile.ZipFile(raw) as file:
            yield file
    except Exception as error:
        raise ValueError(
            f"{path} is not a checkpoint that can be read ({error}). Delete it to start afresh."
        ) from None


def _check_sizes(file: zipfile.ZipFile, size: int) -> None:
    """Refuse a file that unpacks to more than its own length, for ours are not compressed."""
    entries = file.infolist()
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if packed or sum(entry.file_size for entry in entries) > size:
        raise ValueError("it is compressed, and checkpoints are not")


def _read_header(file: zipfile.ZipFile) -> bytes:
    entry = file.getinfo("header.npy")
    if entry.file_size > LARGEST_HEADER:
        raise ValueError("its header is too long")
    with file.open(entry) as content:
        shape, dtype = _read_form(content)
        if len(shape) != 1 or dtype != np.uint8:
            raise ValueError("its header is no text")
        text = content.read()
    if len(text) != shape[0]:
        raise ValueError("its header is cut short")
    return text


def _parse_header(text: bytes) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """The format's version, the digests, and the versions that the file was written with."""
    header = json.loads(text.decode())
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError("it is of another program")
    version, theirs = header.get("version"), header.get("fingerprints")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise ValueError("it is of a later version of scalemix")
    written = {} if version == 1 else header.get("versions")
    if not isinstance(theirs, dict) or not isinstance(written, dict):
        raise ValueError("its header is damaged")
    return version, theirs, written


def _compare(
    path: Path, version: int, theirs: dict[str, Any], written: dict[str, Any], ours: dict[str, str]
) -> None:
    """Refuse the checkpoint of another run, and warn of one that other versions have begun."""
    names = READ_BY_VERSION_1 if version == 1 else dict.fromkeys([*ours, *theirs])
    if version == 2:
        names = [name for name in names if name not in LOST_SINCE_VERSION_2]
    differing = [name for name in names if theirs.get(name) != ours.get(name)]
    here = _environment()
    changed = [name for name in {**written, **here} if written.get(name) != here.get(name)]
    then = in_words({name: str(written[name])[:40] for name in changed if name in written})
    now = in_words({name: here[name] for name in changed if name in here})
    told = f"It was written with {then or 'less'}, and this is {now or 'less'}."
    if differing:
        # Code of the same text need not be the same code under another version.
        hint = f" {told}" if written and changed else ""
        if version == 1 and "data" in differing:
            hint = (
                " Or they are the same, and this version prepares them otherwise than the earlier "
                "one that wrote the file, so that the run cannot go on."
            )
        named = ", ".join(name[:40] for name in differing[:MOST_NAMED])
        raise ValueError(
            f"{path} is a checkpoint of another run: not the same {named}."
            f"{hint} Pass what that run was given, or delete the file to start afresh."
        )
    if version < 3:
        unknown = "optimizer and other settings" if version == 1 else "model and method"
        told = (
            f"It is of an earlier version of scalemix, and does not say with which {unknown} it "
            f"was begun: make sure that they are the same."
        )
    elif version < VERSION:
        told = (
            "It is of an earlier version of scalemix, in which training met rows in another order."
        )
    if changed or version < VERSION:
        warn(
            f"{path}: {told} The run goes on from there, but need not be bit for bit the one that "
            f"was not interrupted.",
            ResumeWarning,
        )


def _environment() -> dict[str, str]:
    """Everything outside the run that may change what comes out of it."""
    return {**versions(), "backend": jax.default_backend()}


def _read_array(file: zipfile.ZipFile, name: str, like: Any) -> np.ndarray:
    """The array, read only if its shape and type are those of `like`."""
    with file.open(f"{name}.npy") as content:
        shape, dtype = _read_form(content)
        if shape != np.shape(like) or dtype != np.dtype(like.dtype):
            raise ValueError(f"{name} is {dtype}{list(shape)}, which this run does not have")
        # A copy, because a run fills its histories in place.
        return np.frombuffer(content.read(), dtype).reshape(shape).copy()


def _read_form(content: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and type in an array's header, before its content is read."""
    if np.lib.format.read_magic(content) != (1, 0):
        raise ValueError("an array is of another format")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(content)
    if by_columns and len(shape) > 1:
        raise ValueError("an array is not in the order of its rows")
    return shape, dtype
