"""`scalemix predict` and `scalemix evaluate`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from scalemix.cli.console import Terminal, guarded, print_table
from scalemix.cli.models import TableModel, check_output, read_model
from scalemix.cli.options import DataFile, Debug, Json, ModelFile, Quiet
from scalemix.cli.writing import CSV, PARQUET, Cells, cell_as_json, to_csv, without_formulas, write
from scalemix.tables import InputError, Table, read_table
from scalemix.tables.cells import text

if TYPE_CHECKING:
    from scalemix.posterior.conformal import Conformal

# Between the classes of a set.
SEPARATOR = " | "


@guarded
def predict(
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A CSV or Parquet file; CSV to stdout if not given."),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Probability of the interval from lower to upper.")
    ] = 0.9,
    conformal: Annotated[
        bool,
        typer.Option(
            "--conformal",
            help="Intervals, or sets of classes, that cover this share of new rows whatever the "
            "model; for a model that was fitted with --calibration.",
        ),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column of the data to copy into the result. May be repeated."),
    ] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            help="In CSV, put an apostrophe before text that a spreadsheet would run as a formula. "
            "Otherwise it is copied as it is, with a remark."
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the target of each row, with its uncertainty; rows stay in order.

    For numbers: the prediction, its standard deviation, and the ends of an interval. For classes:
    the most probable one, its probability, the probabilities of all, and their entropy in nats.
    How sure it is comes in two parts: epistemic, from not knowing the network, which more data
    could reduce, and aleatoric, which they could not. The two add up to the entropy; of numbers,
    their squares add up to that of the standard deviation. `outside` is zero for a row like those
    of training; 0.5 is half a column's range beyond its end, or half as far again from the centre
    as any training row.
    """
    terminal = Terminal(quiet=quiet, as_json=as_json)
    if not 0 < interval < 1:
        raise InputError(f"--interval is a probability between 0 and 1, got {interval}.")
    if output is not None:
        check_output(output, model, data)
        if output.suffix.lower() not in (*CSV, *PARQUET):
            raise InputError(f"{output}: predictions are written as .csv or .parquet.")
    fitted, table = read_model(model), read_table(data)
    kept: Cells = {name: table.column(name) for name in keep or ()}
    predictions = _predictions(fitted, table, interval, conformal, terminal)
    for name in kept:
        if name in predictions:
            raise InputError(f"--keep {name}: the result has a column of that name already.")
    as_csv = not as_json if output is None else output.suffix.lower() in CSV
    # Of all forms of output, only Parquet has every type of cell.
    if as_csv:
        kept = {name: [text(cell) for cell in column] for name, column in kept.items()}
    elif output is None:
        kept = {name: [cell_as_json(cell) for cell in column] for name, column in kept.items()}
        # JSON has no infinity, which the end of an interval may be.
        predictions = {
            name: [None if cell in (math.inf, -math.inf) else cell for cell in column]
            for name, column in predictions.items()
        }
    cells = kept | predictions
    if as_csv:
        cells = without_formulas(cells, escape_formulas, terminal)
    if output is not None:
        write(output, cells)
        terminal.note(f"{table.num_rows:,} predictions: {output}")
        if as_json:
            terminal.result({"output": str(output), "rows": table.num_rows}, lambda: None)
    else:
        terminal.result({"predictions": cells}, lambda: typer.echo(to_csv(cells), nl=False))


@guarded
def evaluate(
    model: ModelFile,
    data: DataFile,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure how good a model is on a table that has the target.

    If it is the table that the model was fitted to, only the rows that were held out count.
    """
    terminal = Terminal(quiet=quiet, as_json=as_json)
    fitted = read_model(model)
    table, tested_on = fitted.unseen(read_table(data))
    _, _, figures = measure(fitted, table, terminal)
    from scalemix.analysis.evaluation import MEASURES

    terminal.result(
        {"tested_on": tested_on, "rows": table.num_rows, "figures": figures},
        lambda: print_table(
            ["", tested_on, "meaning"],
            [(MEASURES[n].label, MEASURES[n].show(v), MEASURES[n].meaning)
             for n, v in figures.items()], right=[1],
        ),
    )  # fmt: skip


def measure(
    fitted: TableModel, table: Table, terminal: Terminal
) -> tuple[Any, Any, dict[str, float]]:
    """Inputs and targets of a table, and the figures of the predictions."""
    import jax

    from scalemix.analysis.evaluation import evaluate as find_figures

    x, remarks = fitted.encode(table)
    y = fitted.columns.target.encode(table)
    for remark in remarks:
        terminal.note(remark)
    # The same samples as in `fit`, so that the same rows get the same figures.
    key = jax.random.split(jax.random.key(fitted.source.seed))[1]
    classes = fitted.columns.target.classes is not None
    return x, y, find_figures(fitted.posterior.predict(x), y, classes=classes, key=key)


def _predictions(
    fitted: TableModel, table: Table, probability: float, conformal: bool, terminal: Terminal
) -> Cells:
    x, remarks = fitted.encode(table)
    for remark in remarks:
        terminal.note(remark)
    predictive, outside = fitted.posterior.predict(x), fitted.outside(x)
    far: Cells = {} if outside is None else {"outside": outside.by_row.tolist()}
    if outside is not None and (said := outside.in_words()):
        terminal.note(said)
    mean, classes = predictive.mean, fitted.columns.target.classes
    calibrated = _calibrated(fitted) if conformal else None
    if classes is not None:
        cells: Cells = {
            "prediction": [classes[i] for i in mean.argmax(axis=1)],
            "probability": mean.max(axis=1).tolist(),
            **{f"p({c})": mean[:, i].tolist() for i, c in enumerate(classes)},
            "entropy": predictive.entropy.tolist(),
            "epistemic": predictive.mutual_information.tolist(),
            "aleatoric": (predictive.entropy - predictive.mutual_information).tolist(),
        }
        if calibrated is not None:
            sets = calibrated.sets(predictive, probability)
            cells["set"] = [
                SEPARATOR.join(c for c, is_in in zip(classes, row, strict=True) if is_in)
                for row in sets.tolist()
            ]
        return cells | far
    if calibrated is None:
        lower, upper = predictive.interval(probability)
    else:
        lower, upper = calibrated.interval(predictive, probability)
        if not np.isfinite(upper - lower).all():
            terminal.note(
                f"{len(fitted.plausibility):,} rows are too few to be sure of "
                f"{probability:.0%}: some ends are infinite"
            )
    return {
        "prediction": mean.tolist(),
        "std": predictive.std.tolist(),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "epistemic": predictive.epistemic.tolist(),
        "aleatoric": predictive.aleatoric.tolist(),
        **far,
    }


def _calibrated(fitted: TableModel) -> "Conformal":
    from scalemix.posterior.conformal import Conformal

    if not fitted.plausibility:
        raise InputError(
            "--conformal needs rows that the fit has not seen: fit with --calibration 0.2."
        )
    return Conformal(np.array(fitted.plausibility), np.array(fitted.by_error))
