"""One column of a table as inputs of a network: numbers and dates, or words."""

import dataclasses
import itertools
from typing import Any, Literal

import numpy as np

from scalemix.data.bins import ramps
from scalemix.data.input_layout import InputLayout, of_categories, of_numbers
from scalemix.data.values import is_finite
from scalemix.tables.cells import numbers, word
from scalemix.tables.reading import Table


@dataclasses.dataclass(frozen=True)
class Numeric:
    """A column of numbers or dates.

    With `edges`, each bin between two of them is one more input. A missing number counts as `fill`,
    the median; with `gaps`, the last input says that it is missing, so that networks learn what to
    make of that.
    """

    name: str
    fill: float
    dates: bool = False
    edges: tuple[float, ...] = ()
    spread: float | None = None
    """In files from before only the fit standardised: the column is centred on `fill` and divided
    by this first."""
    gaps: bool = False
    optional_bins: bool = False
    """Whether held-out rows may decide to do without the bins."""
    kind: Literal["numeric"] = "numeric"

    @property
    def features(self) -> list[str]:
        """What each input is."""
        bins = itertools.pairwise(self.edges)
        gaps = [f"{self.name} is missing"] if self.gaps else []
        return [self.name, *(f"{self.name}, {low:.4g} to {high:.4g}" for low, high in bins), *gaps]

    @property
    def layout(self) -> InputLayout:
        """What the inputs are."""
        num_bins = max(len(self.edges) - 1, 0)
        return of_numbers(num_bins, optional=self.optional_bins, gaps=self.gaps)

    def encode(self, table: Table) -> np.ndarray:
        """The numbers in double precision, as they are: whoever fits to them standardises them."""
        values = np.array(numbers(table, self.name, dates=self.dates))
        missing = np.isnan(values)
        values = np.where(missing, self.fill, values)
        inputs = values if self.spread is None else (values - self.fill) / self.spread
        gaps = missing[:, None].astype(float)[:, : int(self.gaps)]
        return np.concatenate([inputs[:, None], ramps(values, self.edges), gaps], axis=1)


@dataclasses.dataclass(frozen=True)
class Categorical:
    """A column of words, one-hot encoded. For a missing one all inputs are zero, unless `gaps`.

    With `unseen`, the last input stands for all words that are not among the categories. Where
    training had none, its weights have the spread that the prior gives to a category of this
    column, so that predictions for an unseen word are less sure.
    """

    name: str
    categories: tuple[str, ...]
    gaps: bool = False
    unseen: bool = False
    kind: Literal["categorical"] = "categorical"

    @property
    def features(self) -> list[str]:
        """What each input is."""
        gaps = [f"{self.name} is missing"] if self.gaps else []
        others = [f"{self.name} = another"] if self.unseen else []
        return [*(f"{self.name} = {category}" for category in self.categories), *gaps, *others]

    @property
    def layout(self) -> InputLayout:
        """What the inputs are."""
        return of_categories(len(self.features))

    def encode(self, table: Table) -> np.ndarray:
        """One and zeros."""
        # Files from before spell whole numbers in several ways.
        places = {word(category): i for i, category in enumerate(self.categories)}
        num, size = len(places), len(self.features)
        missing, other = num if self.gaps else -1, size - 1 if self.unseen else -1
        cells = table.column(self.name)
        positions = [missing if cell is None else places.get(word(cell), other) for cell in cells]
        return (np.array(positions)[:, None] == np.arange(size)).astype(float)

    def unknown(self, table: Table) -> list[str]:
        """The categories of a table that did not occur in training."""
        present = {word(cell) for cell in table.column(self.name) if cell is not None}
        return sorted(present - {word(category) for category in self.categories})


def to_json(column: Numeric | Categorical) -> dict[str, Any]:
    """The column as a file keeps it."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(column).items()
        # Files from before there were gaps, unseen words and choices among bins have none of these.
        if value is not False and (name, value) != ("spread", None)
    }


def from_json(said: dict[str, Any]) -> Numeric | Categorical:
    """The column that `to_json` described; `KeyError` or `TypeError` if it is damaged."""
    name = read_text(said["name"])
    if said["kind"] == "numeric":
        # A file from before there were bins has no edges.
        edges = tuple(_number(edge) for edge in said.get("edges", ()))
        if any(low >= high for low, high in itertools.pairwise(edges)):
            raise TypeError(f"edges that do not rise: {edges}")
        dates = _flag(said, "dates")
        spread = _number(said["spread"]) if "spread" in said else None
        if spread is not None and spread <= 0:
            raise TypeError(f"a spread of {spread}")
        fill, gaps, optional = (
            _number(said["fill"]),
            _flag(said, "gaps"),
            _flag(said, "optional_bins"),
        )
        return Numeric(name, fill, dates, edges, spread, gaps, optional)
    if said["kind"] != "categorical":
        raise TypeError(f"a column of the kind {said['kind']!r:.40}")
    categories = tuple(read_text(category) for category in said["categories"])
    return Categorical(name, categories, _flag(said, "gaps"), _flag(said, "unseen"))


def read_text(said: Any) -> str:
    """Text from JSON, or a `TypeError`."""
    if not isinstance(said, str):
        raise TypeError(f"{said!r:.40} is no text")
    return said


def _flag(said: dict[str, Any], name: str) -> bool:
    flag = said.get(name, False)
    if not isinstance(flag, bool):
        raise TypeError(f"{name} {flag!r:.40}")
    return flag


def _number(said: Any) -> float:
    if not is_finite(said):
        raise TypeError(f"{said!r:.40} is no number")
    return float(said)
