"""`scalemix fit`."""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from scalemix._text import listing
from scalemix.cli.checkpoints import (
    check_checkpoint,
    checkpoints_of,
    claimed,
    say_how_to_go_on,
)
from scalemix.cli.class_weights import check_class_weights, read_class_weights
from scalemix.cli.console import Terminal, guarded
from scalemix.cli.figures import named_figures, print_figures
from scalemix.cli.interrupts import INTERRUPTED
from scalemix.cli.models import TableModel, check_output
from scalemix.cli.options import DataFile, Debug, Json, Quiet, Seed, with_text_format
from scalemix.cli.settings import with_settings
from scalemix.cli.sources import Source
from scalemix.cli.streaming import TableInParts
from scalemix.cli.training import WholeTable, build_recipe
from scalemix.data.bins import Bins
from scalemix.data.values import MOST_CALIBRATING
from scalemix.fitting.settings import TARGET_NAMES, Task, scales_by_column
from scalemix.tables import InputError, Table, TextFormat, read_table
from scalemix.tables.addresses import parse_address
from scalemix.tables.arrow_tables import ArrowTables, find_large
from scalemix.tables.reading import STANDARD_INPUT
from scalemix.tables.targets import without_missing

TABLE, LONG = "The table", "Long runs"


@guarded
@with_text_format
@with_settings
def fit(
    *,
    data: DataFile,
    target: Annotated[
        list[str],
        typer.Option(
            "--target",
            "-t",
            help="The column to predict. Several columns of numbers may be given, as a,b or by "
            "repeating the option: one network then predicts them all.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the model.")
    ] = Path("model.scalemix"),
    task: Annotated[
        Literal["auto", Task],
        typer.Option(help="Numbers or classes; auto looks at the target."),
    ] = "auto",
    observed: Annotated[
        list[str] | None,
        typer.Option(
            help="For a target that is a time: the column that says whether it was observed to "
            "the end (1, true, yes) or goes on (0, false, no). One for each target.",
        ),
    ] = None,
    missing_target: Annotated[
        Literal["error", "drop"],
        typer.Option(help="Refuse rows without a target, or leave them out and say how many."),
    ] = "error",
    class_weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="balanced|CLASS=NUMBER",
            help="How many rows a row of a class counts as in training, such as yes=3; may be "
            "repeated. With balanced, all classes count the same together. Probabilities are then "
            "those of a table with so many rows of each.",
        ),
    ] = None,
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
            help="A column to use though it numbers the rows, or is text that is different in most "
            "of them. May be repeated.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    bins: Annotated[
        str,
        typer.Option(
            metavar="auto|none|INTEGER",
            help="Up to so many extra inputs for each column of numbers, which let networks bend "
            "where its values lie. With auto, numbers that many rows share have inputs as well, "
            "and held-out rows that choose among settings also decide whether to use them.",
            rich_help_panel=TABLE,
        ),
    ] = "auto",
    date_order: Annotated[
        Literal["dmy", "mdy"] | None,
        typer.Option(
            help="Whether the day or the month comes first in dates such as 03/04/2024, where no "
            "row of a column tells.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Read a Parquet or Arrow table part by part while training, in bounded memory. "
            "Folders, Arrow files and large tables are read like that without being asked.",
            rich_help_panel=LONG,
        ),
    ] = False,
    text: TextFormat,
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

    Dates become days, words are one-hot encoded or, if they are many, looked up, and networks are
    told where a number is missing. The command says what it did, and the file remembers it.
    """
    terminal = Terminal(quiet=quiet, as_json=as_json)
    for path in (output, report):
        if path is not None:
            check_output(path, data)
    checkpoint = checkpoint or output.with_name(f"{output.name}.checkpoint")
    check_checkpoint(checkpoint, resume)
    address = parse_address(data)
    large = None
    if not address.is_stdin:
        large = find_large(
            address.path, always=stream, missing=text.missing, decimal=text.decimal
        )  # fmt: skip
    words = (*(categorical or ()), *(ignore or ()))
    table = large or read_table(data, text, words=words)
    names = _find_targets(list(table.columns), target)
    times = _check_observed(names, observed or (), settings)
    drop, weights = missing_target == "drop", read_class_weights(class_weight or ())
    if isinstance(table, ArrowTables) and settings["inference"] == "mcmc":
        raise InputError(
            f"{data}: --inference mcmc needs all rows in memory, and this table is read in parts. "
            f"Use --inference em or noise, or a file of fewer rows without --stream."
        )
    if drop:
        whole = isinstance(table, Table)
        table, num = without_missing(table, names) if whole else table.without_missing(names)
        if num:
            have = "row has" if num == 1 else "rows have"
            terminal.note(f"{num:,} {have} no target, and {'is' if num == 1 else 'are'} left out")
    num_apart = min(round(calibration * table.num_rows), MOST_CALIBRATING)
    source = Source(
        _name_of(data), table.digest, table.num_rows, holdout, seed, num_apart,
        table.text.encoding, table.text.decimal, dict(table.text.decimals),
        streamed=isinstance(table, ArrowTables), missing=table.text.missing,
    )  # fmt: skip
    if source.counts[0] < 1:
        raise InputError(f"{data}: --holdout and --calibration together leave no rows to train on.")
    asked = {
        "observed": times, "task": _find_task(task, settings["target"]), "ignore": ignore or (),
        "use": use or (), "bins": _read_bins(bins), "categorical": categorical or (),
        "date_order": date_order,
        "look_up": scales_by_column(*(settings[n] for n in ("inference", "mixture", "prior"))),
    }  # fmt: skip
    if isinstance(table, Table):
        rows = WholeTable(table, source, weights)
    else:
        rows = TableInParts(
            table, names, source, categorical or (), terminal, words=words, class_weights=weights
        )
    columns = rows.columns(names, **asked)
    said = dataclasses.replace(columns.target, kind=settings["target"], drop_missing=drop)
    columns = dataclasses.replace(columns, target=said)
    check_class_weights(weights, columns.target)
    recipe = build_recipe(columns.target.task, settings)
    if bins == "auto" and not recipe.can_choose_bins(source.counts[0]):
        columns = columns.without_bins()
    for line in (*rows.remarks, *columns.describe()):
        terminal.note(line)
    started = time.monotonic()
    with claimed(checkpoint):
        try:
            fitted = rows.train(recipe, columns, terminal, checkpoint, resume)
        except KeyboardInterrupt:
            say_how_to_go_on(checkpoint)
            raise typer.Exit(INTERRUPTED) from None
        # The other settings are those of the recipe.
        of_table = {"bins": bins, "calibration": calibration}
        fitted = dataclasses.replace(fitted, settings=fitted.settings | of_table)
        fitted.save(output)
        for path in checkpoints_of(checkpoint):
            path.unlink(missing_ok=True)
    terminal.note(f"model: {output} ({time.monotonic() - started:.0f} s)")
    if report is not None:
        from scalemix.cli.report import write

        # The remarks on the table have been made above.
        write(report, fitted, rows.reported, Terminal(quiet=True, as_json=as_json))
        terminal.note(f"report: {report}")
    _show(terminal, output, report, fitted)


def _find_targets(columns: Sequence[str], said: Sequence[str]) -> list[str]:
    """The columns to predict: a comma separates two of them, unless it is part of a name."""
    names = [
        name.strip()
        for each in said
        for name in ([each] if each in columns or "," not in each else each.split(","))
    ]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"--target {twice[0]} is given twice.")
    return names


def _check_observed(
    names: Sequence[str], observed: Sequence[str], settings: dict[str, Any]
) -> Sequence[str]:
    """The columns that say whether times were observed to the end, which makes targets times."""
    if not observed:
        return ()
    if settings["target"] not in ("real", "time"):
        raise InputError(f"--observed is about times, and --target-kind {settings['target']} not.")
    if len(observed) != len(names):
        raise InputError(
            f"--observed takes one column for each target: got {listing(observed)} for "
            f"{listing(names)}."
        )
    settings["target"] = "time"
    return observed


def _name_of(data: str) -> str:
    """What to call a table that was read from there."""
    address = parse_address(data)
    if address.is_stdin:
        return str(STANDARD_INPUT)
    return address.path.name + ("" if address.table is None else f"::{address.table}")


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


def _read_bins(said: str) -> Bins:
    if said in ("auto", "none"):
        return "auto" if said == "auto" else None
    if not said.isdecimal() or int(said) < 2:
        raise InputError(
            f"--bins must be auto, none or a whole number of at least 2, got {said!r}."
        )
    return int(said)


def _show(terminal: Terminal, output: Path, report: Path | None, fitted: TableModel) -> None:
    names = fitted.columns.target.names
    rows, held = fitted.source.counts
    outcome = {
        "model": str(output),
        "report": None if report is None else str(report),
        "task": fitted.columns.target.task,
        "rows": {"trained": rows, "held_out": held},
        "figures": fitted.figures,
        **named_figures(names, fitted.by_target),
        "columns": fitted.columns.to_json(),
        "settings": fitted.settings,
    }

    def show() -> None:
        if held:
            print_figures(fitted.figures, fitted.by_target, names, f"{held:,} held-out rows")
        else:
            typer.echo("No rows were held out, so there are no figures.")

    terminal.result(outcome, show)
