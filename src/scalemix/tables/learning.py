"""What to make of the columns of a training table."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scalemix._text import listing
from scalemix.data.bins import Bins, check_bins, weighted_median
from scalemix.data.number_inputs import learn_number_inputs
from scalemix.fitting.settings import Task
from scalemix.tables.cells import exact, numbers, short, whole, word
from scalemix.tables.columns import Columns, InputColumns
from scalemix.tables.dates import EXAMPLES, DateOrder, in_words
from scalemix.tables.facts import ColumnFacts, Kind, differs
from scalemix.tables.inputs import MOST_CATEGORIES, MOST_LEVELS, Categorical, Numeric
from scalemix.tables.number_formats import look_like_numbers
from scalemix.tables.table import InputError, Remedy, Table
from scalemix.tables.targets import learn_target
from scalemix.tables.units import word_after_numbers

# Texts that are different in most rows are no categories, unless there are few of them.
FEW_CATEGORIES = 30
# With more levels than this, a column is looked up where it may be. Up to here inputs of zeros and
# ones are quicker, though they do more: a step of four members takes .6 ms against .8 with 32
# levels, and 1.3 against 1.4 with 500 (benchmarks/levels.py). Beyond, levels would share an input.
FEW_LEVELS = MOST_CATEGORIES
# In fewer rows, numbers without gaps may be a coincidence.
LEAST_NUMBERED = 20
# How small the probability of a coincidence has to be, as a logarithm.
SURE = 20.0
# customer_id, CustomerID, id, row number; but not "paid".
ID_NAME = re.compile(
    r"(?:^|[^a-zA-Z])(?i:id|ids|identifier|uuid|guid|key|idx|index|rowid|rownames?|row number)"
    r"$|[a-z](?:Id|ID|Key|UUID|Index)$"
)


def learn_columns(
    table: Table,
    target: str | Sequence[str],
    *,
    observed: Sequence[str] = (),
    task: Task | None = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    use: Sequence[str] = (),
    rows: Iterable[int] | None = None,
    bins: Bins = None,
    date_order: DateOrder | None = None,
    look_up: bool = False,
) -> Columns:
    """What to make of the columns of a training table.

    Numbers and dates become one input each, words one input a category, and one for those that
    were not seen; or, with `look_up`, one input if there are many. A column with gaps has one more,
    which says where they are. A column is left out if it is empty, constant, full of different
    texts, or names or numbers the rows.

    Parameters
    ----------
    table : Table
        The table.
    target : str or sequence of str
        The column to predict, or several columns of numbers.
    observed : sequence of str, default=()
        For each target that is a time, the column that says whether it was observed to the end.
    task : {"regression", "classification"}, optional
        Whether the target is a number or a class. By default its cells say so.
    categorical : sequence of str, default=()
        Columns of labels that look like numbers.
    ignore : sequence of str, default=()
        Columns not to use.
    use : sequence of str, default=()
        Columns to use although they number the rows, or are text that is different in most of
        them.
    rows : iterable of int, optional
        The rows that medians, categories, bins and repeated numbers are learned from. By default
        all.
    bins : int or "auto", optional
        Up to how many bins each column of numbers gives as extra inputs. "auto" follows the number
        of rows, makes an input of each number that many rows share as well, and lets the fit decide
        whether to use all these. By default none.
    date_order : {"dmy", "mdy"}, optional
        Whether the day or the month comes first in dates such as 03/04/2024, where the cells of a
        column do not tell. By default such a column is refused.
    look_up : bool, default=False
        Whether a column of many different words becomes one input, the position of the word, whose
        weights networks look up. Other models can make nothing of such a number.

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
    names = (target,) if isinstance(target, str) else tuple(target)
    for name in (*names, *observed, *categorical, *ignore, *use):
        table.column(name)
    learned = dataclasses.replace(learn_target(table, names, task), observed=tuple(observed))
    inputs = learn_inputs(
        table,
        but=learned.columns,
        categorical=categorical,
        ignore=ignore,
        use=use,
        rows=rows,
        bins=bins,
        date_order=date_order,
        look_up=look_up,
    )
    return Columns(inputs.inputs, inputs.left_out, learned)


def learn_inputs(
    table: Table,
    *,
    but: Sequence[str] = (),
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    use: Sequence[str] | None = (),
    rows: Iterable[int] | None = None,
    bins: Bins = None,
    weight: np.ndarray | None = None,
    facts: Mapping[str, ColumnFacts] | None = None,
    date_order: DateOrder | None = None,
    look_up: bool = False,
) -> InputColumns:
    """What to make of the columns of a table that are to be predicted from.

    Parameters
    ----------
    table : Table
        The table.
    but : sequence of str, default=()
        Columns that are to be predicted, if they are in the table, and those that come with them.
    categorical : sequence of str, default=()
        Columns of labels that look like numbers.
    ignore : sequence of str, default=()
        Columns not to use.
    use : sequence of str, default=()
        Columns to use although they number the rows. `None` stands for all.
    rows : iterable of int, optional
        The rows that medians, categories, bins and repeated numbers are learned from. By default
        all.
    bins : int or "auto", optional
        As in `learn_columns`.
    weight : ndarray, optional
        How often each row of the table counts for medians, categories and bins. One of weight zero
        counts for nothing.
    facts : dict of ColumnFacts, optional
        What is known of the columns of a larger table, of which this one is a sample. Medians, bins
        and what numbers the rows are found in the sample.
    date_order : {"dmy", "mdy"}, optional
        As in `learn_columns`.
    look_up : bool, default=False
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
    weight = _counts(table.num_rows, rows, weight)
    places = np.flatnonzero(weight)
    part = table if len(places) == table.num_rows else table.take(places)
    names = [name for name in table.columns if name not in but and name not in ignore]
    if facts is None:
        facts = gather_facts(table, names, categorical, weight)
    weight = weight[places]
    inputs: list[Numeric | Categorical] = []
    left_out = dict.fromkeys(ignore, "as asked")
    for name in names:
        kind = facts[name].kind
        if kind == "words":
            said_so = name in categorical or (use is not None and name in use)
            remedy = "a categorical type" if use is None else f"--categorical {name}"
            column = _learn_words(facts[name], part, said_so, look_up, remedy)
        else:
            column = _learn_numbers(facts[name], part, weight, date_order)
        # Numbers that differ in late digits alone may number the rows.
        if use is not None and name not in use and (kind != "words" or not isinstance(column, str)):
            column = _why_identifier(table, name, kind, name in categorical) or column
        if isinstance(column, str):
            left_out[name] = column
        else:
            inputs.append(column)
    numeric = [column for column in inputs if isinstance(column, Numeric)]
    if bins is not None:
        values = [numbers(part, c.name, dates=c.written) for c in numeric]
        more = learn_number_inputs(values, bins, part.num_rows, weight)
        by_name = {
            c.name: dataclasses.replace(
                c, edges=m.edges, repeated=m.repeated, optional_bins=bins == "auto"
            )
            for c, m in zip(numeric, more, strict=True)
        }
        inputs = [by_name.get(column.name, column) for column in inputs]
    if not inputs:
        why = "; ".join(f"{name!r}: {why}" for name, why in left_out.items()) or "no other column"
        why = why if len(why) <= 300 else why[:297] + "..."
        what = f" {listing(but)}" if but else ""
        raise InputError(f"{table.path}: nothing to predict{what} from ({why}).")
    return InputColumns(tuple(inputs), left_out)


def _why_identifier(table: Table, name: str, kind: Kind, said_so: bool) -> str | None:
    """Why a column that is different in every row is its name or its number, and no measurement.

    The order of the rows makes no difference.
    """
    num, cells = table.num_rows, table.column(name)
    if num < LEAST_NUMBERED or None in cells:
        return None
    if kind == "words":
        names_rows = not said_so and len({word(cell) for cell in table.written(name)}) == num
        return f"it names the rows; --categorical {name} takes it in" if names_rows else None
    values = [value for cell in cells if (value := whole(cell)) is not None]
    if kind == "dates" or len(set(values)) < num:
        return None
    # That no two of so many whole numbers within so narrow a range agree is no chance: by chance,
    # the logarithm of its probability would be about -num^2 / (2 range).
    reach = max(values) - min(values) + 1
    if reach == num or num**2 / (2 * reach) > SURE:
        return f"it numbers the rows; --use {name} takes it in"
    if ID_NAME.search(name):
        return f"by its name and its values it numbers the rows; --use {name} takes it in"
    return None


def _counts(num: int, rows: Iterable[int] | None, weight: np.ndarray | None) -> np.ndarray:
    """How often each row counts: a row that is not trained on counts for nothing."""
    counts = np.ones(num)
    if rows is not None:
        counts = np.bincount(np.array([*rows], int), minlength=num).astype(float)
    weighted = counts if weight is None else np.where(weight > 0, counts * weight, 0.0)
    # If none counts, the fit complains.
    return weighted if weighted.any() else counts


def gather_facts(
    table: Table, names: Sequence[str], categorical: Sequence[str], weight: np.ndarray
) -> dict[str, ColumnFacts]:
    """What is known of the columns of a table, of which each row counts so often."""
    facts = {name: ColumnFacts(name, as_words=name in categorical) for name in names}
    for column in facts.values():
        column.add(table, weight)
    return facts


def _learn_numbers(
    facts: ColumnFacts, part: Table, weight: np.ndarray, said: DateOrder | None
) -> Numeric | str:
    """The column as an input, or the reason why it cannot be one."""
    name, order = facts.name, None
    if facts.kind == "dates":
        order = facts.date_order(said)
        if order is None:
            by_day = facts.values("dmy")
            # Where cells contradict each other, no order is right, and to ask for one misleads.
            if by_day.refusal is not None:
                raise by_day.refusal
            if not by_day.low < by_day.high:
                return "the same in every row" if facts.num_trained else "empty"
            raise _ask_for_order(part, facts)
    of = facts.values(order)
    if of.refusal is not None:
        raise of.refusal
    if not of.low < of.high:
        if not facts.num_trained:
            return "empty"
        present = {exact(cell) for cell in part.column(name) if cell is not None}
        same = order is not None or len(present) < 2
        return "the same in every row" if same else "its numbers differ in too late a digit"
    values = numbers(part, name, dates=order)
    seen = ~np.isnan(values)
    # A sample may have gaps where there is hardly a number.
    fill = weighted_median(values[seen], weight[seen]) if seen.any() else of.low
    gaps = facts.num_missing > 0
    unit = part.text.units.get(name, "")
    return Numeric(name, fill, order is not None, gaps=gaps, date_order=order or "ymd", unit=unit)


def _ask_for_order(table: Table, facts: ColumnFacts) -> InputError:
    cell, name = facts.open_date or "", facts.name
    if differs(cell):
        first, second = "the first", "the second"
        doubt = f"may be {in_words(cell, 'dmy')} or {in_words(cell, 'mdy')}, and no row tells which"
    else:
        first, second = "the day", "the month"
        doubt = "and all other rows do not tell whether the day or the month comes first"
    return InputError(
        f"{table.path}, column {name!r}: {cell!r} {doubt}. ",
        Remedy(
            f"Say --date-order dmy for {first}, or --date-order mdy for {second}. "
            f"--categorical {name} reads it as words, and --ignore {name} does without it.",
            "Make dates of it, such as by pandas.to_datetime with dayfirst=True or False; or give "
            "it a categorical type, to read it as words.",
        ),
    )


def _learn_words(
    facts: ColumnFacts, part: Table, said_so: bool, look_up: bool, remedy: str
) -> Categorical | str:
    """The column as inputs, or the reason why it cannot be one.

    Who says so means categories. `remedy` is how to say so.
    """
    name, counts = facts.name, facts.words
    if len(counts) < 2:
        return "the same in every row" if counts else "empty"
    num_words, num = len(counts), facts.num_trained
    if facts.some_given_up:
        # Those of a sample tell whether words repeat.
        present = [word(cell) for cell in part.written(name) if cell is not None]
        num_words, num = len(set(present)), len(present)
    if not said_so and num_words > FEW_CATEGORIES and num_words > 0.5 * num:
        example = next(iter(counts))
        dated = set(example) <= set("0123456789/.-: ")
        ways = ", ".join(EXAMPLES.values())
        hint = f"; {remedy} takes it in"
        if dated:
            hint += f"; dates are read as in {ways}, one way in a column"
        if look_like_numbers(counts) is not None:
            hint = "; it looks like numbers: make numbers of it"
        elif (after := word_after_numbers(list(counts))) is not None:
            hint = f"; numbers are read without a word after them: take away {after!r}"
        return f"text that is different in most rows, such as {short(example)}{hint}"
    # Of words that are equally frequent, the first in the alphabet: their order in the table and
    # where it was cut make no difference.
    looked_up = look_up and len(counts) > FEW_LEVELS
    most = MOST_LEVELS if looked_up else MOST_CATEGORIES
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    categories = tuple(sorted(w for w, _ in ranked))
    gaps = facts.num_missing > 0
    return Categorical(name, categories, gaps=gaps, unseen=True, looked_up=looked_up)
