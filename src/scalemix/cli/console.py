"""What commands print: results to stdout, remarks and errors to stderr."""

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
    """The command, with each error as one line and an exit code of its own."""

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
    """Say what went wrong, on one line however long."""
    typer.echo(line, err=True)


class Terminal:
    """What a command prints: remarks on stderr unless quiet, and its outcome on stdout."""

    def __init__(self, *, quiet: bool, as_json: bool):
        self.quiet: bool = quiet
        self.as_json: bool = as_json

    @property
    def progress(self) -> bool | None:
        """Whether `fit` shows a bar: `None` lets it look for a terminal itself."""
        return False if self.quiet else None

    def note(self, line: str) -> None:
        """A remark on what was done, or on what is worth knowing."""
        if not self.quiet:
            typer.echo(line, err=True)

    def result(self, outcome: dict[str, Any], show: Callable[[], None]) -> None:
        """The outcome of the command: as JSON, or as `show` shows it."""
        if self.as_json:
            typer.echo(json.dumps(outcome, allow_nan=False))
        else:
            show()


def print_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    title: str | None = None,
) -> None:
    """Print a table to stdout; the columns `right` are aligned to the right.

    Cells are plain text: square brackets are no markup in it.
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
    # A file or a pipe has no width of its own, and should not have its words cut.
    width = None if sys.stdout.isatty() else 160
    Console(highlight=False, width=width).print(table)
