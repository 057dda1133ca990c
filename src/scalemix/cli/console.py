"""What commands say. Results go to stdout; what was done on the way goes to stderr."""

import functools
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

from scalemix.tables import InputError

BAD_INPUT, INTERRUPTED, UNEXPECTED = 2, 130, 1


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors as one line and an exit code that means something."""

    @functools.wraps(command)
    def run(*args: Any, debug: bool = False, **kwargs: Any) -> None:
        try:
            command(*args, debug=debug, **kwargs)
        except (typer.Exit, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            complain("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if debug:
                traceback.print_exc()
            known = isinstance(error, InputError | OSError)
            if known:
                complain(f"Error: {_one_line(error)}")
            elif isinstance(error, ImportError):
                complain(f'{_one_line(error)}. Try: pip install "scalemix[cli]"')
            else:
                complain(f"Unexpected {type(error).__name__}: {_one_line(error)}")
                complain("This may be a bug in scalemix; --debug shows where it came from.")
            raise typer.Exit(BAD_INPUT if known else UNEXPECTED) from None

    return run


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def complain(line: str) -> None:
    """Say what went wrong, on a line of its own however long."""
    typer.echo(line, err=True)


class Terminal:
    """Where a command's words go: nowhere if it is to be quiet, never in the way of `--json`."""

    def __init__(self, *, quiet: bool, as_json: bool):
        self.quiet, self.as_json = quiet, as_json

    @property
    def progress(self) -> bool | None:
        """Whether to show a bar, for `fit`: on a terminal, unless quiet."""
        return False if self.quiet else None

    def note(self, line: str) -> None:
        """Something that was done, or that is worth knowing."""
        if not self.quiet:
            typer.echo(line, err=True)

    def result(self, found: dict[str, Any], show: Callable[[], None]) -> None:
        """The outcome: as JSON, or as `show` shows it."""
        if self.as_json:
            typer.echo(json.dumps(found, allow_nan=False))
        else:
            show()


def print_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    title: str | None = None,
) -> None:
    """A table on stdout, the columns `right` with their ends below each other.

    Cells are text as it stands: square brackets mean nothing in it.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=None if title is None else Text(title), title_justify="left", box=box.SIMPLE_HEAD,
        show_header=any(head),
    )  # fmt: skip
    for i, name in enumerate(head):
        table.add_column(Text(name), overflow="fold", justify="right" if i in right else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # A file or a pipe has no width, and whoever reads it wants whole words.
    width = None if sys.stdout.isatty() else 160
    Console(highlight=False, width=width).print(table)
