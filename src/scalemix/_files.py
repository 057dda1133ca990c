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
    # On Windows nobody can remove a file that someone has open; parts of crashes stay there.
    fcntl = None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes this name, and the place of any earlier file, at the end.

    It is complete, and on the disk, before it gets the name; a crash or a full disk leaves the
    earlier file as it was. What a killed process has left of such files of the same name goes.
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
                # While it is locked: unlocked, it would be taken for abandoned.
                os.replace(part, path)
        if fcntl is None:
            os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _create_part(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside the one that it is to become, locked for as long as it is open.

    The system takes a lock from a process that dies, however it dies.
    """
    while True:
        # In the same folder, for a file gets a new name in one go only within a file system.
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        file = part.open("xb")
        if fcntl is None:
            return part, file
        # A file system without locks has none for those who would remove the part either.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        # Between its creation and the lock another writer may have taken it for abandoned.
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()


def _remove_abandoned(path: Path) -> None:
    """Remove the parts of this file that nobody writes to any more."""
    if fcntl is None:
        return
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.part")
    for entry in os.listdir(path.parent):
        if not ours.fullmatch(entry):
            continue
        part = path.with_name(entry)
        # Whoever has it locked is still writing; or it has just got its name, or is not ours.
        with contextlib.suppress(OSError), part.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()
