"""`scalemix fit`."""

import dataclasses
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from scalemix.cli.checkpoints import check_checkpoint, checkpoints_of, say_how_to_go_on
from scalemix.cli.console import INTERRUPTED, Terminal, guarded, print_table
from scalemix.cli.models import Source, TableModel, check_output
from scalemix.cli.options import DataFile, Debug, Json, Quiet, Seed
from scalemix.cli.settings import with_settings
from scalemix.cli.training import build_recipe, train
from scalemix.data.bins import Bins
from scalemix.data.values import MOST_CALIBRATING
from scalemix.fitting.settings import TARGET_NAMES, Task
from scalemix.tables import InputError, learn_columns, read_table
from scalemix.tables.targets import without_missing

TABLE, LONG = "The table", "Long runs"


@guarded
@with_settings
def fit(
    *,
    data: DataFile,
    target: Annotated[str, typer.Option("--target", "-t", help="The column to predict.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the model.")
    ] = Path("model.scalemix"),
    task: Annotated[
        Literal["auto", Task],
        typer.Option(help="Numbers or classes; auto looks at the target."),
    ] = "auto",
    missing_target: Annotated[
        Literal["error", "drop"],
        typer.Option(help="Refuse rows without a target, or leave them out and say how many."),
    ] = "error",
    holdout: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="Share of rows held out, to measure predictions on."),
    ] = 0.1,
    calibration: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.9,
            help="Share of rows, up to 10,000, kept apart for `predict --conformal`.",
        ),
    ] = 0.0,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of labels that look like numbers. May be repeated.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A column not to use. May be repeated.", rich_help_panel=TABLE),
    ] = None,
    use: Annotated[
        list[str] | None,
        typer.Option(
            help="A column to use though it numbers the rows. May be repeated.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    bins: Annotated[
        str | None,
        typer.Option(
            metavar="INTEGER|auto",
            help="Up to so many extra inputs for each column of numbers, which let networks bend "
            "where its values lie. With auto, held-out rows decide whether to use them.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    settings: dict[str, Any],
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Where to keep an unfinished run; beside the model if not given.",
            rich_help_panel=LONG,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from there.", rich_help_panel=LONG)
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Also write an HTML report to this file.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit networks to a table and save them as one file.

    Dates become days, words are one-hot encoded, and networks are told where a number is missing.
    The command says what it did, and the file remembers it.
    """
    terminal = Terminal(quiet=quiet, as_json=as_json)
    for path in (output, report):
        if path is not None:
            check_output(path, data)
    checkpoint = checkpoint or output.with_name(f"{output.name}.checkpoint")
    check_checkpoint(checkpoint, resume)
    table = read_table(data)
    drop = missing_target == "drop"
    if drop:
        table, num_missing = without_missing(table, target)
        if num_missing:
            terminal.note(f"{num_missing:,} rows have no target, and are left out")
    num_apart = min(round(calibration * table.num_rows), MOST_CALIBRATING)
    source = Source(data.name, table.digest, table.num_rows, holdout, seed, num_apart)
    if source.counts[0] < 1:
        raise InputError(f"{data}: --holdout and --calibration together leave no rows to train on.")
    columns = learn_columns(
        table, target, task=_find_task(task, settings["target"]), categorical=categorical or (),
        ignore=ignore or (), use=use or (), rows=source.split()[0], bins=_read_bins(bins),
    )  # fmt: skip
    said = dataclasses.replace(columns.target, kind=settings["target"], drop_missing=drop)
    columns = dataclasses.replace(columns, target=said)
    recipe = build_recipe(columns.target.task, settings)
    if bins == "auto" and not recipe.can_choose_bins:
        columns = columns.without_bins()
    for line in (*table.remarks, *columns.describe()):
        terminal.note(line)
    started = time.monotonic()
    try:
        fitted = train(recipe, table, columns, source, terminal, checkpoint, resume)
    except KeyboardInterrupt:
        say_how_to_go_on(checkpoint)
        raise typer.Exit(INTERRUPTED) from None
    fitted.save(output)
    for path in checkpoints_of(checkpoint):
        path.unlink(missing_ok=True)
    terminal.note(f"model: {output} ({time.monotonic() - started:.0f} s)")
    if report is not None:
        from scalemix.cli.report import write

        # The remarks on the table have been made above.
        write(report, fitted, table, Terminal(quiet=True, as_json=as_json))
        terminal.note(f"report: {report}")
    _show(terminal, output, report, fitted)


def _find_task(task: Literal["auto", Task], kind: str) -> Task | None:
    """The task as far as options say it: kinds of targets other than real ones are numbers."""
    if kind not in TARGET_NAMES:
        raise InputError(f"--target-kind must be one of {', '.join(TARGET_NAMES)}; got {kind!r}.")
    if kind == "real":
        return None if task == "auto" else task
    if task == "classification":
        raise InputError(
            f"--target-kind {kind} is about numbers, and --task classification is not."
        )
    return "regression"


def _read_bins(said: str | None) -> Bins:
    if said is None or said == "auto":
        return said
    if not said.isdecimal() or int(said) < 2:
        raise InputError(f"--bins must be auto or a whole number of at least 2, got {said!r}.")
    return int(said)


def _show(terminal: Terminal, output: Path, report: Path | None, fitted: TableModel) -> None:
    from scalemix.analysis.evaluation import MEASURES

    rows, held = fitted.source.counts
    outcome = {
        "model": str(output),
        "report": None if report is None else str(report),
        "task": fitted.columns.target.task,
        "rows": {"trained": rows, "held_out": held},
        "figures": fitted.figures,
        "columns": fitted.columns.to_json(),
        "settings": fitted.settings,
    }

    def show() -> None:
        if held:
            print_table(
                ["", f"{held:,} held-out rows"],
                [(MEASURES[n].label, MEASURES[n].show(v)) for n, v in fitted.figures.items()],
                right=[1],
            )
        else:
            typer.echo("No rows were held out, so there are no figures.")

    terminal.result(outcome, show)
