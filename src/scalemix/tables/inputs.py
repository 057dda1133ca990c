"""One column of a table as inputs of a network: numbers and dates, or words."""

import dataclasses
import itertools
from typing import Any, Literal

import numpy as np

from scalemix.data.bins import ramps
from scalemix.data.values import is_finite
from scalemix.tables.cells import numbers, word
from scalemix.tables.reading import Table


@dataclasses.dataclass(frozen=True)
class Numeric:
    """A column of numbers or dates. A missing one counts as `fill`, the median.

    With `edges`, each bin between two of them is one more input.
    """

    name: str
    fill: float
    dates: bool = False
    edges: tuple[float, ...] = ()
    spread: float | None = None
    """In files from before only the fit standardised: the column is centred on `fill` and divided
    by this first."""
    kind: Literal["numeric"] = "numeric"

    @property
    def features(self) -> list[str]:
        """What each input is."""
        bins = itertools.pairwise(self.edges)
        return [self.name, *(f"{self.name}, {low:.4g} to {high:.4g}" for low, high in bins)]

    def encode(self, table: Table) -> np.ndarray:
        """The numbers in double precision, as they are: whoever fits to them standardises them."""
        values = np.array(numbers(table, self.name, dates=self.dates))
        values = np.where(np.isnan(values), self.fill, values)
        inputs = values if self.spread is None else (values - self.fill) / self.spread
        return np.concatenate([inputs[:, None], ramps(values, self.edges)], axis=1)


@dataclasses.dataclass(frozen=True)
class Categorical:
    """A column of words, one-hot encoded. For a missing or unknown one all inputs are zero."""

    name: str
    categories: tuple[str, ...]
    kind: Literal["categorical"] = "categorical"

    @property
    def features(self) -> list[str]:
        """What each input is."""
        return [f"{self.name} = {category}" for category in self.categories]

    def encode(self, table: Table) -> np.ndarray:
        """One and zeros."""
        places = {category: i for i, category in enumerate(self.categories)}
        positions = np.array(
            [-1 if c is None else places.get(word(c), -1) for c in table.column(self.name)]
        )
        return (positions[:, None] == np.arange(len(self.categories))).astype(float)

    def unknown(self, table: Table) -> list[str]:
        """The categories of a table that did not occur in training."""
        present = {word(cell) for cell in table.column(self.name) if cell is not None}
        return sorted(present - set(self.categories))


def to_json(column: Numeric | Categorical) -> dict[str, Any]:
    """The column as a file keeps it."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(column).items()
        if (name, value) != ("spread", None)
    }


def from_json(said: dict[str, Any]) -> Numeric | Categorical:
    """The column that `to_json` described; `KeyError` or `TypeError` if it is damaged."""
    name = read_text(said["name"])
    if said["kind"] == "numeric":
        # A file from before there were bins has no edges.
        edges = tuple(_number(edge) for edge in said.get("edges", ()))
        if any(low >= high for low, high in itertools.pairwise(edges)):
            raise TypeError(f"edges that do not rise: {edges}")
        dates = said.get("dates", False)
        if not isinstance(dates, bool):
            raise TypeError(f"dates {dates!r:.40}")
        spread = _number(said["spread"]) if "spread" in said else None
        if spread is not None and spread <= 0:
            raise TypeError(f"a spread of {spread}")
        return Numeric(name, _number(said["fill"]), dates, edges, spread)
    if said["kind"] != "categorical":
        raise TypeError(f"a column of the kind {said['kind']!r:.40}")
    return Categorical(name, tuple(read_text(category) for category in said["categories"]))


def read_text(said: Any) -> str:
    """Text from JSON, or a `TypeError`."""
    if not isinstance(said, str):
        raise TypeError(f"{said!r:.40} is no text")
    return said


def _number(said: Any) -> float:
    if not is_finite(said):
        raise TypeError(f"{said!r:.40} is no number")
    return float(said)
