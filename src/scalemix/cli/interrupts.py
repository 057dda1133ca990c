"""Ctrl-C: that it is not lost, and that nothing crashes after it."""

import _thread
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

# What a shell says of a program that was interrupted.
INTERRUPTED = 130


def run_interruptible(app: Callable[[], Any]) -> None:
    """Run the command line until it ends or is interrupted."""
    sys.unraisablehook = interrupt_again
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # Threads of XLA may still compile or compute, and do not bear to have the interpreter
            # taken down below them.
            for stream in (sys.stdout, sys.stderr):
                # Who read it may be gone, and no error may come before the exit.
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(INTERRUPTED)
        raise


def interrupt_again(told: Any) -> None:
    """Interrupt once more where an interrupt came at a place that no error can leave.

    Such are the callbacks of Python's garbage collector, of which JAX has one.
    """
    if issubclass(told.exc_type, KeyboardInterrupt):
        threading.Timer(0.05, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(told)
