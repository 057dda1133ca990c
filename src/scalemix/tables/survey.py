"""One pass over a table that is larger than memory: what its columns hold, and a sample of it."""

import copy
import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scalemix.data.bins import Bins
from scalemix.data.scaling import Scaling, ScalingMoments
from scalemix.fitting.settings import Task
from scalemix.tables.arrow_tables import KeptRows
from scalemix.tables.cells import distinct_of, numbers
from scalemix.tables.columns import Columns
from scalemix.tables.dates import DateOrder
from scalemix.tables.facts import ColumnFacts
from scalemix.tables.inputs import Categorical, Numeric
from scalemix.tables.learning import learn_inputs
from scalemix.tables.table import Cell, InputError, Table
from scalemix.tables.targets import MOST_CLASSES, label_of, learn_target, refuse_missing

if TYPE_CHECKING:
    from scalemix.likelihoods import Likelihood

# The median of so many rows is that of all to a fraction of a percent of them.
SAMPLE_ROWS = 100_000
ROWS_AT_A_TIME = 4096


class Survey:
    """What is learned of a table while its parts come by.

    Of a table that is no larger than the sample, `columns` and `scaling` are those of the table in
    memory.
    """

    def __init__(
        self,
        names: Sequence[str],
        targets: Sequence[str],
        num_rows: int,
        *,
        apart: np.ndarray,
        categorical: Sequence[str] = (),
        seed: int = 0,
        sample_rows: int = SAMPLE_ROWS,
    ):
        """`apart` are the numbers of rows that are not trained on, in rising order."""
        self.targets: tuple[str, ...] = tuple(targets)
        self.categorical: tuple[str, ...] = tuple(categorical)
        self.apart: np.ndarray = apart
        self.num_train: int = num_rows - len(apart)
        rows = np.arange(num_rows)
        if num_rows > sample_rows:
            # A generator of its own: another draws the rows that are held out.
            rng = np.random.default_rng([seed, 1])
            rows = np.sort(rng.choice(num_rows, sample_rows, replace=False, shuffle=False))
        self.sample: KeptRows = KeptRows(rows)
        self.facts: dict[str, ColumnFacts] = {
            name: ColumnFacts(name, as_words=name in categorical)
            for name in names
            if name not in targets
        }
        # Of a target above zero, the logarithm is what counts; which it is turns out later.
        self._of_targets = [
            ScalingMoments(inputs=False, targets=True, positive=positive)
            for positive in (False, True)
        ]
        self._labels: dict[str, tuple[Cell, str]] = {}
        self.label_counts: Counter[str] = Counter()
        """How many training rows have each label of a target that may be a class."""

    def add(self, table: Table, first: int) -> None:
        """One more part, whose first row has this number."""
        refuse_missing(table, self.targets)
        self.sample.add(table, first)
        train = np.ones(table.num_rows, bool)
        start, stop = np.searchsorted(self.apart, [first, first + table.num_rows])
        train[self.apart[start:stop] - first] = False
        for facts in self.facts.values():
            facts.add(table, train)
        self._add_targets(table, train)

    def _add_targets(self, table: Table, train: np.ndarray) -> None:
        if len(self.targets) == 1 and len(self._labels) <= 2 * MOST_CLASSES:
            cells, codes = distinct_of(table.written(self.targets[0]))
            which, rows = np.unique(codes, return_index=True)
            for i, row in zip(which.tolist(), rows.tolist(), strict=True):
                if len(self._labels) > 2 * MOST_CLASSES:
                    break
                cell = cells[int(i)]
                self._labels.setdefault(label_of(cell), (cell, table.places[int(row)]))
            for cell, num in zip(cells, np.bincount(codes[train], minlength=len(cells)).tolist(),
                                 strict=True):  # fmt: skip
                self.label_counts[label_of(cell)] += num
        try:
            each = [numbers(table, name)[train] for name in self.targets]
        except InputError:
            # Classes; or a mistake, which is named when the targets are encoded.
            return
        y = np.stack(each, axis=1) if len(each) > 1 else each[0]
        plain, positive = self._of_targets
        if len(y):
            plain.add(None, y, np.ones(len(y)))
        y = y[(y != 0).all(axis=1) if y.ndim == 2 else y != 0]
        if len(y):
            positive.add(None, y, np.ones(len(y)))

    @functools.cached_property
    def train_sample(self) -> Table:
        """The rows of the sample that are trained on, once the pass is over."""
        return self.sample.table.take(self._sampled_train())

    def _sampled_train(self) -> np.ndarray:
        return np.flatnonzero(~np.isin(self.sample.rows, self.apart))

    def columns(
        self,
        *,
        observed: Sequence[str] = (),
        task: Task | None = None,
        ignore: Sequence[str] = (),
        use: Sequence[str] = (),
        bins: Bins = None,
        date_order: DateOrder | None = None,
    ) -> Columns:
        """What to make of the columns; see `learn_columns`."""
        sample = self.sample.table
        for name in (*observed, *self.categorical, *ignore, *use):
            sample.column(name)
        learned = learn_target(self._target_table(sample), self.targets, task)
        learned = dataclasses.replace(learned, observed=tuple(observed))
        inputs = learn_inputs(
            sample, but=learned.columns, categorical=self.categorical, ignore=ignore, use=use,
            rows=self._sampled_train().tolist(), bins=bins, facts=self.facts,
            date_order=date_order,
        )  # fmt: skip
        return Columns(inputs.inputs, inputs.left_out, learned)

    def _target_table(self, sample: Table) -> Table:
        """The targets of the sample, and those classes that it has not."""
        columns = {name: list(sample.column(name)) for name in self.targets}
        places = list(sample.places)
        if len(self.targets) == 1:
            (cells,) = columns.values()
            known = {label_of(cell) for cell in cells}
            for label, (cell, place) in self._labels.items():
                if label not in known:
                    cells.append(cell)
                    places.append(place)
        return dataclasses.replace(sample, columns=columns, places=places)

    def scaling(self, columns: Columns, likelihood: "Likelihood") -> Scaling:
        """How inputs and targets are standardised: as from all training rows in memory.

        Only the means and ends of bins and repeated numbers, which are centred and keep their unit,
        are those of the sample.
        """
        means, ends = _means_and_ends(columns, columns.read(self.train_sample))
        scales, groups, flags = np.ones(len(means)), columns.groups, list[int]()
        for column in columns.inputs:
            facts, places = self.facts[column.name], groups[column.name]
            missing = facts.num_missing / self.num_train
            if isinstance(column, Numeric):
                moments = copy.deepcopy(facts.values(column.written).moments)
                if facts.num_missing:
                    moments.add(np.array([[column.fill]]), np.array([facts.num_missing]))
                (means[places[0]],), (scales[places[0]],) = moments.spread()
                if column.gaps:
                    means[places[-1]] = missing
                    flags.append(places[-1])
            elif isinstance(column, Categorical):
                counts = [facts.words.get(w, 0.0) / self.num_train for w in column.categories]
                counts += [missing] * column.gaps
                means[places] = [*counts, *[1 - sum(counts)] * column.unseen]
                flags += places
        ends[:, columns.number_places] = self.ends(columns)
        # What is zero or one has a mean above zero from the first row on that has it.
        half = 0.5 / self.num_train
        ends[:, flags] = means[flags] > 1 - half, means[flags] > half
        targets = Scaling(np.zeros(0), np.ones(0), 0.0, 1.0)
        if likelihood.continuous_units:
            targets = self._of_targets[likelihood.support[0] == 0].scaling()
        elif len(self.targets) > 1:
            shape = len(self.targets)
            targets = targets._replace(y_mean=np.zeros(shape), y_scale=np.ones(shape))
        return targets._replace(x_mean=means, x_scale=scales, x_ends=ends)

    def ends(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest number of each column of numbers, of training rows."""
        number_facts = [
            self.facts[c.name].values(c.written) for c in columns.inputs if isinstance(c, Numeric)
        ]
        low, high = [facts.low for facts in number_facts], [facts.high for facts in number_facts]
        return np.array(low), np.array(high)


def _means_and_ends(columns: Columns, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The means and ends of all inputs of rows, of which few are expanded at a time."""
    sums, lows, highs = [], [], []
    for start in range(0, len(values), ROWS_AT_A_TIME):
        part = columns.expand(values[start : start + ROWS_AT_A_TIME])
        sums.append(part.sum(axis=0))
        lows.append(part.min(axis=0))
        highs.append(part.max(axis=0))
    ends = np.stack([np.min(lows, axis=0), np.max(highs, axis=0)])
    return np.sum(sums, axis=0) / len(values), ends
