"""`scalemix prune`."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from scalemix._text import counted
from scalemix.cli.console import FailedError, Terminal, at_terminal, guarded
from scalemix.cli.models import as_input_errors, check_output, read_model
from scalemix.cli.options import Debug, Json, ModelFile, Quiet, with_text_format
from scalemix.tables import InputError, TextFormat

UNMEASURED = (
    "Predictions may change, and how much cannot be measured without rows: --data names a table "
    "that has some"
)


@guarded
@with_text_format
def prune(
    *,
    model: ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the smaller model.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="A table on which to measure how predictions change; needs no target."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, help="Signal to noise below which a unit is off.")
    ] = 0.01,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --data: remove the least relevant first, and only as long as predictions "
            "change by no more than this share of their spread.",
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Go ahead, however much predictions change."),
    ] = False,
    text: TextFormat,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Remove the units and layers that the prior switched off, and save the smaller model.

    The new file has no figures: `scalemix evaluate` measures it on a table. Nor is it calibrated
    for `predict --conformal`. Where predictions for --data would change by more than 1% of their
    spread, or by more than --tolerance, it asks first. Without --data nobody knows how much they
    change, and it asks before it removes anything. Where nobody can be asked it stops, with exit
    code 2, unless --yes is given.
    """
    from scalemix.analysis.sizes import UNNOTICED
    from scalemix.posterior.pruning.measures import rows_differ

    terminal = Terminal(quiet=quiet, as_json=as_json)
    check_output(output, model, data)
    if tolerance is not None and data is None:
        raise InputError("--tolerance is about predictions, and needs --data to make them.")
    fitted = read_model(model)
    x = None
    if data is not None:
        x, remarks, *_ = fitted.encode(fitted.read(data, text))
        for remark in remarks:
            terminal.note(remark)
        if not rows_differ(x):
            raise InputError(
                f"{data}: no two rows differ, and predictions of one row have no spread to measure "
                f"their change by. Give --data more rows, such as those of training."
            )
    with as_input_errors(), warnings.catch_warnings():
        # A remark below says the same, by the names of options.
        warnings.simplefilter("ignore", UserWarning)
        pruned = fitted.posterior.prune(x, threshold=threshold, tolerance=tolerance)
    change, (before, after) = pruned.report.mean_change, pruned.report.num_stored
    some_off = any(off for off, _ in pruned.report.rows_off.values())
    if change is None and (some_off or before != after):
        _ask(UNMEASURED, yes)
    elif change is not None and not change <= max(UNNOTICED, tolerance or 0):
        _ask(
            f"Predictions would change by up to {change:.1%} of their spread (measured on the "
            f"{counted(0 if x is None else len(x), 'row')} of {data}). With --tolerance "
            f"{UNNOTICED:g} less is removed, and they change by no more than that",
            yes,
        )
    smaller = dataclasses.replace(
        fitted, posterior=pruned.posterior, figures={}, by_target=[], conformal=None
    )
    smaller.as_pruned(pruned.report).save(output)
    terminal.note(f"model: {output}")
    if fitted.conformal is not None:
        terminal.note(
            "It has no conformal intervals or sets: their calibration was that of other predictions"
        )
    if before == after and some_off:
        terminal.note(
            "Some weights are set to zero, but no unit could be taken out: the network is as large "
            "as before. A larger --tolerance, with --threshold inf and --data, removes more, and "
            "so does a fit with --mixture half-cauchy."
        )
    elif before == after:
        terminal.note(
            "Nothing is off, and nothing was removed. Scales that can go to zero switch units off: "
            "fit with --mixture half-cauchy. Or give --threshold inf, --data and "
            "--tolerance, to remove what predictions can do without."
        )
    # Of a model that was pruned before, some columns were not read before, either.
    unread = () if fitted.pruned is None else fitted.posterior.prune(threshold=0).report.inputs_off
    report = pruned.report.by_column(fitted.columns.groups, unread)
    told = {name: _finite(value) for name, value in dataclasses.asdict(report).items()}
    told["not_read"] = told.pop("columns_off")
    terminal.result({"model": str(output), **told}, lambda: typer.echo(str(report)))


def _ask(said: str, yes: bool) -> None:
    """Go on only if a person says so, or has said so before."""
    if yes:
        return
    if not at_terminal():
        raise InputError(f"{said}; --yes goes ahead. Nothing was written.")
    if not typer.confirm(f"{said}. Go ahead?", err=True):
        raise FailedError("Nothing was written.")


def _finite(value: Any) -> Any:
    # JSON has no infinity, which is the relative change of predictions without any spread.
    return None if isinstance(value, float) and not math.isfinite(value) else value
