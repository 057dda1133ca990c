"""From the columns of a table to the inputs of a network, as learned from the training table."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from scalemix._text import counted, few_lines, listing, shortened
from scalemix.data.input_layout import InputLayout, join
from scalemix.data.ranges import UnknownWords
from scalemix.data.scaling import FARTHEST, Scaling, farthest_cell
from scalemix.tables.cells import short
from scalemix.tables.dates import FIRST
from scalemix.tables.inputs import Categorical, Numeric, from_json, read_text, to_json
from scalemix.tables.number_formats import look_like_numbers
from scalemix.tables.table import InputError, Remedy, Table
from scalemix.tables.targets import Target
from scalemix.tables.units import in_unit
from scalemix.tables.written_numbers import code_among


class Encoded(NamedTuple):
    """Inputs for a network, and what was done to get them.

    Attributes
    ----------
    x : ndarray of shape (rows, inputs)
        The inputs, in double precision.
    remarks : list of str
        What was missing, and what it was taken for.
    unknown : sequence of UnknownWords, default=()
        The columns with words that were not learned; they are taken as another category.
    empty : ndarray of bool, optional
        For each row, whether it has no value at all. `None` if every row has one.

    Examples
    --------
    >>> from scalemix.tables import Encoded
    >>> Encoded(np.zeros((2, 3)), []).x.shape
    (2, 3)
    """

    x: np.ndarray
    remarks: list[str]
    unknown: Sequence[UnknownWords] = ()
    empty: np.ndarray | None = None


def _bins(column: Numeric) -> str:
    """How many bins and repeated numbers a column has, and whether networks may do without them."""
    parts = [
        counted(num, what)
        for num, what in (
            (column.more.num_bins, "bin"),
            (len(column.repeated), "repeated number"),
        )
        if num
    ]
    if not parts:
        return ""
    return f" ({', '.join(parts)}{', if they help' if column.optional_bins else ''})"


def _gap_in_words(column: Categorical) -> str:
    """What a gap is taken for in a column of words that had none."""
    return "a word that is not known" if column.looked_up else "no category"


@dataclasses.dataclass(frozen=True)
class InputColumns:
    """What a model remembers of the columns that it predicts from. `learn_inputs` makes one.

    Parameters
    ----------
    inputs : tuple of Numeric or Categorical
        The columns to predict from.
    left_out : dict of str
        Columns that are not used, and why.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scalemix.tables import Table, learn_inputs
    >>> cells = {"a": ["1", "2", None, "9"], "k": ["u", "v", "u", "v"]}
    >>> table = Table(Path("a.csv"), cells, ["line 2", "line 3", "line 4", "line 5"], "")
    >>> columns = learn_inputs(table)
    >>> columns.features
    ['a', 'a is missing', 'k = u', 'k = v', 'k = another']
    >>> columns.encode(table).x[:, 0]
    array([1., 2., 2., 9.])
    """

    inputs: tuple[Numeric | Categorical, ...]
    left_out: dict[str, str]

    @property
    def features(self) -> list[str]:
        """What each input of the network is."""
        return [feature for column in self.inputs for feature in column.features]

    @property
    def groups(self) -> dict[str, list[int]]:
        """Which inputs of the network each column became, by number."""
        ends = np.cumsum([0, *(len(column.features) for column in self.inputs)]).tolist()
        return {
            column.name: list(range(start, end))
            for column, start, end in zip(self.inputs, ends[:-1], ends[1:], strict=True)
        }

    @property
    def number_places(self) -> list[int]:
        """Which inputs of the network are the numbers and dates of the table, as they are."""
        return [self.groups[c.name][0] for c in self.inputs if isinstance(c, Numeric)]

    @property
    def layout(self) -> InputLayout:
        """What each input of the network was made of."""
        return join([column.layout for column in self.inputs])

    @property
    def numbers(self) -> set[str]:
        """The columns whose text is to be read as numbers."""
        return {c.name for c in self.inputs if isinstance(c, Numeric) and not c.dates}

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns whose numbers have one."""
        return {c.name: c.unit for c in self.inputs if isinstance(c, Numeric) and c.unit}

    def encode(self, table: Table) -> Encoded:
        """The inputs of a table with these columns, or an `InputError`."""
        missing = [column.name for column in self.inputs if column.name not in table.columns]
        if missing:
            raise InputError(
                f"{table.path}: there is no column {listing(missing)}, which the model was fitted "
                f"with. There are: {listing(table.columns)}. Rename or add what is missing, be it "
                f"as an empty column, or fit again ",
                Remedy("with --ignore.", "without such a column."),
            )
        told = [
            f"{column.name!r}: {holes} missing, which networks are told"
            for column in self.inputs
            if column.gaps and (holes := table.column(column.name).count(None))
        ]
        remarks = [*few_lines(told), *self.surprises(table)]
        x = self.expand(self.read(table))
        return Encoded(x, remarks, self.unknown(table), self.empty_rows(table))

    def read(self, table: Table) -> np.ndarray:
        """One number for each row and column, from which `expand` makes the inputs."""
        return np.stack([column.read(table) for column in self.inputs], axis=1)

    def expand(self, values: np.ndarray) -> np.ndarray:
        """The inputs of rows that `read` gave."""
        parts = [column.expand(values[:, i]) for i, column in enumerate(self.inputs)]
        return np.concatenate(parts, axis=1)

    def extra(self, table: Table) -> list[str]:
        """The columns of a table that the one to learn from had not."""
        known = {*(column.name for column in self.inputs), *self.left_out}
        return [name for name in table.columns if name not in known]

    def without_bins(self) -> Self:
        """The same columns, of which none has bins or repeated numbers."""
        plain = (
            dataclasses.replace(column, edges=(), repeated=(), optional_bins=False)
            if isinstance(column, Numeric)
            else column
            for column in self.inputs
        )
        return dataclasses.replace(self, inputs=tuple(plain))

    def unknown(self, table: Table) -> list[UnknownWords]:
        """The columns with words that the table to learn from had not."""
        words = [c.unknown(table) for c in self.inputs if isinstance(c, Categorical)]
        return [unknown for unknown in words if unknown is not None]

    def empty_rows(self, table: Table) -> np.ndarray | None:
        """For each row, whether it has no value in any of these columns; `None` if all have one.

        Where there is one column, and it had gaps in the table to learn from, a gap is a value.
        """
        columns = [table.column(column.name) for column in self.inputs]
        had_gaps = len(columns) == 1 and self.inputs[0].gaps
        if had_gaps or not all(column.count(None) for column in columns):
            return None
        rows = list(range(table.num_rows))
        for column in columns:
            rows = [row for row in rows if column[row] is None]
        empty = np.zeros(table.num_rows, bool)
        empty[rows] = True
        return empty if rows else None

    def taken_for_words(self, table: Table) -> dict[str, str]:
        """The columns of words that look like numbers, each with a cell that does.

        Not those whose type says that they are categories.
        """
        words = [c.name for c in self.inputs if isinstance(c, Categorical)]
        cells = {n: look_like_numbers(table.column(n)) for n in words if n not in table.categorical}
        return {name: cell for name, cell in cells.items() if cell is not None}

    def taken_for_numbers(self, table: Table) -> str | None:
        """A line about columns of numbers that may be codes, such as 00501, if there are any."""
        # Targets that are numbers are among these, too.
        numbers = self.numbers
        names = [column.name for column in self.inputs if column.name in numbers]
        codes = {name: code_among(table.written(name)) for name in names}
        told = [f"{n!r} ({code} is {int(code)})" for n, code in codes.items() if code is not None]
        return f"text with zeros in front is read as numbers: {shortened(told)}" if told else None

    def surprises(self, table: Table) -> list[str]:
        """The gaps of columns that had none in the table to learn from; what they are taken for."""
        said = []
        for column in self.inputs:
            holes = 0 if column.gaps else table.column(column.name).count(None)
            if holes:
                as_what = "the median" if isinstance(column, Numeric) else _gap_in_words(column)
                said.append(f"{column.name!r}: {holes} missing, taken as {as_what}")
        return few_lines(said)

    def refuse_far(self, table: Table, x: np.ndarray, scaling: Scaling) -> None:
        """Raise `InputError` if a cell lies too far from the training data to predict from.

        `x` are the inputs of the table, and `scaling` is how the model standardises them.
        """
        seen = scaling.drawn_in(scaling.inputs(x))
        far = farthest_cell(seen, np.flatnonzero(self.layout.levels))
        if far is not None:
            row, feature = far
            name = next(name for name, places in self.groups.items() if feature in places)
            raise table.error(
                row,
                name,
                f"{short(table.column(name)[row])} is more than {FARTHEST:g} standard deviations "
                f"from the mean of training: nothing can be predicted so far away. Correct the "
                f"cell; an empty one counts as the median.",
            )

    def describe(self) -> list[str]:
        """What becomes of the columns, a line for each kind."""
        lines = []
        for kind, chosen in {
            "numbers": [
                in_unit(c.name, c.unit) + _bins(c)
                for c in self.inputs
                if isinstance(c, Numeric) and not c.dates
            ],
            "dates, as days": [
                c.name if c.date_order == "ymd" else f"{c.name} ({FIRST[c.date_order]} first)"
                for c in self.inputs
                if isinstance(c, Numeric) and c.dates
            ],
            "categories, one-hot": [
                f"{c.name} ({len(c.categories)})"
                for c in self.inputs
                if isinstance(c, Categorical) and not c.looked_up
            ],
            "categories, looked up": [
                f"{c.name} ({len(c.categories):,})"
                for c in self.inputs
                if isinstance(c, Categorical) and c.looked_up
            ],
            "left out": [f"{name} ({reason})" for name, reason in self.left_out.items()],
        }.items():
            if chosen:
                lines.append(f"{kind}: {shortened(chosen)}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """The same as dicts and lists, for a model's file."""
        return {"inputs": [to_json(column) for column in self.inputs], "left_out": self.left_out}


@dataclasses.dataclass(frozen=True)
class Columns(InputColumns):
    """What a model remembers of its training table. `learn_columns` makes one.

    Parameters
    ----------
    inputs : tuple of Numeric or Categorical
        The columns to predict from.
    left_out : dict of str
        Columns that are not used, and why.
    target : Target
        The column to predict, or several.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scalemix.tables import Table, learn_columns
    >>> cells = {"a": ["1", "2", "9"], "y": ["1", "3", "2"]}
    >>> table = Table(Path("a.csv"), cells, ["line 2", "line 3", "line 4"], "")
    >>> learn_columns(table, "y").describe()[0]
    'target: y, regression (numbers)'
    """

    target: Target

    @property
    def numbers(self) -> set[str]:
        """The columns whose text is to be read as numbers."""
        return super().numbers | (set(self.target.names) if self.target.classes is None else set())

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns whose numbers have one."""
        of_targets = dict(zip(self.target.names, self.target.units, strict=False))
        return super().units | {name: unit for name, unit in of_targets.items() if unit}

    def extra(self, table: Table) -> list[str]:
        """The columns of a table that the one to learn from had not."""
        return [name for name in super().extra(table) if name not in self.target.columns]

    def describe(self) -> list[str]:
        """What becomes of the columns, a line for each kind."""
        target = self.target
        return [f"target: {target.describe()}", *target.on_parts(), *super().describe()]

    def to_json(self) -> dict[str, Any]:
        """The same as dicts and lists, for a model's file."""
        return {"target": self.target.to_json(), **super().to_json()}

    @staticmethod
    def from_json(said: Any) -> "Columns":
        """What `to_json` gave, or a `ValueError`."""
        try:
            inputs = tuple(from_json(dict(column)) for column in said["inputs"])
            left_out = {name: read_text(reason) for name, reason in said["left_out"].items()}
            return Columns(inputs, left_out, Target.from_json(said["target"]))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"The description of the columns is damaged ({error!r}).") from None
