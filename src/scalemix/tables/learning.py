"""What to make of the columns of a training table."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from scalemix.data.bins import check_bins, find_edges
from scalemix.tables.cells import numbers, says_dates, says_numbers, short, word
from scalemix.tables.columns import Categorical, Columns, Numeric
from scalemix.tables.reading import InputError, Table
from scalemix.tables.targets import learn_target

# Beyond these the rarest categories count as none.
MOST_CATEGORIES = 30
# In fewer rows numbers without gaps may be chance.
LEAST_NUMBERED = 20


def learn_columns(
    table: Table,
    target: str,
    *,
    task: Literal["regression", "classification"] | None = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    use: Sequence[str] = (),
    rows: Iterable[int] | None = None,
    bins: int | None = None,
) -> Columns:
    """What to make of the columns of a table; medians, categories and bins are those of `rows`.

    A column that numbers the rows is left out, unless `use` names it. With `bins`, columns of
    numbers have so many inputs more (`scalemix.data.bins`).
    """
    check_bins(bins)
    for name in (target, *categorical, *ignore, *use):
        table.column(name)
    learned = learn_target(table, target, task)
    part = table if rows is None else table.take(rows)
    inputs, left_out = [], dict.fromkeys(ignore, "as asked")
    for name in table.columns:
        if name != target and name not in left_out:
            found = _learn_input(table, part, name, name in categorical, bins)
            if isinstance(found, Numeric) and name not in use and _numbers_rows(table, found):
                found = f"it numbers the rows; --use {name} takes it in"
            if isinstance(found, str):
                left_out[name] = found
            else:
                inputs.append(found)
    if not inputs:
        said = "; ".join(f"{name!r}: {why}" for name, why in left_out.items()) or "no other column"
        said = said if len(said) <= 300 else said[:297] + "..."
        raise InputError(f"{table.path}: nothing to predict {target!r} from ({said}).")
    return Columns(learned, tuple(inputs), left_out)


def _numbers_rows(table: Table, column: Numeric) -> bool:
    """Whether a column holds whole numbers without gaps, each of them once."""
    if column.dates or table.num_rows < LEAST_NUMBERED:
        return False
    values = np.sort(numbers(table, column.name))
    return bool(values[0] % 1 == 0 and (np.diff(values) == 1).all())


def _learn_input(
    table: Table, part: Table, name: str, as_words: bool, bins: int | None
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
        edges = () if bins is None else find_edges(seen, bins)
        return Numeric(name, float(np.median(seen)), spread if spread > 0 else 1.0, dates, edges)
    counts = Counter(word(cell) for cell in part.column(name) if cell is not None)
    if len(counts) < 2:
        return "the same in every row" if counts else "empty"
    if len(counts) > MOST_CATEGORIES and len(counts) > 0.5 * sum(counts.values()):
        example = next(iter(counts))
        dated = set(example) <= set("0123456789/.-: ")
        hint = "; dates are read as in 2024-01-31" if dated else ""
        return f"text that is different in most rows, such as {short(example)}{hint}"
    return Categorical(name, tuple(sorted(w for w, _ in counts.most_common(MOST_CATEGORIES))))
