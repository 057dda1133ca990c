"""Fits to tables that are larger than memory."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.cli.class_weights import ClassWeights, in_words, weights_by_class
from scalemix.cli.console import Terminal
from scalemix.cli.models import TableModel, as_input_errors
from scalemix.cli.predictions import places_of, rows_too_far
from scalemix.cli.settings import as_option
from scalemix.cli.sources import Source
from scalemix.cli.training import explained, no_figures, on_codes, warn_of_noise
from scalemix.data.ranges import Ranges, find_ranges
from scalemix.fitting.kinds import Mention
from scalemix.tables import Columns, Table
from scalemix.tables.arrow_tables import ArrowTables, KeptRows
from scalemix.tables.settling import refuse_formatted
from scalemix.tables.survey import Survey
from scalemix.tables.targets import hint_of_observed

if TYPE_CHECKING:
    from scalemix.fitting.recipes import Recipe

# Rows of the sample on which settings are tried.
TRIAL_ROWS = 40_000


class TableInParts:
    """A large table to fit to, after one pass: what its columns hold, and rows not trained on."""

    def __init__(
        self,
        tables: ArrowTables,
        targets: Sequence[str],
        source: Source,
        categorical: Sequence[str],
        terminal: Terminal,
        *,
        words: Sequence[str] = (),
        class_weights: ClassWeights = None,
    ):
        """`words` are columns that are not to be read as numbers, whatever their cells say."""
        self.tables: ArrowTables = tables
        self.source: Source = source
        self.remarks: tuple[str, ...] = tables.remarks
        self.class_weights: ClassWeights = class_weights
        held, calibrated = source.held_out(), source.calibrated()
        self.apart: np.ndarray = np.sort(np.concatenate([held, calibrated]))
        self._kept = KeptRows(held), KeptRows(calibrated)
        self.survey: Survey = Survey(
            tables.names, targets, tables.num_rows, apart=self.apart,
            categorical=(*tables.categorical, *categorical), seed=source.seed,
        )  # fmt: skip
        words = (*words, *(name for name in tables.categorical if name not in targets))
        with _bar(tables, terminal) as report:
            for part, first in tables.parts:
                table = tables.table(part)
                refuse_formatted(table, words, tables.text.decimal)
                self.survey.add(table, first)
                for kept in self._kept:
                    kept.add(table, first)
                report(part.num_rows, part.num_bytes)

    def columns(self, targets: Sequence[str], **asked: Any) -> Columns:
        """What to make of its columns; targets and categories were named before the pass."""
        # Levels are looked up where all rows are in memory.
        known = ("categorical", "look_up")
        columns = self.survey.columns(**{n: v for n, v in asked.items() if n not in known})
        self.remarks += on_codes(columns, self.survey.sample.table)
        return columns

    def train(
        self, recipe: "Recipe", columns: Columns, terminal: Terminal, checkpoint: Path, resume: bool
    ) -> TableModel:
        """A model of it."""
        return train_stream(recipe, self, columns, terminal, checkpoint, resume)

    @property
    def reported(self) -> Table | None:
        """What a report shows: these rows as a table of their own."""
        return None if self.held_out is None else dataclasses.replace(self.held_out, digest="")

    @property
    def held_out(self) -> Table | None:
        """The rows that predictions are measured on, if there are any."""
        return self._kept[0].table if len(self._kept[0].rows) else None

    @property
    def calibrated(self) -> Table | None:
        """The rows that calibrate conformal intervals, if there are any."""
        return self._kept[1].table if len(self._kept[1].rows) else None


def train_stream(
    recipe: "Recipe",
    surveyed: TableInParts,
    columns: Columns,
    terminal: Terminal,
    checkpoint: Path,
    resume: bool,
) -> TableModel:
    """Networks fitted to the parts of a large table, with the figures of rows held out."""
    import jax

    from scalemix.analysis.evaluation import find_figures, find_figures_by_target
    from scalemix.fitting.from_streams import fit_stream
    from scalemix.likelihoods.targets import suggestion
    from scalemix.posterior.conformal import calibrate, refuse_unobserved
    from scalemix.tables.table_batches import TableBatches

    source, survey, target = surveyed.source, surveyed.survey, columns.target
    num_classes = None if target.classes is None else len(target.classes)
    num_targets = len(target.names) if target.several else None
    key, test_key = jax.random.split(jax.random.key(source.seed))
    likelihood = recipe.build_likelihoods(num_classes, num_targets)[0]
    scaling = survey.scaling(columns, likelihood)
    for column in columns.inputs:
        if missing := survey.facts[column.name].num_missing:
            terminal.note(f"{column.name!r}: {missing:,.0f} missing, which networks are told")
    sample = survey.train_sample
    sample = sample.take(range(min(TRIAL_ROWS, sample.num_rows))) if recipe.tries_settings else (
        sample.take(range(1)))  # fmt: skip
    x, y = columns.expand(columns.read(sample)), target.encode(sample)
    held, apart = (
        None if rows is None else (columns.encode(rows).x, target.encode(rows), rows)
        for rows in (surveyed.held_out, surveyed.calibrated)
    )
    for part in (held, apart):
        if part is not None:
            columns.refuse_far(part[2], part[0], scaling)
    if num_classes is None and recipe.target == "real":
        said = suggestion(
            target.encode(survey.train_sample), lambda kind: as_option(Mention("target", kind))
        )
        if said is not None:
            terminal.note(said)
    sampled = survey.train_sample
    hint = hint_of_observed(target, target.encode(sampled), sampled, columns.groups)
    if hint is not None:
        terminal.note(hint)
    if recipe.target == "time" and apart is not None:
        with as_input_errors():
            refuse_unobserved(apart[1])
    num_trained, num_held = source.counts
    terminal.note(
        f"training on {num_trained:,} rows and {x.shape[1]} inputs, which are read from disk as "
        f"they are needed, {num_held:,} held out"
    )
    by_class, weight = None, np.ones(len(y))
    if surveyed.class_weights is not None:
        counts = np.array([survey.label_counts[label] for label in target.classes or ()])
        by_class = weights_by_class(surveyed.class_weights, target, counts)
        if by_class is not None:
            terminal.note(in_words(by_class, target, counts))
            weight = by_class[y]
    warn_of_noise(recipe, terminal)
    with explained(terminal):
        batches = TableBatches(
            surveyed.tables, columns, scaling, apart=surveyed.apart,
            batch_size=min(recipe.plan(num_trained).batch_size, num_trained), seed=[source.seed, 2],
            class_weights=by_class,
        )  # fmt: skip
        fitted = fit_stream(
            recipe, batches, (x, y, weight), scaling, key=key, num_classes=num_classes,
            num_targets=num_targets, layout=columns.layout, progress=terminal.progress,
            checkpoint=checkpoint, resume=resume,
        )  # fmt: skip
    posterior, figures, by_target, conformal = fitted.posterior, {}, [], None
    if apart is not None:
        with as_input_errors():
            conformal = calibrate(posterior.predict(apart[0]), apart[1])
    if held is not None:
        predictive = posterior.predict(held[0])
        is_far = rows_too_far(predictive)
        if is_far.any():
            terminal.note(no_figures(places_of(is_far, held[2])))
        else:
            figures = find_figures(
                predictive, held[1], classes=num_classes is not None, key=test_key,
                trained_on=target.encode(survey.train_sample), conformal=conformal,
            )  # fmt: skip
            by_target = find_figures_by_target(
                predictive, held[1], key=test_key, conformal=conformal
            )
    trials = [trial._asdict() for trial in fitted.trials if trial.num_members]
    settings, ranges = recipe.settings(num_trained), _ranges(survey, columns)
    if by_class is not None:
        settings["class_weight"] = surveyed.class_weights
    return TableModel(
        posterior, columns, source, settings, figures, conformal, ranges, trials,
        by_target=by_target,
    )  # fmt: skip


def _ranges(survey: Survey, columns: Columns) -> Ranges:
    """What the numbers lie between; how they go together is that of the sample."""
    places = columns.number_places
    numbers = [i for i, column in enumerate(columns.inputs) if column.kind == "numeric"]
    values = columns.read(survey.train_sample)[:, numbers]
    fills = [columns.inputs[i].fill for i in numbers]  # pyright: ignore[reportAttributeAccessIssue]
    values = np.where(np.isnan(values), fills, values)
    ranges = find_ranges(values, [columns.features[place] for place in places])
    low, high = survey.ends(columns)
    return ranges._replace(low=low, high=high)


@contextmanager
def _bar(tables: ArrowTables, terminal: Terminal) -> Iterator[Any]:
    """A bar in rows, with bytes beside them, for the pass before training."""
    from tqdm import tqdm

    from scalemix.fitting.progress import in_bytes

    shown = sys.stderr.isatty() if terminal.progress is None else terminal.progress
    with tqdm(
        total=tables.num_rows, unit="row", unit_scale=True, dynamic_ncols=True, disable=not shown,
        file=sys.stderr, desc="looking at columns",
    ) as line:  # fmt: skip
        num_bytes = 0

        def report(rows: int, size: int) -> None:
            nonlocal num_bytes
            num_bytes += size
            line.set_postfix(read=in_bytes(num_bytes), refresh=False)
            line.update(rows)

        yield report
