"""Files that are written whole or not at all."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:
    # On Windows an open file cannot be removed, and what a crash has left stays there.
    fcntl = None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes this name, and replaces any earlier file, at the end.

    It is complete and on the disk before it gets the name, so that a crash or a full disk leaves
    the earlier file as it was. Unfinished files of the same name from killed processes are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    part, file = _create_part(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                # Renamed while locked: once unlocked, it would be taken for abandoned.
                os.replace(part, path)
        if fcntl is None:
            os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _create_part(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside the one that it will become, locked for as long as it is open.

    The system releases the lock when the process dies, however it dies.
    """
    while True:
        # In the same folder: renaming is atomic only within one file system.
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        file = part.open("xb")
        if fcntl is None:
            return part, file
        # A file system without locks refuses them to those who would remove the part, too.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        # Before it was locked, another writer may have removed it as abandoned.
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()


def _remove_abandoned(path: Path) -> None:
    """Remove the unfinished files of this name that nobody writes to any more."""
    if fcntl is None:
        return
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.part")
    for entry in os.listdir(path.parent):
        if not ours.fullmatch(entry):
            continue
        part = path.with_name(entry)
        # An error means that its writer still holds the lock, has just renamed it, or is not ours.
        with contextlib.suppress(OSError), part.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()
