"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object to stdout, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No remarks and no progress bar.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes all that is random: same seed, same result.")]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `scalemix fit` wrote.")
]
DataFile = Annotated[Path, typer.Argument(metavar="DATA", help="A table: CSV or Parquet.")]
