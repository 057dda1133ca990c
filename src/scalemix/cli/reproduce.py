"""`scalemix reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from scalemix.cli.console import Terminal, guarded, print_table
from scalemix.cli.options import Debug, Json, Quiet
from scalemix.tables import InputError


@guarded
def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help="table1, table2, figure1a, figure1b, figure2, all (of these), or claims."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder of results and figures.")
    ] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Two splits, a few steps.")] = False,
    cpu_budget: Annotated[
        bool, typer.Option("--cpu-budget", help="Five splits and fewer steps: for two cores.")
    ] = False,
    sets: Annotated[
        str | None, typer.Option(help="Sets, with commas between; the seven if not given.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="A folder of further sets in the public layout.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the page about the results to this file.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Reproduce the tables, figures and claims of the paper. Finished cells of tables are kept."""
    from scalemix import reproduce as work
    from scalemix.reproduce.page import MEASURES, summary
    from scalemix.reproduce.published import SETS

    if quick and cpu_budget:
        raise InputError("--quick and --cpu-budget are two plans: give one of them.")
    plan = work.PLANS["quick" if quick else "cpu" if cpu_budget else "full"]
    terminal = Terminal(quiet=quiet or as_json, as_json=as_json)
    try:
        content = work.reproduce(
            target, plan, output, sets=SETS if sets is None else sets.split(","),
            data_dir=data_dir, say=terminal.note, progress=terminal.progress,
        )  # fmt: skip
    except ValueError as error:
        raise InputError(str(error)) from None
    of_claims = target == "claims"
    if page is not None:
        (work.write_claims if of_claims else work.write_page)(content, page, output)

    def show() -> None:
        rows = []
        if of_claims:
            for name, judged in work.verdicts(content).items():
                rows += [(name, "holds" if v.holds else "does not", v.words) for v in judged]
            print_table(["claim", "", ""], rows)
            return
        for name, cell in content["cells"].items():
            figures = (summary(cell, measure) for measure in MEASURES)
            rows.append((name, *(f"{mean:.3f} ({error:.3f})" for mean, error in figures)))
        if rows:
            print_table(["cell", *MEASURES.values()], rows, right=(1, 2, 3))
        typer.echo(f"Results and figures: {output}")

    terminal.result(content, show)
