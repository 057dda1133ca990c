"""`scalemix prune`."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from scalemix.cli.console import Terminal, guarded
from scalemix.cli.models import as_input_errors, check_output, read_model
from scalemix.cli.options import Debug, Json, ModelFile, Quiet
from scalemix.tables import InputError, read_table


@guarded
def prune(
    model: ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the smaller model.")
    ],
    data: Annotated[
        Path | None,
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
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Remove the units and layers that the prior switched off, and save the smaller model.

    The new file has no figures: `scalemix evaluate` measures it on a table. Nor is it calibrated
    for `predict --conformal`.
    """
    # Help comes without JAX.
    from scalemix.posterior.pruning.prune import MUCH

    terminal = Terminal(quiet=quiet, as_json=as_json)
    check_output(output, model, data)
    if tolerance is not None and data is None:
        raise InputError("--tolerance is about predictions, and needs --data to make them.")
    fitted = read_model(model)
    x = None
    if data is not None:
        x, remarks = fitted.encode(read_table(data))
        for remark in remarks:
            terminal.note(remark)
    with as_input_errors(), warnings.catch_warnings():
        # A remark below says the same, by the names of options.
        warnings.simplefilter("ignore", UserWarning)
        pruned = fitted.posterior.prune(x, threshold=threshold, tolerance=tolerance)
    smaller = dataclasses.replace(fitted, posterior=pruned.posterior, figures={}, plausibility=())
    smaller.save(output)
    terminal.note(f"model: {output}")
    before, after = pruned.report.num_stored
    if before == after and any(off for off, _ in pruned.report.rows_off.values()):
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
    change = pruned.report.mean_change
    if change is not None and change > MUCH:
        terminal.note(
            f"Predictions change by up to {change:.0%} of their spread. With --tolerance {MUCH:g} "
            f"less is removed, and they change by no more than that."
        )
    report = {name: _finite(value) for name, value in dataclasses.asdict(pruned.report).items()}
    terminal.result({"model": str(output), **report}, lambda: typer.echo(str(pruned)))


def _finite(value: Any) -> Any:
    # JSON has no infinity, which is the relative change of predictions without any spread.
    return None if isinstance(value, float) and not math.isfinite(value) else value
