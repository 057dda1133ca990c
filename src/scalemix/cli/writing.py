"""Predictions as CSV, JSON or Parquet."""

import contextlib
import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from scalemix._files import replacing
from scalemix.cli.console import Terminal
from scalemix.data.values import is_finite
from scalemix.tables import InputError
from scalemix.tables.cells import number, short, text
from scalemix.tables.table import Cell

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


def as_json_holds(cells: Cells) -> Cells:
    """The cells as JSON holds them: plain values as they are, others as text.

    JSON has no infinity, which the end of an interval may be.
    """
    return {name: [_as_json_holds(cell) for cell in column] for name, column in cells.items()}


def _as_json_holds(cell: Cell) -> Any:
    if cell is None or isinstance(cell, str | bool) or is_finite(cell):
        return cell
    return None if isinstance(cell, float) else text(cell)


def to_csv(cells: Cells, *, digits: int, header: bool = True) -> str:
    """The columns as the text of a CSV file, with so many digits of each number."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    if header:
        writer.writerow(cells)
    writer.writerows(
        [_written(cell, digits) for cell in row] for row in zip(*cells.values(), strict=True)
    )
    return file.getvalue()


def _written(cell: Any, digits: int) -> Any:
    """A cell of a CSV file: a number that is none is a gap."""
    if not isinstance(cell, float):
        return cell
    return None if math.isnan(cell) else f"{cell:.{digits}g}"


def write_csv(path: Path | None, parts: Iterable[Cells], *, digits: int) -> int:
    """Write columns that come in parts to a file, or to stdout, and count the rows."""
    num = 0
    with contextlib.ExitStack() as stack:
        file = None if path is None else stack.enter_context(replacing(path))
        for part in parts:
            said = to_csv(part, digits=digits, header=not num)
            num += len(next(iter(part.values())))
            if file is None:
                # Flushes, so that whoever reads along sees rows as soon as they are predicted.
                typer.echo(said, nl=False)
            else:
                file.write(said.encode())
    return num


def write_parquet(path: Path, parts: Iterable[Cells], types: Mapping[str, Any]) -> int:
    """Write columns that come in parts to a Parquet file, and count the rows.

    `types` are those of PyArrow's for columns whose cells, in the first part, may not tell.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f'{path}: Parquet files need pyarrow: pip install "scalemix[parquet]"'
        ) from None
    num, schema = 0, None
    with contextlib.ExitStack() as stack:
        file, writer = stack.enter_context(replacing(path)), None
        for cells in parts:
            columns = {name: _arrow(column, types.get(name)) for name, column in cells.items()}
            table = pyarrow.table(columns, schema=schema)
            if writer is None:
                schema = table.schema
                writer = stack.enter_context(parquet.ParquetWriter(file, schema))
            writer.write_table(table)
            num += table.num_rows
    return num


def _arrow(column: Sequence[Any], kind: Any = None) -> Any:
    """A column of PyArrow's, which by itself takes no whole numbers beyond 64 bits with a sign."""
    import pyarrow

    try:
        return pyarrow.array(column, kind)
    except OverflowError:
        try:
            return pyarrow.array(column, pyarrow.uint64())
        except (OverflowError, pyarrow.ArrowInvalid):
            return pyarrow.array([None if cell is None else str(cell) for cell in column])
