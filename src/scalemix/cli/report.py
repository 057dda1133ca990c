"""`scalemix report`."""

from pathlib import Path
from typing import Annotated

import typer

from scalemix.cli.console import Terminal, guarded
from scalemix.cli.models import TableModel, check_output, read_model
from scalemix.cli.options import Debug, Json, ModelFile, Quiet
from scalemix.tables import Table, read_table


@guarded
def report(
    model: ModelFile,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]",
            help="A table with the target. If the model was fitted to it, only held-out rows "
            "count. Without a table there are no pictures of predictions.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the report.")
    ] = Path("report.html"),
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a report on a model as one HTML file, for people who did not fit it."""
    terminal = Terminal(quiet=quiet, as_json=as_json)
    check_output(output, model, data)
    fitted = read_model(model)
    write(output, fitted, None if data is None else read_table(data), terminal)
    terminal.result({"report": str(output)}, lambda: None)


def write(path: Path, fitted: TableModel, table: Table | None, terminal: Terminal) -> None:
    """Write a report, with pictures of predictions for the rows of a table, if there is one."""
    from scalemix.analysis.report import ReportedFit, Story, write_report
    from scalemix.cli.predict import measure
    from scalemix.cli.sizes import find_sizes

    source, columns = fitted.source, fitted.columns
    trained, held = source.counts
    figures, test = fitted.figures, None
    tested_on = f"{held:,} rows of {source.file} that were held out"
    if table is not None and (held or table.digest != source.digest):
        part, tested_on = fitted.unseen(table)
        x, y, figures = measure(fitted, part, terminal)
        test = (x, y)
    story = Story(
        title=f"{columns.target.name}: a model of {source.file}",
        facts=[
            ("file", source.file),
            ("rows", f"{trained:,} trained on, {held:,} held out"),
            *((name, text) for name, text in (line.split(": ", 1) for line in columns.describe())),
        ],
        features=columns.features,
        groups=columns.groups,
        target=columns.target.name,
        fits=[
            ReportedFit(
                name="The fit",
                posterior=fitted.posterior,
                figures=figures,
                settings={**fitted.settings, "seed": source.seed, "holdout": source.holdout},
                sizes=find_sizes(fitted.posterior, None if test is None else test[0]).in_words(),
            )
        ],
        test=test,
        classes=columns.target.classes,
        tested_on=tested_on,
    )
    write_report(path, story)
    terminal.note(f"report: {path}")
