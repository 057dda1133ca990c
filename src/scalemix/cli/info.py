"""`scalemix info`."""

import dataclasses

import typer

from scalemix._text import text_table
from scalemix._versions import in_words
from scalemix.cli.console import Terminal, guarded, print_table
from scalemix.cli.models import ENTRY, as_input_errors, parse_entry
from scalemix.cli.options import Debug, Json, ModelFile
from scalemix.tables import InputError


@guarded
def info(model: ModelFile, as_json: Json = False, debug: Debug = False) -> None:
    """Say what a model file holds."""
    from scalemix.analysis.evaluation import MEASURES
    from scalemix.posterior.storage import info as read_info

    if not model.exists():
        raise InputError(f"{model}: there is no such file.")
    with as_input_errors():
        summary = read_info(model)
    rows = [
        ("written by", in_words({"scalemix": summary.scalemix, **summary.versions})),
        (
            "network",
            f"{summary.num_members} x {summary.network}, {summary.num_parameters:,} parameters",
        ),
        ("inferred by", f"{summary.method}, {summary.num_steps:,} steps"),
        *((f"prior of {site}", prior) for site, prior in summary.prior.items()),
        ("likelihood", summary.likelihood),
    ]
    measured = []
    if ENTRY in summary.metadata:
        columns, source, settings, figures, *_ = parse_entry(model, summary.metadata)
        trained, held = source.counts
        apart = f"; {source.num_calibrated:,} to calibrate" if source.num_calibrated else ""
        rows.append(("fitted to", f"{source.file}, {trained:,} rows; {held:,} held out{apart}"))
        rows += [tuple(line.split(": ", 1)) for line in columns.describe()]
        rows.append(("settings", ", ".join(f"{n}={v}" for n, v in settings.items())))
        measured = [(MEASURES[n].label, MEASURES[n].show(v)) for n, v in figures.items()]

    def show() -> None:
        for line in text_table(rows):
            # Names of files need not be text that a terminal takes.
            typer.echo(line.encode(errors="replace").decode())
        if measured:
            print_table(["", "held-out rows"], measured, right=[1])

    Terminal(quiet=False, as_json=as_json).result(dataclasses.asdict(summary), show)
