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
            help="table1, table2, figure1a, figure1b, figure2, all (of these), claims, or "
            "compression (of networks on MNIST)."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder of results and figures.")
    ] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Two splits, a few steps.")] = False,
    cpu_budget: Annotated[
        bool, typer.Option("--cpu-budget", help="Five splits and fewer steps: for two cores.")
    ] = False,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published",
            help="The tables in the paper's way: nothing tuned, shuffled splits. Has files of its "
            "own in the folder.",
        ),
    ] = False,
    at_once: Annotated[
        int | None,
        typer.Option(help="Programs under way at a time; four on a GPU if not given.", min=1),
    ] = None,
    sets: Annotated[
        str | None, typer.Option(help="Sets, with commas between; the seven if not given.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="A folder of further sets in the public layout.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="The file mnist.npz, for compression: not in the package.")
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
    from scalemix.reproduce.published import SETS
    from scalemix.reproduce.scores import MEASURES, summary

    asked = {"quick": quick, "cpu": cpu_budget, "as_published": as_published}
    if sum(asked.values()) > 1:
        raise InputError("--quick, --cpu-budget and --as-published are plans: give one of them.")
    if as_published and page is not None:
        raise InputError(
            "--page goes with the other plans: it shows results of --as-published if the folder "
            "has them."
        )
    chosen = next((name for name, wanted in asked.items() if wanted), "full")
    plan = work.PLANS[chosen]
    terminal = Terminal(quiet=quiet or as_json, as_json=as_json)
    if target == "compression":
        _compress(chosen, images, output, terminal)
        return
    if images is not None:
        raise InputError("--images goes with the target compression alone.")
    of_claims = target == "claims"
    try:
        content = work.reproduce(
            target, plan, output, sets=SETS if sets is None else sets.split(","),
            data_dir=data_dir, at_once=at_once, say=terminal.note, progress=terminal.progress,
        )  # fmt: skip
        if page is not None and of_claims:
            work.write_claims(content, page, output)
        elif page is not None:
            other = output / f"{work.PLANS['as_published'].file}.json"
            work.write_page(
                content, page, output, work.read_results(other) if other.exists() else None
            )
    except ValueError as error:
        raise InputError(str(error)) from None

    def show() -> None:
        rows = []
        if of_claims:
            for name, judged in work.judge_claims(content).items():
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


def _compress(plan: str, images: Path | None, output: Path, terminal: Terminal) -> None:
    from scalemix.reproduce import compression

    if plan not in compression.PLANS:
        raise InputError("compression has no --as-published: the sizes that others report stand.")
    try:
        content = compression.compress(compression.PLANS[plan], images, output, say=terminal.note)
    except ValueError as error:
        raise InputError(str(error)) from None
    compression.draw(content, output)

    def show() -> None:
        for name, results in content["networks"].items():
            typer.echo(name)
            print_table([*compression.HEAD], compression.results_table(name, results), right=(2,))
        typer.echo(f"Results, networks and figures: {output}")

    terminal.result(content, show)
