"""Predictions as CSV, JSON or Parquet."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalemix._files import replacing
from scalemix.cli.console import Terminal
from scalemix.data.values import is_finite
from scalemix.tables import InputError
from scalemix.tables.cells import number, short, text
from scalemix.tables.reading import Cell

Cells = dict[str, list[Any]]
CSV, PARQUET = (".csv", ".txt", ""), (".parquet", ".pq")
# What a spreadsheet takes for the start of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def without_formulas(cells: Cells, escape: bool, terminal: Terminal) -> Cells:
    """The cells, with formulas escaped if asked for; otherwise unchanged, with a remark.

    They stay unchanged unless asked, since @name and +49 151 are values by which programs join
    tables.
    """
    if escape:
        return {
            _escaped(name): [_escaped(cell) for cell in column] for name, column in cells.items()
        }
    for name, column in cells.items():
        formulas = [cell for cell in (name, *column) if _is_formula(cell)]
        if formulas:
            terminal.note(
                f"{name!r}: a spreadsheet would run {len(formulas):,} cells as formulas, such as "
                f"{short(formulas[0])}. They are copied as they are; --escape-formulas makes them "
                f"text"
            )
    return cells


def _is_formula(cell: Any) -> bool:
    # A negative number begins like a formula, but is none.
    return isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and number(cell) is None


def _escaped(cell: Any) -> Any:
    return f"'{cell}" if _is_formula(cell) else cell


def cell_as_json(cell: Cell) -> Any:
    """The cell as JSON holds it: numbers, text and truth values as they are, others as text."""
    plain = cell is None or isinstance(cell, str | bool) or is_finite(cell)
    return cell if plain else text(cell)


def to_csv(cells: Cells) -> str:
    """The columns as the text of a CSV file."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(cells)
    # More digits than single precision has would be noise.
    writer.writerows(
        [f"{cell:.7g}" if isinstance(cell, float) else cell for cell in row]
        for row in zip(*cells.values(), strict=True)
    )
    return file.getvalue()


def write(path: Path, cells: Cells) -> None:
    """Write the columns to a file, as its ending says."""
    if path.suffix.lower() in CSV:
        with replacing(path) as file:
            file.write(to_csv(cells).encode())
        return
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path}: Parquet files need pyarrow: pip install pyarrow") from None
    columns = {name: _arrow(column) for name, column in cells.items()}
    with replacing(path) as file:
        parquet.write_table(pyarrow.table(columns), file)


def _arrow(column: Sequence[Any]) -> Any:
    """A column of PyArrow's, which by itself takes no whole numbers beyond 64 bits with a sign."""
    import pyarrow

    try:
        return pyarrow.array(column)
    except OverflowError:
        try:
            return pyarrow.array(column, pyarrow.uint64())
        except (OverflowError, pyarrow.ArrowInvalid):
            return pyarrow.array([None if cell is None else str(cell) for cell in column])
