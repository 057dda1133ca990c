"""`scalemix predict` and `scalemix evaluate`."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from scalemix._files import replacing
from scalemix.cli.console import Terminal, guarded, print_table
from scalemix.cli.models import TableModel, check_output, read_model
from scalemix.cli.options import DataFile, Debug, Json, ModelFile, Quiet
from scalemix.data.values import is_finite
from scalemix.tables import InputError, Table, read_table
from scalemix.tables.cells import number, short, text
from scalemix.tables.reading import Cell

Cells = dict[str, list[Any]]
CSV, PARQUET = (".csv", ".txt", ""), (".parquet", ".pq")
# What a spreadsheet takes for the start of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


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
    the most probable one, its probability, and the probabilities of all.
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
    predictions = _predictions(fitted, table, interval, terminal)
    for name in kept:
        if name in predictions:
            raise InputError(f"--keep {name}: the result has a column of that name already.")
    as_csv = not as_json if output is None else output.suffix.lower() in CSV
    # Of all forms of output, only Parquet has every type of cell.
    if as_csv:
        kept = {name: [text(cell) for cell in column] for name, column in kept.items()}
    elif output is None:
        kept = {name: [_as_json(cell) for cell in column] for name, column in kept.items()}
    cells = kept | predictions
    if as_csv:
        cells = _without_formulas(cells, escape_formulas, terminal)
    if output is not None:
        _write(output, cells)
        terminal.note(f"{table.num_rows:,} predictions: {output}")
        if as_json:
            terminal.result({"output": str(output), "rows": table.num_rows}, lambda: None)
    else:
        terminal.result({"predictions": cells}, lambda: typer.echo(_as_csv(cells), nl=False))


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


def _predictions(fitted: TableModel, table: Table, probability: float, terminal: Terminal) -> Cells:
    x, remarks = fitted.encode(table)
    for remark in remarks:
        terminal.note(remark)
    predictive = fitted.posterior.predict(x)
    mean, classes = predictive.mean, fitted.columns.target.classes
    if classes is not None:
        best = mean.argmax(axis=1)
        return {
            "prediction": [classes[i] for i in best],
            "probability": mean.max(axis=1).tolist(),
            **{f"p({c})": mean[:, i].tolist() for i, c in enumerate(classes)},
        }
    lower, upper = predictive.interval(probability)
    return {
        "prediction": mean.tolist(),
        "std": predictive.std.tolist(),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
    }


def _without_formulas(cells: Cells, escape: bool, terminal: Terminal) -> Cells:
    """The cells, with formulas escaped if asked for; otherwise unchanged, with a remark.

    They stay unchanged unless asked, since @name and +49 151 are values by which programs join
    tables.
    """
    if escape:
        return {
            _escaped(name): [_escaped(cell) for cell in column] for name, column in cells.items()
        }
    for name, column in cells.items():
        formulas = [cell for cell in (name, *column) if _is_formula(cell)]
        if formulas:
            terminal.note(
                f"{name!r}: a spreadsheet would run {len(formulas):,} cells as formulas, such as "
                f"{short(formulas[0])}. They are copied as they are; --escape-formulas makes them "
                f"text"
            )
    return cells


def _is_formula(cell: Any) -> bool:
    # A negative number begins like a formula, but is none.
    return isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and number(cell) is None


def _escaped(cell: Any) -> Any:
    return f"'{cell}" if _is_formula(cell) else cell


def _as_json(cell: Cell) -> Any:
    """The cell as JSON holds it: numbers, text and truth values as they are, others as text."""
    plain = cell is None or isinstance(cell, str | bool) or is_finite(cell)
    return cell if plain else text(cell)


def _as_csv(cells: Cells) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(cells)
    # More digits than single precision has would be noise.
    writer.writerows(
        [f"{cell:.7g}" if isinstance(cell, float) else cell for cell in row]
        for row in zip(*cells.values(), strict=True)
    )
    return file.getvalue()


def _write(path: Path, cells: Cells) -> None:
    if path.suffix.lower() in CSV:
        with replacing(path) as file:
            file.write(_as_csv(cells).encode())
        return
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: Parquet files need pyarrow: pip install pyarrow") from None
    with replacing(path) as file:
        parquet.write_table(pyarrow.table(cells), file)
