"""From the columns of a table to the inputs of a network, as learned from the training table."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from scalemix.tables.cells import numbers, says_dates, says_numbers, short, word
from scalemix.tables.reading import InputError, Table, listing
from scalemix.tables.targets import Target, learn_target

# Beyond these the rarest categories count as none.
MOST_CATEGORIES = 30


@dataclasses.dataclass(frozen=True)
class Numeric:
    """A column of numbers or dates. A missing one counts as `fill`, the median."""

    name: str
    fill: float
    spread: float
    dates: bool = False
    kind: Literal["numeric"] = "numeric"

    @property
    def features(self) -> list[str]:
        return [self.name]

    def encode(self, table: Table) -> np.ndarray:
        """Centred and scaled in double precision, for a year in seconds is too much for single."""
        values = np.array(numbers(table, self.name, dates=self.dates))
        centred = np.where(np.isnan(values), 0.0, values - self.fill)
        return (centred / self.spread)[:, None]


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
            "numbers": [c.name for c in self.inputs if isinstance(c, Numeric) and not c.dates],
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
            if column["kind"] == "categorical":
                column["categories"] = list(column["categories"])
        return {"target": self.target.to_json(), "inputs": inputs, "left_out": self.left_out}

    @staticmethod
    def from_json(said: Any) -> "Columns":
        """What `to_json` gave, or a `ValueError`."""
        try:
            inputs = tuple(_from_json(dict(column)) for column in said["inputs"])
            left_out = {str(name): str(reason) for name, reason in said["left_out"].items()}
            return Columns(Target.from_json(said["target"]), inputs, left_out)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"The description of the columns is damaged ({error!r}).") from None


def _from_json(said: dict[str, Any]) -> Numeric | Categorical:
    if said["kind"] == "numeric":
        return Numeric(**{**said, "fill": float(said["fill"]), "spread": float(said["spread"])})
    return Categorical(str(said["name"]), tuple(str(c) for c in said["categories"]))


def learn_columns(
    table: Table,
    target: str,
    *,
    task: Literal["regression", "classification"] | None = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rows: Iterable[int] | None = None,
) -> Columns:
    """What to make of the columns of a table; medians and categories are those of `rows`."""
    for name in (target, *categorical, *ignore):
        table.column(name)
    learned = learn_target(table, target, task)
    part = table if rows is None else table.take(rows)
    inputs, left_out = [], dict.fromkeys(ignore, "as asked")
    for name in table.columns:
        if name != target and name not in left_out:
            found = _learn_input(table, part, name, name in categorical)
            if isinstance(found, str):
                left_out[name] = found
            else:
                inputs.append(found)
    if not inputs:
        said = "; ".join(f"{name!r}: {why}" for name, why in left_out.items()) or "no other column"
        said = said if len(said) <= 300 else said[:297] + "..."
        raise InputError(f"{table.path}: nothing to predict {target!r} from ({said}).")
    return Columns(learned, tuple(inputs), left_out)


def _learn_input(
    table: Table, part: Table, name: str, as_words: bool
) -> Numeric | Categorical | str:
    """The column as an input, or why it is none."""
    cells = table.column(name)
    dates = says_dates(cells)
    if not as_words and (dates or says_numbers(cells)):
        advice = f" For a column of labels say --categorical {name}."
        numbers(table, name, dates=dates, advice=advice)
        values = np.array(numbers(part, name, dates=dates))
        seen = values[~np.isnan(values)]
        if len(set(seen.tolist())) < 2:
            return "empty" if not len(seen) else "the same in every row"
        spread = float(np.std(seen))
        return Numeric(name, float(np.median(seen)), spread if spread > 0 else 1.0, dates)
    counts = Counter(word(cell) for cell in part.column(name) if cell is not None)
    if len(counts) < 2:
        return "the same in every row" if counts else "empty"
    if len(counts) > MOST_CATEGORIES and len(counts) > 0.5 * sum(counts.values()):
        example = next(iter(counts))
        dated = set(example) <= set("0123456789/.-: ")
        hint = "; dates are read as in 2024-01-31" if dated else ""
        return f"text that is different in most rows, such as {short(example)}{hint}"
    return Categorical(name, tuple(sorted(w for w, _ in counts.most_common(MOST_CATEGORIES))))
