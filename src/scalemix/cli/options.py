"""Options that several commands take."""

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from scalemix.cli.unfolding import Command, unfolded
from scalemix.tables import InputError, TextFormat

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No remarks and no progress bar.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes all that is random: same seed, same result.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `scalemix fit` wrote.")
]
TABLES = (
    "CSV or other separated text (.gz too), Parquet, Excel (book.xlsx::sheet), a table of SQLite "
    "or DuckDB (shop.db::orders, sqlite:///shop.db?table=orders), or - for standard input."
)
DataFile = Annotated[str, typer.Argument(metavar="DATA", help=f"A table: {TABLES}")]

PANEL = "Reading text"
# For those who cannot type a tab.
SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}
TEXT_OPTIONS: dict[str, Any] = {
    "encoding": Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The encoding of a text file, such as cp1250. By default it is found.",
            rich_help_panel=PANEL,
        ),
    ],
    "separator": Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="What stands between cells: a character, or tab. By default it is found.",
            rich_help_panel=PANEL,
        ),
    ],
    "decimal": Annotated[
        Literal[".", ","] | None,
        typer.Option(
            help="What stands before the decimals of a number; the other may stand between "
            "thousands. By default it is found.",
            rich_help_panel=PANEL,
        ),
    ],
    "missing": Annotated[
        list[str] | None,
        typer.Option(
            metavar="MARK",
            help="What stands where a value is missing, such as -999 or unknown, besides empty "
            "cells, NA, N/A, NaN, null, none, nil, - and ?. May be repeated. A model remembers it.",
            rich_help_panel=PANEL,
        ),
    ],
}


def with_text_format(command: Command) -> Command:
    """The command with options on how to read text, in place of its argument `text`."""
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in TEXT_OPTIONS.items()
    ]
    return unfolded(command, "text", options, _gather)


def _gather(given: dict[str, Any]) -> TextFormat:
    said: str | None = given["separator"]
    separator = None if said is None else SEPARATORS.get(said, said)
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise InputError(f"--separator takes one character, or tab; got {said!r}.")
    missing = tuple(given["missing"] or ())
    return TextFormat(given["encoding"], separator, given["decimal"], missing=missing)
