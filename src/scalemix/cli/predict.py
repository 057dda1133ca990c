"""`scalemix predict` and `scalemix evaluate`."""

import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from scalemix._text import counted, listing
from scalemix.cli.console import Terminal, guarded
from scalemix.cli.figures import named_figures, print_figures
from scalemix.cli.models import TableModel, check_output, read_model
from scalemix.cli.options import DataFile, Debug, Json, ModelFile, Quiet, with_text_format
from scalemix.cli.predictions import (
    TOO_FAR,
    Asked,
    find_predictions,
    places_of,
    read_levels,
    rows_too_far,
)
from scalemix.cli.thresholds import on_bare_thresholds
from scalemix.cli.writing import (
    CSV,
    PARQUET,
    Cells,
    as_json_holds,
    without_formulas,
    write_csv,
    write_parquet,
)
from scalemix.data.ranges import Outside
from scalemix.tables import InputError, Table, TextFormat
from scalemix.tables.addresses import parse_address
from scalemix.tables.cells import text as as_text
from scalemix.tables.reading import read_chunks

# How many rows of a stream are predicted at a time.
CHUNK = 4096


@guarded
@with_text_format
def predict(
    *,
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A CSV or Parquet file; CSV to stdout if not given."),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Probability of the interval from lower to upper.")
    ] = 0.9,
    quantile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVELS",
            help="Levels of quantiles to add as columns, such as 0.1,0.5,0.9. May be repeated.",
        ),
    ] = None,
    above: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER",
            help="Add the probability of a target above this number, which is written as the "
            "target is, and with its % if it has one. Of several targets, price=300 is for one. "
            "May be repeated.",
        ),
    ] = None,
    conformal: Annotated[
        bool,
        typer.Option(
            "--conformal",
            help="Intervals (in the columns lower and upper, in place of the model's own), or sets "
            "of classes (in the column set), that cover this share of new rows whatever the "
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
    text: TextFormat,
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
    as any training row; a word that training did not have counts as 1, and so does a row without
    any value. Rows above 0.5 lie far outside, and a remark counts them. Of several targets, each
    has columns of its own, such as `std(price)`. --quantile 0.1 adds the column `q0.1`, and
    --above 3 the column `p(price>3)`. Both are those of the predicted distribution; the ends of the
    interval are also calibrated by held-out rows.

    With - for DATA, rows come by standard input, and predictions of 4,096 go out at a time, in
    bounded memory: `scalemix predict model.scalemix - < rows.csv > predictions.csv`. Large Parquet
    files, Arrow files and folders of them are read a part at a time, too.
    """
    terminal = Terminal(quiet=quiet, as_json=as_json)
    asked = Asked(
        interval, conformal, read_levels(quantile or ()), tuple(above or ()), text.decimal
    )  # fmt: skip
    if output is not None:
        check_output(output, model, data)
        if output.suffix.lower() not in (*CSV, *PARQUET):
            raise InputError(f"{output}: predictions are written as .csv or .parquet.")
    fitted = read_model(model)
    asked.check(fitted)
    for line in fitted.columns.target.on_parts():
        terminal.note(line)
    if (taken := on_bare_thresholds(asked.above, fitted)) is not None:
        terminal.note(taken)
    if conformal:
        fitted.check_calibrated()
        if fitted.columns.target.classes is None:
            terminal.note(
                f"lower and upper are conformal: at least {100 * interval:.4g}% of rows drawn like "
                f"those of the training table lie between them, on average. Other columns are as "
                f"without --conformal"
            )
    as_csv = not as_json if output is None else output.suffix.lower() in CSV
    address, large = parse_address(data), None
    if not address.is_stdin:
        large = fitted.find_large(address.path, text, always=False)
    if large is not None and as_json and output is None:
        raise InputError(f"{data}: so many predictions go to a file: name one with --output.")
    if large is not None or (as_csv and address.is_stdin):
        # Remarks that differ in numbers alone come once, and not with every chunk.
        terminal = terminal.saying_once()
    if large is not None:
        tables = large.chunks(CHUNK)
    elif as_csv and address.is_stdin:
        tables = read_chunks(
            sys.stdin.buffer, text, fitted.text, num_rows=CHUNK, numbers=fitted.columns.numbers
        )
    else:
        tables = iter([fitted.read(data, text)])

    def cells_of(table: Table) -> Cells:
        kept: Cells = {name: list(table.given(name)) for name in keep or ()}
        extra = [name for name in fitted.columns.extra(table) if name not in kept]
        if extra:
            terminal.note(
                f"not used, since the training table had no such column: {listing(extra)}"
            )
        predictions = find_predictions(fitted, table, asked, terminal)
        for name in kept:
            if name in predictions:
                raise InputError(f"--keep {name}: the result has a column of that name already.")
        # Of all forms of output, only Parquet has every type of cell.
        if as_csv:
            kept = {name: [as_text(cell) for cell in column] for name, column in kept.items()}
            return without_formulas(kept | predictions, escape_formulas, terminal)
        return kept | predictions

    if as_csv:
        num = write_csv(output, map(cells_of, tables), digits=fitted.posterior.scaling.digits)
    elif output is None:
        cells = cells_of(next(tables))
        terminal.result({"predictions": as_json_holds(cells)}, lambda: None)
        return
    else:
        types = {} if large is None else {n: t for n, t in large.types.items() if n in (keep or ())}
        num = write_parquet(output, map(cells_of, tables), types)
    if output is not None:
        terminal.note(f"{counted(num, 'prediction')}: {output}")
        if as_json:
            terminal.result({"output": str(output), "rows": num}, lambda: None)


@guarded
@with_text_format
def evaluate(
    *,
    model: ModelFile,
    data: DataFile,
    text: TextFormat,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure how good a model is on a table that has the target.

    If it is the table that the model was fitted to, only the rows that were held out count. Of
    any other table all rows count, those included that the model may have been trained on. Of a
    model that was fitted with --calibration, conformal intervals or sets are measured, too.
    """
    terminal = Terminal(quiet=quiet, as_json=as_json)
    fitted = read_model(model)
    given = fitted.read(data, text)
    table, tested_on, caution = fitted.unseen(given)
    measured, target = (
        measure(fitted, table, terminal, fitted.trained(given)),
        fitted.columns.target,
    )
    # An error stands alone.
    if caution:
        terminal.note(caution)
    terminal.result(
        {
            "tested_on": tested_on, "rows": table.num_rows, "figures": measured.figures,
            **named_figures(target.names, measured.by_target),
        },
        lambda: print_figures(
            measured.figures, measured.by_target, target.names, tested_on, meanings=True
        ),
    )  # fmt: skip


class Measured(NamedTuple):
    """Inputs and targets of a table, and the figures of the predictions."""

    x: Any
    y: Any
    figures: dict[str, float]
    by_target: list[dict[str, float]]
    outside: Outside


def measure(
    fitted: TableModel, table: Table, terminal: Terminal, trained: Table | None
) -> Measured:
    """How good predictions of a table are.

    The rows that the model was trained on, where they are known, say what no model would predict.
    """
    import jax

    from scalemix.analysis.evaluation import find_figures, find_figures_by_target

    encoded = fitted.encode(table)
    x, y = encoded.x, fitted.columns.target.encode(table)
    outside = fitted.outside(encoded)
    for remark in (*encoded.remarks, outside.in_words()):
        if remark is not None:
            terminal.note(remark)
    # The same samples as in `fit`, so that the same rows get the same figures.
    key = jax.random.split(jax.random.key(fitted.source.seed))[1]
    predictive = fitted.posterior.predict(x)
    is_far = rows_too_far(predictive)
    if is_far.any():
        raise InputError(
            f"{table.path}, {places_of(is_far, table)}: {TOO_FAR}, and no figure means anything. "
            f"Look at the units of the inputs, or leave such rows out."
        )
    figures = find_figures(
        predictive, y, classes=fitted.columns.target.classes is not None, key=key,
        trained_on=None if trained is None else fitted.columns.target.encode(trained),
        conformal=fitted.conformal,
    )  # fmt: skip
    by_target = find_figures_by_target(predictive, y, key=key, conformal=fitted.conformal)
    return Measured(x, y, figures, by_target, outside)
