"""One column of a table as inputs of a network: numbers and dates, or words."""

import dataclasses
import itertools
from typing import Any, Literal

import numpy as np

from scalemix.data.input_layout import InputLayout, of_categories, of_levels, of_numbers
from scalemix.data.number_inputs import NumberInputs
from scalemix.data.ranges import UnknownWords
from scalemix.data.values import is_finite
from scalemix.tables.cells import distinct_of, numbers, word
from scalemix.tables.dates import FIRST, DateOrder
from scalemix.tables.table import Table

# Only so many categories have inputs of their own; the rarest ones beyond share one.
MOST_CATEGORIES = 500
# And only so many are looked up. Each step of a fit goes over the weights of all of them, which are
# 1.6 million if there are 50 units, and for each weight Adam reads or writes six numbers.
MOST_LEVELS = 32_768
# Values that go without saying in a file.
UNSAID = (("spread", None), ("date_order", "ymd"), ("unit", ""), ("repeated", ()))


@dataclasses.dataclass(frozen=True)
class Numeric:
    """A column of numbers or dates.

    With `edges`, each bin between two of them is one more input, and so is each of the `repeated`
    numbers. A missing number counts as `fill`, the median; with `gaps`, the last input says that it
    is missing, so that networks learn what to make of that.
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
    """Whether held-out rows may decide to do without bins and repeated numbers."""
    date_order: DateOrder = "ymd"
    """What comes first in dates."""
    unit: str = ""
    """The sign that numbers had, such as %."""
    repeated: tuple[float, ...] = ()
    """The numbers that so many rows share that each has an input of its own."""
    kind: Literal["numeric"] = "numeric"

    @property
    def features(self) -> list[str]:
        """What each input is."""
        gaps = [f"{self.name} is missing"] if self.gaps else []
        return [self.name, *self.more.names(self.name), *gaps]

    @property
    def more(self) -> NumberInputs:
        """Bins and repeated numbers."""
        return NumberInputs(self.edges, self.repeated)

    @property
    def layout(self) -> InputLayout:
        """What the inputs are."""
        return of_numbers(
            self.more.num_bins, len(self.repeated), optional=self.optional_bins, gaps=self.gaps
        )

    @property
    def written(self) -> DateOrder | None:
        """The order in which dates are written; `None` for numbers."""
        return self.date_order if self.dates else None

    def read(self, table: Table) -> np.ndarray:
        """One number a row: the cell, or NaN."""
        return numbers(table, self.name, dates=self.written)

    def expand(self, values: np.ndarray) -> np.ndarray:
        """The inputs of what `read` gave, in double precision, as they are: whoever fits to them
        standardises them."""
        missing = np.isnan(values)
        values = np.where(missing, self.fill, values)
        inputs = values if self.spread is None else (values - self.fill) / self.spread
        gaps = missing[:, None].astype(float)[:, : int(self.gaps)]
        # A gap is something of its own where training had some, and counts as the median elsewhere.
        more = self.more.expand(values, ~missing if self.gaps else None)
        return np.concatenate([inputs[:, None], more, gaps], axis=1)


@dataclasses.dataclass(frozen=True)
class Categorical:
    """A column of words, one-hot encoded. For a missing one all inputs are zero, unless `gaps`.

    With `unseen`, the last input stands for all words that are not among the categories. Where
    training had none, its weights have the spread that the prior gives to a category of this
    column, so that predictions for an unseen word are less sure.

    With `looked_up` there is one input instead: the position of the input that would be one. There
    is none for a word that is missing or not known, unless the two have a position of their own,
    so that `unseen` goes with it.
    """

    name: str
    categories: tuple[str, ...]
    gaps: bool = False
    unseen: bool = False
    looked_up: bool = False
    kind: Literal["categorical"] = "categorical"

    @property
    def features(self) -> list[str]:
        """What each input is."""
        return [self.name] if self.looked_up else self.levels

    @property
    def levels(self) -> list[str]:
        """What each level is, which has weights of its own."""
        gaps = [f"{self.name} is missing"] if self.gaps else []
        others = [f"{self.name} = another"] if self.unseen else []
        return [*(f"{self.name} = {category}" for category in self.categories), *gaps, *others]

    @property
    def layout(self) -> InputLayout:
        """What the inputs are."""
        num = len(self.levels)
        return of_levels(num) if self.looked_up else of_categories(num)

    def read(self, table: Table) -> np.ndarray:
        """One number a row: the position of the level that is there, or -1 if none is."""
        # Files from before spell whole numbers in several ways.
        places = {word(category): i for i, category in enumerate(self.categories)}
        num, size = len(places), len(self.levels)
        other = size - 1 if self.unseen else -1
        # Something has to be looked up: if training had no gaps, one is as unknown as a new word.
        missing = num if self.gaps else other if self.looked_up else -1
        cells, codes = distinct_of(table.written(self.name))
        positions = [missing if cell is None else places.get(word(cell), other) for cell in cells]
        return np.array(positions, float)[codes]

    def expand(self, values: np.ndarray) -> np.ndarray:
        """The inputs of what `read` gave: one and zeros, or the position itself."""
        if self.looked_up:
            return values[:, None]
        return (values[:, None] == np.arange(len(self.features))).astype(float)

    def unknown(self, table: Table) -> UnknownWords | None:
        """The words of a table that did not occur in training, if there are any."""
        if len(self.categories) >= (MOST_LEVELS if self.looked_up else MOST_CATEGORIES):
            # Training may have had them, among the rare words that share an input.
            return None
        cells, codes = distinct_of(table.written(self.name))
        known = {None, *(word(category) for category in self.categories)}
        words = [None if cell is None else word(cell) for cell in cells]
        rows = np.array([said not in known for said in words], bool)[codes]
        present = {words[code] for code in np.unique(codes[rows]).tolist()}
        unseen = tuple(sorted(said for said in present if said is not None))
        return UnknownWords(self.name, unseen, rows) if unseen else None


def to_json(column: Numeric | Categorical) -> dict[str, Any]:
    """The column as a file keeps it."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(column).items()
        # Files from before there were gaps, unseen words, levels that are looked up, and choices
        # among bins have none of these.
        if value is not False and (name, value) not in UNSAID
    }


def from_json(said: dict[str, Any]) -> Numeric | Categorical:
    """The column that `to_json` described; `KeyError` or `TypeError` if it is damaged."""
    name = read_text(said["name"])
    if said["kind"] == "numeric":
        # A file from before there were bins has no edges.
        edges = tuple(_number(edge) for edge in said.get("edges", ()))
        repeated = tuple(_number(number) for number in said.get("repeated", ()))
        for rising in (edges, repeated):
            if any(low >= high for low, high in itertools.pairwise(rising)):
                raise TypeError(f"numbers that do not rise: {rising}")
        dates = _flag(said, "dates")
        spread = _number(said["spread"]) if "spread" in said else None
        if spread is not None and spread <= 0:
            raise TypeError(f"a spread of {spread}")
        fill, gaps, optional = (
            _number(said["fill"]),
            _flag(said, "gaps"),
            _flag(said, "optional_bins"),
        )
        order = said.get("date_order", "ymd")
        if order not in FIRST:
            raise TypeError(f"dates in the order {order!r:.40}")
        unit = read_text(said.get("unit", ""))
        return Numeric(name, fill, dates, edges, spread, gaps, optional, order, unit, repeated)
    if said["kind"] != "categorical":
        raise TypeError(f"a column of the kind {said['kind']!r:.40}")
    categories = tuple(read_text(category) for category in said["categories"])
    unseen, looked_up = _flag(said, "unseen"), _flag(said, "looked_up")
    if looked_up and not unseen:
        raise TypeError("levels to look up, and none for words that are not known")
    return Categorical(name, categories, _flag(said, "gaps"), unseen, looked_up)


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
