"""What to make of the columns of a training table."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from scalemix.data.bins import check_bins, find_edges
from scalemix.fitting.settings import Task
from scalemix.tables.cells import numbers, says_dates, says_numbers, short, word
from scalemix.tables.columns import Columns
from scalemix.tables.inputs import Categorical, Numeric
from scalemix.tables.reading import InputError, Table
from scalemix.tables.targets import learn_target

# Only so many categories have inputs; the rarest ones beyond count as none.
MOST_CATEGORIES = 30
# In fewer rows, numbers without gaps may be a coincidence.
LEAST_NUMBERED = 20


def learn_columns(
    table: Table,
    target: str,
    *,
    task: Task | None = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    use: Sequence[str] = (),
    rows: Iterable[int] | None = None,
    bins: int | None = None,
) -> Columns:
    """What to make of the columns of a training table.

    Numbers and dates become one input each, words one input a category. A column is left out if it
    is empty, constant, full of different texts, or numbers the rows.

    Parameters
    ----------
    table : Table
        The table.
    target : str
        The column to predict.
    task : {"regression", "classification"}, optional
        Whether the target is a number or a class. By default its cells say so.
    categorical : sequence of str, default=()
        Columns of labels that look like numbers.
    ignore : sequence of str, default=()
        Columns not to use.
    use : sequence of str, default=()
        Columns to use although they number the rows.
    rows : iterable of int, optional
        The rows that medians, categories and bins are learned from. By default all.
    bins : int, optional
        Up to how many bins each column of numbers gives as extra inputs. By default none.

    Returns
    -------
    Columns
        The target, the inputs, and what was left out.

    Raises
    ------
    InputError
        If a column is missing, a cell cannot be read, or nothing is left to predict from.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scalemix.tables import Table, learn_columns
    >>> cells = {"a": ["1", "2", "4"], "same": ["x", "x", "x"], "y": ["0.5", "1", "7"]}
    >>> table = Table(Path("a.csv"), cells, ["line 2", "line 3", "line 4"], "")
    >>> learn_columns(table, "y").left_out
    {'same': 'the same in every row'}
    """
    check_bins(bins)
    for name in (target, *categorical, *ignore, *use):
        table.column(name)
    learned = learn_target(table, target, task)
    part = table if rows is None else table.take(rows)
    inputs, left_out = [], dict.fromkeys(ignore, "as asked")
    for name in table.columns:
        if name != target and name not in left_out:
            column = _learn_input(table, part, name, name in categorical, bins)
            if isinstance(column, Numeric) and name not in use and _numbers_rows(table, column):
                column = f"it numbers the rows; --use {name} takes it in"
            if isinstance(column, str):
                left_out[name] = column
            else:
                inputs.append(column)
    if not inputs:
        why = "; ".join(f"{name!r}: {why}" for name, why in left_out.items()) or "no other column"
        why = why if len(why) <= 300 else why[:297] + "..."
        raise InputError(f"{table.path}: nothing to predict {target!r} from ({why}).")
    return Columns(learned, tuple(inputs), left_out)


def _numbers_rows(table: Table, column: Numeric) -> bool:
    """Whether a column holds consecutive whole numbers, each once."""
    if column.dates or table.num_rows < LEAST_NUMBERED:
        return False
    values = np.sort(numbers(table, column.name))
    return bool(values[0] % 1 == 0 and (np.diff(values) == 1).all())


def _learn_input(
    table: Table, part: Table, name: str, as_words: bool, bins: int | None
) -> Numeric | Categorical | str:
    """The column as an input, or the reason why it cannot be one."""
    cells = table.column(name)
    dates = says_dates(cells)
    if not as_words and (dates or says_numbers(cells)):
        advice = f" For a column of labels say --categorical {name}."
        numbers(table, name, dates=dates, advice=advice)
        values = np.array(numbers(part, name, dates=dates))
        seen = values[~np.isnan(values)]
        if len(set(seen.tolist())) < 2:
            return "empty" if not len(seen) else "the same in every row"
        edges = () if bins is None else find_edges(seen, bins)
        return Numeric(name, float(np.median(seen)), dates, edges)
    counts = Counter(word(cell) for cell in part.column(name) if cell is not None)
    if len(counts) < 2:
        return "the same in every row" if counts else "empty"
    if len(counts) > MOST_CATEGORIES and len(counts) > 0.5 * sum(counts.values()):
        example = next(iter(counts))
        dated = set(example) <= set("0123456789/.-: ")
        hint = "; dates are read as in 2024-01-31" if dated else ""
        return f"text that is different in most rows, such as {short(example)}{hint}"
    return Categorical(name, tuple(sorted(w for w, _ in counts.most_common(MOST_CATEGORIES))))
