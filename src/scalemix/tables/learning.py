"""What to make of the columns of a training table."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from scalemix.data.bins import Bins, check_bins, count_bins, find_edges
from scalemix.fitting.settings import Task
from scalemix.tables.cells import numbers, says_dates, says_numbers, short, word
from scalemix.tables.columns import Columns, InputColumns
from scalemix.tables.inputs import Categorical, Numeric
from scalemix.tables.reading import InputError, Table
from scalemix.tables.targets import learn_target

# Only so many categories have inputs of their own; the rarest ones beyond share one.
MOST_CATEGORIES = 500
# Texts that are different in most rows are no categories, unless there are few of them.
FEW_CATEGORIES = 30
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
    bins: Bins = None,
) -> Columns:
    """What to make of the columns of a training table.

    Numbers and dates become one input each, words one input a category, and one for those that
    were not seen. A column with gaps has one more, which says where they are. A column is left out
    if it is empty, constant, full of different texts, or numbers the rows.

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
    bins : int or "auto", optional
        Up to how many bins each column of numbers gives as extra inputs. "auto" follows the number
        of rows, and lets the fit decide whether to use them. By default none.

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
    for name in (target, *categorical, *ignore, *use):
        table.column(name)
    learned = learn_target(table, target, task)
    inputs = learn_inputs(
        table, but=target, categorical=categorical, ignore=ignore, use=use, rows=rows, bins=bins
    )
    return Columns(inputs.inputs, inputs.left_out, learned)


def learn_inputs(
    table: Table,
    *,
    but: str | None = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    use: Sequence[str] | None = (),
    rows: Iterable[int] | None = None,
    bins: Bins = None,
) -> InputColumns:
    """What to make of the columns of a table that are to be predicted from.

    Parameters
    ----------
    table : Table
        The table.
    but : str, optional
        The column that is to be predicted, if it is in the table.
    categorical : sequence of str, default=()
        Columns of labels that look like numbers.
    ignore : sequence of str, default=()
        Columns not to use.
    use : sequence of str, default=()
        Columns to use although they number the rows. `None` stands for all.
    rows : iterable of int, optional
        The rows that medians, categories and bins are learned from. By default all.
    bins : int or "auto", optional
        As in `learn_columns`.

    Returns
    -------
    InputColumns
        The inputs, and what was left out.

    Raises
    ------
    InputError
        If a cell cannot be read, or nothing is left to predict from.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scalemix.tables import Table, learn_inputs
    >>> table = Table(Path("a.csv"), {"a": ["1", "2", "4"]}, ["line 2", "line 3", "line 4"], "")
    >>> learn_inputs(table).features
    ['a']
    """
    check_bins(bins)
    categorical = (*table.categorical, *categorical)
    part = table if rows is None else table.take(rows)
    names = [name for name in table.columns if name != but and name not in ignore]
    kinds = {name: _kind(table, name, name in categorical) for name in names}
    num_bins = count_bins(bins, part.num_rows, sum(kind != "words" for kind in kinds.values()))
    inputs, left_out = [], dict.fromkeys(ignore, "as asked")
    for name, kind in kinds.items():
        if kind == "words":
            column = _learn_words(part, name, name in categorical)
        else:
            column = _learn_numbers(table, part, name, kind == "dates", num_bins, bins == "auto")
        if isinstance(column, Numeric) and use is not None and name not in use:
            numbered = _numbers_rows(table, column)
            column = f"it numbers the rows; --use {name} takes it in" if numbered else column
        if isinstance(column, str):
            left_out[name] = column
        else:
            inputs.append(column)
    if not inputs:
        why = "; ".join(f"{name!r}: {why}" for name, why in left_out.items()) or "no other column"
        why = why if len(why) <= 300 else why[:297] + "..."
        what = "" if but is None else f" {but!r}"
        raise InputError(f"{table.path}: nothing to predict{what} from ({why}).")
    return InputColumns(tuple(inputs), left_out)


def _numbers_rows(table: Table, column: Numeric) -> bool:
    """Whether a column holds consecutive whole numbers, each once."""
    if column.dates or table.num_rows < LEAST_NUMBERED:
        return False
    values = np.sort(numbers(table, column.name))
    return bool(values[0] % 1 == 0 and (np.diff(values) == 1).all())


def _kind(table: Table, name: str, as_words: bool) -> Literal["words", "dates", "numbers"]:
    cells = table.column(name)
    if as_words:
        return "words"
    return "dates" if says_dates(cells) else "numbers" if says_numbers(cells) else "words"


def _learn_numbers(
    table: Table, part: Table, name: str, dates: bool, bins: int | None, optional: bool
) -> Numeric | str:
    """The column as inputs, or the reason why it cannot be one."""
    advice = (
        f" For a column of labels say --categorical {name}, or give it a categorical type in a "
        f"data frame."
    )
    numbers(table, name, dates=dates, advice=advice)
    values = np.array(numbers(part, name, dates=dates))
    missing = np.isnan(values)
    seen = values[~missing]
    if len(set(seen.tolist())) < 2:
        return "empty" if not len(seen) else "the same in every row"
    edges = () if bins is None else find_edges(seen, bins)
    return Numeric(
        name, float(np.median(seen)), dates, edges, gaps=bool(missing.any()), optional_bins=optional
    )


def _learn_words(part: Table, name: str, said_so: bool) -> Categorical | str:
    """The column as inputs, or the reason why it cannot be one. Who says so means categories."""
    cells = part.column(name)
    counts = Counter(word(cell) for cell in cells if cell is not None)
    if len(counts) < 2:
        return "the same in every row" if counts else "empty"
    if not said_so and len(counts) > FEW_CATEGORIES and len(counts) > 0.5 * sum(counts.values()):
        example = next(iter(counts))
        dated = set(example) <= set("0123456789/.-: ")
        hint = "; dates are read as in 2024-01-31" if dated else ""
        return f"text that is different in most rows, such as {short(example)}{hint}"
    categories = tuple(sorted(w for w, _ in counts.most_common(MOST_CATEGORIES)))
    gaps = any(cell is None for cell in cells)
    return Categorical(name, categories, gaps=gaps, unseen=True)
