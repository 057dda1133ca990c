"""From a table to a fitted model."""

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix._text import counted, few_lines, listing
from scalemix.cli.class_weights import ClassWeights, in_words, weights_by_class
from scalemix.cli.console import FailedError, Terminal
from scalemix.cli.models import TableModel, as_input_errors
from scalemix.cli.predictions import TOO_FAR, places_of, rows_too_far
from scalemix.cli.settings import as_option, refuse_idle
from scalemix.cli.sources import Source
from scalemix.data.ranges import find_ranges, strays_in_words
from scalemix.data.scaling import find_scaling
from scalemix.fitting.kinds import Mention
from scalemix.fitting.settings import Task
from scalemix.tables import Columns, Table, learn_columns
from scalemix.tables.targets import hint_of_observed

if TYPE_CHECKING:
    from scalemix.fitting.recipes import Recipe


class WholeTable:
    """A table in memory, to fit to."""

    def __init__(self, table: Table, source: Source, class_weights: ClassWeights = None):
        self.reported: Table | None = table
        self.remarks: tuple[str, ...] = table.remarks
        self._table, self._source, self._weights = table, source, class_weights

    def columns(self, targets: Sequence[str], **asked: Any) -> Columns:
        """What to make of its columns."""
        columns = learn_columns(self._table, targets, rows=self._source.split()[0], **asked)
        self.remarks += on_codes(columns, self._table)
        return columns

    def train(
        self, recipe: "Recipe", columns: Columns, terminal: Terminal, checkpoint: Path, resume: bool
    ) -> TableModel:
        """A model of it."""
        return train(
            recipe, self._table, columns, self._source, terminal, checkpoint, resume, self._weights
        )


def on_codes(columns: Columns, table: Table) -> tuple[str, ...]:
    """A remark on columns whose numbers may be codes, if there are any."""
    said = columns.taken_for_numbers(table)
    return () if said is None else (f"{said}; --categorical reads such a column as labels",)


def train(
    recipe: "Recipe",
    table: Table,
    columns: Columns,
    source: Source,
    terminal: Terminal,
    checkpoint: Path,
    resume: bool,
    class_weights: ClassWeights = None,
) -> TableModel:
    """Networks fitted to the rows to train on, with the figures of those held out."""
    import jax

    from scalemix.analysis.evaluation import find_figures, find_figures_by_target
    from scalemix.likelihoods.targets import suggestion
    from scalemix.posterior.conformal import calibrate, refuse_unobserved

    rows, held = source.split()
    x, remarks, unknown, _ = columns.encode(table)
    y = columns.target.encode(table)
    # Only rows that are not trained on have such words.
    words = [
        f"{of.name!r}: only held-out rows have {listing(of.words, 5)}, taken there as unknown"
        for of in unknown
    ]
    for remark in (*remarks, *few_lines(words)):
        terminal.note(remark)
    # Held-out rows are looked at before training, not after it.
    layout = columns.layout
    scaling = find_scaling(x[rows], y[rows], np.ones(len(rows)), inputs=True, targets=False)
    scaling = scaling.keeping_units(~layout.scaled)
    columns.refuse_far(table, x, scaling)
    places = columns.number_places
    numbers, names = x[rows][:, places], [columns.features[place] for place in places]
    if (said := strays_in_words(numbers, names)) is not None:
        terminal.note(said)
    if columns.target.classes is None and recipe.target == "real":
        said = suggestion(y[rows], lambda kind: as_option(Mention("target", kind)))
        if said is not None:
            terminal.note(said)
    if (said := hint_of_observed(columns.target, y, table, columns.groups)) is not None:
        terminal.note(said)
    if recipe.target == "time" and source.num_calibrated:
        with as_input_errors():
            refuse_unobserved(y)
    num_classes = None if columns.target.classes is None else len(columns.target.classes)
    key, test_key = jax.random.split(jax.random.key(source.seed))
    apart = f", {source.num_calibrated:,} to calibrate" if source.num_calibrated else ""
    terminal.note(
        f"training on {counted(len(rows), 'row')} and {counted(x.shape[1], 'input')}, "
        f"{len(held):,} held out{apart}"
    )
    weight = None
    if class_weights is not None:
        counts = np.bincount(y[rows], minlength=num_classes or 0)
        by_class = weights_by_class(class_weights, columns.target, counts)
        if by_class is not None:
            terminal.note(in_words(by_class, columns.target, counts))
            weight = by_class[y[rows]]
    warn_of_noise(recipe, terminal)
    with explained(terminal):
        fitted = recipe.fit(
            x[rows], y[rows], key=key, num_classes=num_classes, layout=layout,
            progress=terminal.progress, checkpoint=checkpoint, resume=resume,
            sample_weight=weight,
        )  # fmt: skip
    posterior, conformal, apart = fitted.posterior, None, source.calibrated()
    if len(apart):
        with as_input_errors():
            conformal = calibrate(posterior.predict(x[apart]), y[apart])
    figures, by_target = {}, []
    if len(held):
        predictive = posterior.predict(x[held])
        is_far = rows_too_far(predictive)
        if is_far.any():
            terminal.note(no_figures(places_of(is_far, table.take(held))))
        else:
            figures = find_figures(
                predictive, y[held], classes=num_classes is not None, key=test_key,
                trained_on=y[rows], conformal=conformal,
            )  # fmt: skip
            by_target = find_figures_by_target(
                predictive, y[held], key=test_key, conformal=conformal
            )
    settings = recipe.settings(len(rows))
    if class_weights is not None:
        settings["class_weight"] = class_weights
    ranges = find_ranges(numbers, names)
    trials = [trial._asdict() for trial in fitted.trials if trial.num_members]
    return TableModel(
        posterior, columns, source, settings, figures, conformal, ranges, trials,
        by_target=by_target,
    )  # fmt: skip


def warn_of_noise(recipe: "Recipe", terminal: Terminal) -> None:
    """Say so where noise of the chosen family is too wild to train under."""
    if recipe.inference == "noise" and not math.isfinite(float(recipe.build_mixture().mean)):
        terminal.note(
            f"{recipe.mixture} noise has no mean, and training under it is poor; it suits "
            f"--inference em or mcmc."
        )


def no_figures(places: str) -> str:
    """What to say where predictions of held-out rows overflow: the model is kept all the same."""
    return (
        f"held-out {places}: {TOO_FAR}, so that there are no figures. Look at the units of the "
        f"inputs; `scalemix evaluate` measures the model on other rows"
    )


@contextlib.contextmanager
def explained(terminal: Terminal) -> Iterator[None]:
    """Turn what goes wrong in a fit, and what is odd about it, into words for the user."""
    with as_input_errors(), _divergence_in_words(), _warnings_as_notes(terminal):
        yield


@contextlib.contextmanager
def _divergence_in_words() -> Iterator[None]:
    """Say that training diverged, and which options may help."""
    from scalemix.inference.training.engine import DivergenceError

    try:
        yield
    except DivergenceError as error:
        raise FailedError(
            f"{error} The options are --learning-rate, --mixture-parameter, --noise-floor and "
            f"--mixture."
        ) from error


@contextlib.contextmanager
def _warnings_as_notes(terminal: Terminal) -> Iterator[None]:
    """Show warnings as remarks: here a person reads them, without the line of source."""
    from scalemix.inference.training.findings import UselessFitWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for warning in caught:
        line = " ".join(str(warning.message).split())
        if issubclass(warning.category, UselessFitWarning):
            # Those of it that there are here.
            line += (
                " The options are --steps, --learning-rate and, for --inference em, --temperature."
            )
        terminal.note(line)


def build_recipe(task: Task, settings: dict[str, Any]) -> "Recipe":
    """The recipe with these settings, or an `InputError`."""
    from scalemix.fitting.recipes import Recipe

    with as_input_errors():
        recipe = Recipe(task=task, **settings)
    refuse_idle(recipe)
    return recipe
