"""Columns and rows of tables: arrays, or data frames of pandas (`iloc`) or polars (`with_columns`).

Neither library is imported here.
"""

import difflib
from typing import Any

import numpy as np


def names_of(x: Any, model: Any = None) -> list[str]:
    """What the columns are called: in the frame, else in the frame that the model was fitted to.

    Nothing if neither has names.
    """
    names = getattr(x, "columns", None)
    if names is None:
        names = getattr(model, "feature_names_in_", ())
    return [str(name) for name in names]


def number_of(x: Any, column: int | str, names: list[str]) -> int:
    """Which column it is, by its number or by its name; or a `ValueError`."""
    if not isinstance(column, str):
        number, num = int(column), np.shape(x)[1]
        if not -num <= number < num:
            raise ValueError(f"There is no column {number}: x has {num} of them, counted from 0.")
        return number % num
    if not names:
        raise ValueError(
            f"An array has no column {column!r}: say its number, or give a data frame."
        )
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no column {column!r} in the frame.{hint}")
    if names.count(column) > 1:
        raise ValueError(f"There are several columns {column!r}: say the number of one.")
    return names.index(column)


def column_of(x: Any, number: int) -> np.ndarray:
    """The values of one column."""
    if hasattr(x, "iloc"):
        return _of_pandas(x.iloc[:, number])
    if hasattr(x, "with_columns"):
        return x[:, number].to_numpy()
    return np.asarray(x)[:, number]


def _of_pandas(series: Any) -> np.ndarray:
    kind = series.dtype.kind
    if kind in "iuf" and series.hasnans:
        # Numbers with gaps of pandas' own would be objects.
        return series.to_numpy(np.float64, na_value=np.nan)
    if kind == "M" and getattr(series.dtype, "tz", None) is not None:
        # So would times with a zone. The encoder counts their days in UTC as well.
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(series)


def take(x: Any, rows: np.ndarray) -> Any:
    """Some of the rows."""
    if hasattr(x, "iloc"):
        return x.iloc[rows]
    return x[rows.tolist()] if hasattr(x, "with_columns") else np.asarray(x)[rows]


def replaced(x: Any, number: int, values: np.ndarray) -> Any:
    """The table with other values in one column."""
    if hasattr(x, "iloc"):
        table = x.copy()
        table.isetitem(number, values)
        return table
    if hasattr(x, "with_columns"):
        old = x[:, number]
        # Between whole numbers there are others, which their type would round.
        dtype = None if values.dtype.kind == "f" else old.dtype
        return x.with_columns(type(old)(old.name, values.tolist(), dtype=dtype, strict=False))
    table = np.array(x)
    table[:, number] = values
    return table
