"""The commands, in the order in which help lists them. None imports JAX before it runs."""

from typing import Annotated

import typer

from scalemix._versions import this_version
from scalemix.cli.demo import demo
from scalemix.cli.fit import fit
from scalemix.cli.info import info
from scalemix.cli.predict import evaluate, predict
from scalemix.cli.priors import priors
from scalemix.cli.prune import prune
from scalemix.cli.report import report
from scalemix.cli.reproduce import reproduce

app: typer.Typer = typer.Typer(
    name="scalemix",
    help="Neural networks that know what they do not know, from a table.",
    epilog="Exit codes: 0 fine, 2 bad input, 130 interrupted, 1 anything else.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in (demo, fit, predict, evaluate, report, prune, info, priors, reproduce):
    app.command()(_command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"scalemix {this_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of `scalemix` itself."""
