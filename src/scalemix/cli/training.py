"""From a table to a fitted model."""

import contextlib
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.cli.console import Terminal
from scalemix.cli.models import Source, TableModel, as_input_errors
from scalemix.cli.settings import as_option
from scalemix.data.ranges import find_ranges
from scalemix.data.scaling import find_scaling
from scalemix.fitting.kinds import Mention
from scalemix.fitting.settings import Task
from scalemix.tables import Columns, Table

if TYPE_CHECKING:
    from scalemix.fitting.recipes import Recipe


def train(
    recipe: "Recipe",
    table: Table,
    columns: Columns,
    source: Source,
    terminal: Terminal,
    checkpoint: Path,
    resume: bool,
) -> TableModel:
    """Networks fitted to the rows to train on, with the figures of those held out."""
    import jax

    from scalemix.analysis.evaluation import evaluate
    from scalemix.likelihoods.targets import suggestion
    from scalemix.posterior.conformal import calibrate, refuse_unobserved

    rows, held = source.split()
    x, remarks = columns.encode(table)
    y = columns.target.encode(table)
    for remark in remarks:
        terminal.note(remark)
    # Held-out rows are looked at before training, not after it.
    layout = columns.layout
    scaling = find_scaling(x[rows], y[rows], np.ones(len(rows)), inputs=True, targets=False)
    scaling = scaling.keeping_units(~layout.scaled)
    columns.refuse_far(table, x, scaling)
    if columns.target.classes is None and recipe.target == "real":
        said = suggestion(y[rows], lambda kind: as_option(Mention("target", kind)))
        if said is not None:
            terminal.note(said)
    if recipe.target == "time" and source.num_calibrated:
        with as_input_errors():
            refuse_unobserved(y)
    num_classes = None if columns.target.classes is None else len(columns.target.classes)
    key, test_key = jax.random.split(jax.random.key(source.seed))
    apart = f", {source.num_calibrated:,} to calibrate" if source.num_calibrated else ""
    terminal.note(
        f"training on {len(rows):,} rows and {x.shape[1]} inputs, {len(held):,} held out{apart}"
    )
    if recipe.inference == "noise" and not math.isfinite(float(recipe.build_mixture().mean)):
        terminal.note(
            f"{recipe.mixture} noise has no mean, and training under it is poor; it suits "
            f"--inference em or mcmc."
        )
    with as_input_errors(), _warnings_as_notes(terminal):
        posterior = recipe.fit(
            x[rows], y[rows], key=key, num_classes=num_classes, layout=layout,
            progress=terminal.progress, checkpoint=checkpoint, resume=resume,
        ).posterior  # fmt: skip
    figures = {}
    if len(held):
        predictive = posterior.predict(x[held])
        figures = evaluate(predictive, y[held], classes=num_classes is not None, key=test_key)
    calibration, apart = {}, source.calibrated()
    if len(apart):
        with as_input_errors():
            conformal = calibrate(posterior.predict(x[apart]), y[apart])
        calibration = {
            "plausibility": tuple(conformal.plausibility.tolist()),
            "by_error": bool(conformal.by_error),
        }
    settings = recipe.settings(len(rows))
    places, ranges = columns.number_places, None
    if places:
        ranges = find_ranges(x[rows][:, places], [columns.features[place] for place in places])
    return TableModel(
        posterior, columns, source, settings, figures, ranges=ranges, **calibration
    )  # fmt: skip


@contextlib.contextmanager
def _warnings_as_notes(terminal: Terminal) -> Iterator[None]:
    """Show warnings as remarks: here a person reads them, without the line of source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for warning in caught:
        terminal.note(" ".join(str(warning.message).split()))


def build_recipe(task: Task, settings: dict[str, Any]) -> "Recipe":
    """The recipe with these settings, or an `InputError`."""
    from scalemix.fitting.recipes import Recipe

    with as_input_errors():
        return Recipe(task=task, **settings)
