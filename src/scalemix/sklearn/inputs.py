"""From what `fit` and `predict` are given to the inputs of networks.

Numbers in an array are one input each, and one for each bin and repeated number. A data frame that
has anything else in it goes through the encoder of `scalemix.tables`, as a file does on the command
line.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from scalemix._text import shortened
from scalemix._warnings import warn
from scalemix.data.bins import Bins
from scalemix.data.input_layout import InputLayout, join, of_numbers
from scalemix.data.number_inputs import NumberInputs, learn_number_inputs
from scalemix.data.preparation import InputWarning
from scalemix.data.ranges import Outside, Ranges
from scalemix.tables import InputColumns, Table, is_frame, learn_inputs
from scalemix.tables.cells import short
from scalemix.tables.frames import names_of

Rows = np.ndarray | Table
"""Rows of numbers, or of cells."""


def needs_encoding(x: Any) -> bool:
    """Whether this is a data frame with more in it than numbers."""
    if not is_frame(x) or not len(x):
        return False
    return any(_has_more(x[name]) for name in x.columns)


def _has_more(column: Any) -> bool:
    """Whether a column of a frame has text, categories, truth values, dates or gaps."""
    kind = str(getattr(column, "dtype", "")).lower()
    if not kind.startswith(("int", "uint", "float", "double")):
        return True
    # A nullable column holds objects where it has gaps.
    values = np.asarray(column)
    return values.dtype.kind == "O" or bool(np.isnan(values.astype(np.float64)).any())


def note_columns(estimator: Any, X: Any, *, reset: bool) -> None:
    """Have scikit-learn note the columns of a frame, or compare them; the cells are not for it."""
    names_of(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def validated(estimator: Any, X: Any, *more: Any, **how: Any) -> Any:
    """What scikit-learn makes of a table of numbers, or of it and a target; or a `ValueError`."""
    if is_frame(X):
        names_of(X)
    try:
        return validate_data(estimator, X, *more, **how)
    except ValueError as error:
        if "X contains NaN" not in str(error):
            raise
        # scikit-learn would name other estimators.
        raise ValueError(
            "Input X contains NaN. Fill such cells, or leave out their rows; or fit to a data "
            "frame in which values are missing, of which networks are told."
        ) from None


def take(rows: Rows, places: np.ndarray) -> Rows:
    """Some of the rows."""
    return rows.take(places) if isinstance(rows, Table) else rows[places]


def count(rows: Rows) -> int:
    """How many rows there are."""
    return rows.num_rows if isinstance(rows, Table) else len(rows)


@dataclasses.dataclass(frozen=True)
class NumberEncoder:
    """An array of numbers; after all of them their bins, and those that repeat."""

    edges: tuple[tuple[float, ...], ...]
    optional: bool
    repeated: tuple[tuple[float, ...], ...] = ()
    """By column; in pickles from before there is nothing."""

    @property
    def more(self) -> list[NumberInputs]:
        """What each column becomes besides the number itself."""
        both = itertools.zip_longest(self.edges, self.repeated, fillvalue=())
        return [NumberInputs(*one) for one in both]

    @property
    def repeated_numbers(self) -> tuple[tuple[float, ...], ...]:
        """The numbers of each column that have inputs of their own."""
        return tuple(of.repeated for of in self.more)

    @property
    def layout(self) -> InputLayout:
        """What the inputs are: all numbers, then bins and repeated numbers by column."""
        each = join(
            [of_numbers(m.num_bins, len(m.repeated), optional=self.optional) for m in self.more]
        )
        # The first input of a column is the number itself.
        return InputLayout(*(part[np.argsort(~each.scaled, kind="stable")] for part in each))

    def outside(self, ranges: Ranges, rows: Rows, x: np.ndarray) -> Outside:
        """How far rows, which became the inputs `x`, lie outside; none has words or gaps."""
        return ranges.outside(self.numbers(x))

    def encode(self, rows: Rows) -> np.ndarray:
        """The inputs of networks."""
        assert not isinstance(rows, Table)
        more = [of.expand(column) for column, of in zip(rows.T, self.more, strict=True)]
        return np.concatenate([rows, *more], axis=1)

    def numbers(self, x: np.ndarray) -> np.ndarray:
        """The numbers among encoded inputs."""
        return x[:, : len(self.edges)]

    def number_names(self, names: list[str]) -> list[str]:
        """What these numbers are called, where the columns have such names."""
        return names

    @property
    def lost(self) -> dict[str, str]:
        """Columns that are not used, and why: there are none."""
        return {}

    @property
    def places(self) -> list[list[int]]:
        """The inputs that each column became."""
        owners = self.layout.columns
        return [np.flatnonzero(owners == column).tolist() for column in range(len(self.edges))]


@dataclasses.dataclass(frozen=True)
class FrameEncoder:
    """A data frame as `scalemix.tables` encodes it."""

    columns: InputColumns
    names: tuple[str, ...]
    """Of all columns, those that were left out included."""

    @property
    def layout(self) -> InputLayout:
        """What the inputs are."""
        return self.columns.layout

    @property
    def edges(self) -> tuple[tuple[float, ...], ...]:
        """The ends of each column's bins."""
        return self._of_numbers("edges")

    @property
    def repeated_numbers(self) -> tuple[tuple[float, ...], ...]:
        """The numbers of each column that have inputs of their own."""
        return self._of_numbers("repeated")

    def _of_numbers(self, field: str) -> tuple[tuple[float, ...], ...]:
        by_name = {column.name: getattr(column, field, ()) for column in self.columns.inputs}
        return tuple(by_name.get(name, ()) for name in self.names)

    @property
    def lost(self) -> dict[str, str]:
        """Columns that are not used though they say something, and why."""
        said_nothing = ("empty", "the same in every row")
        left_out = self.columns.left_out.items()
        return {name: why for name, why in left_out if why not in said_nothing}

    def outside(self, ranges: Ranges, rows: Rows, x: np.ndarray) -> Outside:
        """How far rows, which became the inputs `x`, lie outside, by numbers, words and gaps."""
        assert isinstance(rows, Table)
        unknown, empty = self.columns.unknown(rows), self.columns.empty_rows(rows)
        return ranges.outside(self.numbers(x), unknown, empty)

    def encode(self, rows: Rows) -> np.ndarray:
        """The inputs of networks."""
        assert isinstance(rows, Table)
        return self.columns.encode(rows).x

    def numbers(self, x: np.ndarray) -> np.ndarray:
        """The numbers among encoded inputs."""
        return x[:, self.columns.number_places]

    def number_names(self, names: list[str]) -> list[str]:
        """What these numbers are called."""
        return [self.columns.features[place] for place in self.columns.number_places]

    @property
    def places(self) -> list[list[int]]:
        """The inputs that each column became: none if it was left out."""
        groups = self.columns.groups
        return [groups.get(name, []) for name in self.names]


def warn_of_text(columns: InputColumns, table: Table) -> None:
    """Say which columns look like numbers but are text, and what they are taken for."""
    if words := columns.taken_for_words(table):
        told = shortened(f"{name!r} ({short(cell)})" for name, cell in words.items())
        warn(
            f"These columns are text that looks like numbers, and are taken for words: {told}. "
            f"Make numbers of them; or, if they are labels, give them a categorical type.",
            InputWarning,
        )
    if said := columns.taken_for_numbers(table):
        warn(
            f"In a data frame {said}. If they are labels, give them a categorical type.",
            InputWarning,
        )


Encoder = NumberEncoder | FrameEncoder


def learn_encoder(
    rows: Rows, bins: Bins, weight: np.ndarray | None, *, look_up: bool = False
) -> Encoder:
    """What to make of rows like these, each of which counts as often as its weight says."""
    if isinstance(rows, Table):
        columns = learn_inputs(rows, use=None, bins=bins, weight=weight, look_up=look_up)
        warn_of_text(columns, rows)
        return FrameEncoder(columns, tuple(rows.columns))
    num_rows = len(rows) if weight is None else int(np.count_nonzero(weight))
    more = learn_number_inputs(list(rows.T), bins, num_rows, weight)
    edges, repeated = tuple(m.edges for m in more), tuple(m.repeated for m in more)
    return NumberEncoder(edges, bins == "auto", repeated)
