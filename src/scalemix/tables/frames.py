"""Data frames of pandas and polars as tables. Neither library is imported here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalemix._text import listing
from scalemix.tables.table import Cell, InputError, Table
from scalemix.tables.values import plain

# What errors call a frame, which has no file.
NAME = Path("X")


def is_frame(x: Any) -> bool:
    """Whether this is a data frame: named columns with types of their own.

    Parameters
    ----------
    x : object
        Anything.

    Returns
    -------
    bool
        Whether `table_of` takes it.

    Examples
    --------
    >>> from scalemix.tables import is_frame
    >>> is_frame(np.zeros((2, 2)))
    False
    """
    return all(hasattr(x, name) for name in ("columns", "dtypes", "shape", "__getitem__"))


def names_of(frame: Any) -> list[str]:
    """The names of the columns, or an `InputError` if two are the same."""
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"{NAME}: there are two columns of the name {listing(twice)}. Rename or leave out one."
        )
    return names


def table_of(frame: Any) -> Table:
    """A data frame as a table.

    Parameters
    ----------
    frame : pandas.DataFrame or polars.DataFrame
        The data. Numbers, truth values, text, categories, dates and times are understood, and gaps
        in all of them.

    Returns
    -------
    Table
        The table, which knows the columns whose type says that they are categories.

    Raises
    ------
    InputError
        If two columns have one name, or a cell holds something else.

    Examples
    --------
    >>> import pandas as pd
    >>> from scalemix.tables import table_of
    >>> frame = pd.DataFrame({"size": [1.5, None], "kind": pd.Categorical(["a", "b"])})
    >>> table = table_of(frame)
    >>> table.columns
    {'size': [1.5, None], 'kind': ['a', 'b']}
    >>> table.categorical
    ('kind',)
    """
    names = names_of(frame)
    types = [str(kind) for kind in frame.dtypes]
    cells = {
        name: _cells(frame[original], name)
        for name, original in zip(names, frame.columns, strict=True)
    }
    categorical = tuple(
        name
        for name, kind in zip(names, types, strict=True)
        if kind.lower().startswith(("category", "categorical", "enum"))
    )
    places = [f"row {row}" for row in range(len(frame))]
    return Table(NAME, cells, places, "", categorical=categorical)


def _cells(column: Any, name: str) -> list[Cell]:
    values: Sequence[Any] = column.to_list()
    cells: list[Cell] = []
    for row, value in enumerate(values):
        try:
            cells.append(plain(value))
        except TypeError as error:
            raise InputError(f"{NAME}, row {row}, column {name!r}: {error}") from None
    return cells
