"""Files that are written whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes this name, and the place of any earlier file, at the end.

    It is complete, and on the disk, before it gets the name; a crash or a full disk leaves the
    earlier file as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, for a file gets a new name in one go only within a file system.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
