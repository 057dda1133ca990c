"""What commands print: results to stdout, remarks and errors to stderr."""

import functools
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

from scalemix.cli.interrupts import INTERRUPTED
from scalemix.tables import InputError

# Numbers, and what is in quotes.
NUMBERS = re.compile(r"(?P<quoted>'[^']*'|\"[^\"]*\")|\d+")
BAD_INPUT, UNEXPECTED = 2, 1
# Which extra of scalemix brings a package.
EXTRAS = {
    "arviz": "mcmc", "blackjax": "mcmc", "flatbuffers": "export", "matplotlib": "plot",
    "openpyxl": "excel", "pyarrow": "parquet", "rich": "cli", "sklearn": "sklearn",
}  # fmt: skip


class FailedError(Exception):
    """What was asked for did not work out, though nothing is wrong with the input or the code."""


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
            if known or isinstance(error, FailedError):
                complain(f"Error: {_one_line(error)}")
            elif isinstance(error, ImportError) and (remedy := _remedy(error)):
                complain(f"Error: {remedy}")
            else:
                complain(f"Unexpected {type(error).__name__}: {_one_line(error)}")
                complain("This may be a bug in scalemix; --debug shows where it came from.")
            raise typer.Exit(BAD_INPUT if known else UNEXPECTED) from None

    return run


def _remedy(error: ImportError) -> str | None:
    """What to install, where a part of scalemix needs more than was installed with it."""
    if "pip install" in str(error):
        return _one_line(error)
    package = (error.name or "").split(".")[0]
    if package not in EXTRAS:
        return None
    extra = EXTRAS[package]
    return f'this needs {package}, which is not installed: pip install "scalemix[{extra}]"'


def _one_line(error: BaseException) -> str:
    said = error.with_options() if isinstance(error, InputError) else str(error)
    return " ".join(said.split()) or type(error).__name__


def complain(line: str) -> None:
    """Say what went wrong, on one line however long."""
    typer.echo(line, err=True)


def at_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


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

    def saying_once(self) -> "Terminal":
        """The same, but for remarks that differ from earlier ones in nothing but counts."""
        return _Once(quiet=self.quiet, as_json=self.as_json)

    def result(self, outcome: dict[str, Any], show: Callable[[], None]) -> None:
        """The outcome of the command: as JSON, or as `show` shows it."""
        if self.as_json:
            typer.echo(json.dumps(outcome, allow_nan=False))
        else:
            show()


class _Once(Terminal):
    def __init__(self, *, quiet: bool, as_json: bool):
        super().__init__(quiet=quiet, as_json=as_json)
        self._said: set[str] = set()

    def note(self, line: str) -> None:
        # What stands in quotes is the name of a column, or what is in its cells.
        said = NUMBERS.sub(lambda match: match["quoted"] or "", line)
        if said not in self._said:
            self._said.add(said)
            super().note(line)


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
