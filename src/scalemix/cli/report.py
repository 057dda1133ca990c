"""`scalemix report`."""

from pathlib import Path
from typing import Annotated

import typer

from scalemix._text import counted
from scalemix.cli.console import Terminal, guarded
from scalemix.cli.models import TableModel, check_output, read_model
from scalemix.cli.options import Debug, Json, ModelFile, Quiet, with_text_format
from scalemix.cli.sources import Source
from scalemix.tables import Table, TextFormat
from scalemix.tables.cells import text as as_text


@guarded
@with_text_format
def report(
    *,
    model: ModelFile,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="A table with the target. If the model was fitted to it, only held-out rows "
            "count. Without a table there are no pictures of predictions.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the report.")
    ] = Path("report.html"),
    text: TextFormat,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a report on a model as one HTML file, for people who did not fit it."""
    terminal = Terminal(quiet=quiet, as_json=as_json)
    check_output(output, model, data)
    fitted = read_model(model)
    write(output, fitted, None if data is None else fitted.read(data, text), terminal)
    terminal.result({"report": str(output)}, lambda: None)


def write(path: Path, fitted: TableModel, table: Table | None, terminal: Terminal) -> None:
    """Write a report, with pictures of predictions for the rows of a table, if there is one."""
    from scalemix.analysis.report import ReportedFit, Story, write_report
    from scalemix.analysis.sizes import find_sizes
    from scalemix.cli.described import describe_columns, plain_places
    from scalemix.cli.predict import measure

    source, columns = fitted.source, fitted.columns
    trained, held = source.counts
    figures, by_target, test, train = fitted.figures, fitted.by_target, None, None
    part, outside, caution = None, None, ""
    trained_on = None if table is None else fitted.trained(table)
    tested_on = f"{held:,} rows of {source.file} that were held out"
    if table is not None and (held or not table.is_known_by(source.digest)):
        part, tested_on, caution = fitted.unseen(table)
        x, y, figures, by_target, outside = measure(fitted, part, terminal, trained_on)
        test = x, y
    if trained_on is not None:
        train = columns.encode(trained_on).x, columns.target.encode(trained_on)
    story = Story(
        title=f"{columns.target.name}: a model of {source.file}",
        facts=[
            ("file", source.file),
            ("rows", f"{trained:,} trained on, {held:,} held out{_apart(source)}"),
            ("target", columns.target.describe()),
            *_calibrated(fitted),
            *_pruned(fitted),
        ],
        columns=describe_columns(columns, part if trained_on is None else trained_on),
        target=columns.target.name,
        targets=columns.target.names,
        fits=[
            ReportedFit(
                name="The fit",
                posterior=fitted.posterior,
                figures=figures,
                by_target=by_target,
                settings={**fitted.settings, **source.settings()},
                sizes=find_sizes(fitted.posterior, None if test is None else test[0]),
            )
        ],
        train=train,
        test=test,
        plain=plain_places(columns),
        classes=columns.target.classes,
        tested_on=tested_on,
        caution=caution,
        row_names=None if part is None else part.places,
        cells={} if part is None else _cells(part),
        outside=(outside.in_words() or "") if outside is not None else "",
        left_out=columns.left_out,
    )
    write_report(path, story)
    terminal.note(f"report: {path}")


def _apart(source: Source) -> str:
    return f", {source.num_calibrated:,} to calibrate" if source.num_calibrated else ""


def _calibrated(fitted: TableModel) -> list[tuple[str, str]]:
    """How many rows conformal intervals, or sets, go by."""
    apart, conformal = fitted.source.num_calibrated, fitted.conformal
    if not apart:
        return []
    what = "conformal intervals" if fitted.columns.target.classes is None else "conformal sets"
    if conformal is None:
        return [(what, "none: pruning dropped the calibration")]
    num = len(conformal.plausibility)
    chose = f"; {apart - num:,} more chose their kind" if num < apart else ""
    return [(what, f"calibrated by {counted(num, 'row')} that were kept apart{chose}")]


def _pruned(fitted: TableModel) -> list[tuple[str, str]]:
    if fitted.pruned is None:
        return []
    before, after = fitted.pruned
    return [("pruned", f"from {before:,} parameters of each network to {after:,}")]


def _cells(table: Table) -> dict[str, list[str]]:
    return {
        name: ["" if cell is None else as_text(cell) for cell in cells]
        for name, cells in table.columns.items()
    }
