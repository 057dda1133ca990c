"""From the columns of a table to the inputs of a network, as learned from the training table."""

import dataclasses
import itertools
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from scalemix.data.bins import ramps
from scalemix.data.scaling import FARTHEST
from scalemix.tables.cells import numbers, word
from scalemix.tables.reading import InputError, Table, listing
from scalemix.tables.targets import Target


@dataclasses.dataclass(frozen=True)
class Numeric:
    """A column of numbers or dates. A missing one counts as `fill`, the median.

    With `edges`, an input more for each bin between them.
    """

    name: str
    fill: float
    spread: float
    dates: bool = False
    edges: tuple[float, ...] = ()
    kind: Literal["numeric"] = "numeric"

    @property
    def features(self) -> list[str]:
        bins = itertools.pairwise(self.edges)
        return [self.name, *(f"{self.name}, {low:.4g} to {high:.4g}" for low, high in bins)]

    def encode(self, table: Table) -> np.ndarray:
        """Centred and scaled in double precision, for a year in seconds is too much for single."""
        values = np.array(numbers(table, self.name, dates=self.dates))
        values = np.where(np.isnan(values), self.fill, values)
        centred = ((values - self.fill) / self.spread)[:, None]
        if (far := np.abs(centred[:, 0]) > FARTHEST).any():
            raise table.error(
                int(np.argmax(far)),
                self.name,
                f"{values[far][0]:g} is more than {FARTHEST:g} spreads ({self.spread:g}) from "
                f"{self.fill:g}, the median of training: nothing can be told so far away. Correct "
                f"the cell; an empty one counts as the median.",
            )
        return np.concatenate([centred, ramps(values, self.edges)], axis=1)


@dataclasses.dataclass(frozen=True)
class Categorical:
    """A column of words, one-hot encoded. A missing or unknown one is zero in all of them."""

    name: str
    categories: tuple[str, ...]
    kind: Literal["categorical"] = "categorical"

    @property
    def features(self) -> list[str]:
        return [f"{self.name} = {category}" for category in self.categories]

    def encode(self, table: Table) -> np.ndarray:
        places = {category: i for i, category in enumerate(self.categories)}
        found = np.array(
            [-1 if c is None else places.get(word(c), -1) for c in table.column(self.name)]
        )
        return (found[:, None] == np.arange(len(self.categories))).astype(float)

    def unknown(self, table: Table) -> list[str]:
        """The categories of a table that there were none of in training."""
        present = {word(cell) for cell in table.column(self.name) if cell is not None}
        return sorted(present - set(self.categories))


class Encoded(NamedTuple):
    """Inputs for a network, and what was done to get them."""

    x: np.ndarray
    remarks: list[str]


@dataclasses.dataclass(frozen=True)
class Columns:
    """What a model remembers of its training table."""

    target: Target
    inputs: tuple[Numeric | Categorical, ...]
    left_out: dict[str, str]
    """Columns that are not used, and why."""

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

    def encode(self, table: Table) -> Encoded:
        """The inputs of a table with these columns, or an `InputError`."""
        missing = [column.name for column in self.inputs if column.name not in table.columns]
        if missing:
            raise InputError(
                f"{table.path}: there is no column {listing(missing)}, which the model was fitted "
                f"with. There are: {listing(table.columns)}."
            )
        remarks = []
        for column in self.inputs:
            holes = sum(cell is None for cell in table.column(column.name))
            if holes:
                as_what = "the median" if isinstance(column, Numeric) else "no category"
                remarks.append(f"{column.name!r}: {holes} missing, taken as {as_what}")
            if isinstance(column, Categorical) and (unknown := column.unknown(table)):
                remarks.append(
                    f"{column.name!r}: unknown {listing(unknown, 5)}, taken as no category"
                )
        return Encoded(np.concatenate([c.encode(table) for c in self.inputs], axis=1), remarks)

    def describe(self) -> list[str]:
        """What becomes of the columns, a line for each kind."""
        lines = [f"target: {self.target.describe()}"]
        for kind, chosen in {
            "numbers": [
                f"{c.name} ({len(c.edges) - 1} bins)" if c.edges else c.name
                for c in self.inputs
                if isinstance(c, Numeric) and not c.dates
            ],
            "dates, as days": [c.name for c in self.inputs if isinstance(c, Numeric) and c.dates],
            "categories, one-hot": [
                f"{c.name} ({len(c.categories)})" for c in self.inputs if isinstance(c, Categorical)
            ],
            "left out": [f"{name} ({reason})" for name, reason in self.left_out.items()],
        }.items():
            if chosen:
                lines.append(f"{kind}: {', '.join(chosen)}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """This as dicts and lists, for a model's file."""
        inputs = [dataclasses.asdict(column) for column in self.inputs]
        for column in inputs:
            name = "categories" if column["kind"] == "categorical" else "edges"
            column[name] = list(column[name])
        return {"target": self.target.to_json(), "inputs": inputs, "left_out": self.left_out}

    @staticmethod
    def from_json(said: Any) -> "Columns":
        """What `to_json` gave, or a `ValueError`."""
        try:
            inputs = tuple(_from_json(dict(column)) for column in said["inputs"])
            left_out = {name: _text(reason) for name, reason in said["left_out"].items()}
            return Columns(Target.from_json(said["target"]), inputs, left_out)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"The description of the columns is damaged ({error!r}).") from None


def _from_json(said: dict[str, Any]) -> Numeric | Categorical:
    name = _text(said["name"])
    if said["kind"] == "numeric":
        # A file from before there were bins has no edges.
        edges = tuple(_number(edge) for edge in said.get("edges", ()))
        if any(low >= high for low, high in itertools.pairwise(edges)):
            raise TypeError(f"edges that do not rise: {edges}")
        fill, spread, dates = (
            _number(said["fill"]),
            _number(said["spread"]),
            said.get("dates", False),
        )
        if spread <= 0 or not isinstance(dates, bool):
            raise TypeError(f"a spread of {spread}, dates {dates}")
        return Numeric(name, fill, spread, dates, edges)
    if said["kind"] != "categorical":
        raise TypeError(f"a column of the kind {said['kind']!r:.40}")
    return Categorical(name, tuple(_text(category) for category in said["categories"]))


def _text(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError(f"{said!r:.40} is no text")
    return said


def _number(said: Any) -> float:
    if type(said) not in (int, float) or not math.isfinite(said):
        raise TypeError(f"{said!r:.40} is no number")
    return float(said)
