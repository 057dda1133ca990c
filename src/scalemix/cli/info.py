"""`scalemix info`."""

import dataclasses
from typing import Any

import typer

from scalemix._text import counted, text_table
from scalemix._versions import in_words
from scalemix.cli.console import Terminal, guarded
from scalemix.cli.entries import ENTRY, parse_entry
from scalemix.cli.figures import print_figures
from scalemix.cli.models import as_input_errors
from scalemix.cli.options import Debug, Json, ModelFile
from scalemix.tables import InputError


@guarded
def info(model: ModelFile, as_json: Json = False, debug: Debug = False) -> None:
    """Say what a model file holds."""
    from scalemix.posterior.storage import info as read_info

    if not model.exists():
        raise InputError(f"{model}: there is no such file.")
    with as_input_errors():
        summary = read_info(model)
    entry = parse_entry(model, summary.metadata) if ENTRY in summary.metadata else None
    pruned = None if entry is None else entry.pruned
    size = f"{summary.num_parameters:,} parameters each{', zeros included' * (pruned is not None)}"
    rows = [
        ("written by", in_words({"scalemix": summary.scalemix, **summary.versions})),
        ("network", f"{summary.num_members} x {summary.network}, {size}"),
        ("inferred by", f"{summary.method}, {summary.num_steps:,} steps"),
        *((f"prior of {site}", prior) for site, prior in summary.prior.items()),
        ("likelihood", summary.likelihood),
    ]
    if entry is not None:
        columns, source, settings, trials = (
            entry.columns, entry.source, entry.settings, entry.trials
        )  # fmt: skip
        trained, held = source.counts
        apart = f"; {source.num_calibrated:,} to calibrate" if source.num_calibrated else ""
        if pruned is not None:
            before, after = pruned
            rows.append(("pruned", f"from {before:,} parameters of each network to {after:,}"))
        number = counted(trained, "row")
        rows.append(("fitted to", f"{source.file}, {number}; {held:,} held out{apart}"))
        rows += [tuple(line.split(": ", 1)) for line in columns.describe()]
        known = settings | source.settings()
        rows.append(("settings", ", ".join(f"{n}={v}" for n, v in known.items())))
        if trials:
            rows.append(("chosen on held-out rows", "; ".join(map(_in_words, trials))))

    def show() -> None:
        for line in text_table(rows):
            # Names of files need not be text that a terminal takes.
            typer.echo(line.encode(errors="replace").decode())
        if entry is not None and entry.figures:
            names = entry.columns.target.names
            print_figures(entry.figures, entry.by_target, names, "held-out rows")

    Terminal(quiet=False, as_json=as_json).result(dataclasses.asdict(summary), show)


def _in_words(trial: dict[str, Any]) -> str:
    """Settings that were chosen, and how many networks have them."""
    chosen = [
        f"{name.replace('_', ' ')} {trial[name]:g}"
        for name in ("temperature", "noise_floor")
        if name in trial
    ]
    if "bins" in trial:
        chosen.append("with bins" if trial["bins"] else "without bins")
    return f"{', '.join(chosen)} ({counted(trial.get('num_members', 0), 'network')})"
