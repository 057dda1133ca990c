"""What an interrupted fit leaves, and how to go on from there."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from scalemix.cli.console import complain
from scalemix.cli.models import check_output
from scalemix.tables import InputError


def checkpoints_of(checkpoint: Path) -> list[Path]:
    """The files in which a run may be kept, whether they exist or not."""
    # The trials that choose settings have a run of their own.
    return [checkpoint, checkpoint.with_name(f"{checkpoint.name}.trial")]


def check_checkpoint(checkpoint: Path, resume: bool) -> None:
    """Raise `InputError` if an earlier run left a checkpoint, unless it is to be continued."""
    check_output(checkpoint)
    with claimed(checkpoint):
        # Nobody else is at work on it.
        pass
    left = [path for path in checkpoints_of(checkpoint) if path.exists()]
    if left and not resume:
        raise InputError(
            f"{left[0]}: it is left from a run that was interrupted. Add --resume to continue that "
            f"run, or delete the file."
        )


@contextlib.contextmanager
def claimed(checkpoint: Path) -> Iterator[None]:
    """Keep a checkpoint for this process; an `InputError` if another one has it.

    What a process that ended has claimed is free again, however it ended.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(checkpoint.with_name(f"{checkpoint.name}.lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{checkpoint}: another run is writing it now. Wait for that one to end, or name "
            f"another file with --output, or with --checkpoint."
        ) from None
    try:
        yield
    finally:
        # As long as it is held, so that nobody can take hold of a file that is about to go.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def say_how_to_go_on(checkpoint: Path) -> None:
    """Say what was kept, and which command continues."""
    left = [path for path in checkpoints_of(checkpoint) if path.exists()]
    if not left:
        complain("Interrupted before there was anything to keep.")
        return
    arguments = [*sys.argv[1:], *(["--resume"] if "--resume" not in sys.argv else [])]
    complain(f"Interrupted. What was done is kept in {left[0]}; to go on:")
    complain(f"  scalemix {shlex.join(arguments)}")
