"""Batches of a table that is larger than memory, encoded as its columns were learned."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from scalemix.data.scaling import FARTHEST, Scaling
from scalemix.data.windows import DiskBatches, Piece, Rows
from scalemix.tables.arrow_tables import ArrowTables, SomeRows
from scalemix.tables.columns import Columns
from scalemix.tables.table import Table

# Rows that are shuffled together, and threads that read ahead.
WINDOW, THREADS = 2**18, 2


class TableBatches:
    """Batches whose rows are kept as one number a column until a step needs their inputs.

    A column of numbers may become a hundred inputs: a window of these would fill the memory.
    """

    num_rows: int
    num_bytes: int

    def __init__(
        self,
        tables: ArrowTables,
        columns: Columns,
        scaling: Scaling,
        *,
        apart: np.ndarray,
        batch_size: int,
        seed: Sequence[int],
        class_weights: np.ndarray | None = None,
    ):
        """`class_weights` are how many rows a row of each class counts as."""
        self._class_weights = class_weights
        self._tables, self._columns, self._scaling = tables, columns, scaling
        self._names = [*(column.name for column in columns.inputs), *columns.target.columns]
        pieces = [
            Piece(part.num_rows, part.num_bytes, lambda part=part: self._read(part), part.place)
            for part, _ in tables.parts
        ]
        disk = DiskBatches(pieces, batch_size=batch_size, window=WINDOW, seed=seed, threads=THREADS)
        self._disk = disk.without(apart)
        self.num_rows, self.num_bytes = self._disk.num_rows, self._disk.num_bytes

    def __len__(self) -> int:
        return len(self._disk)

    def __iter__(self) -> Iterator[Rows]:
        return self.epoch(0)

    def epoch(self, number: int, first: int = 0) -> Iterator[Rows]:
        """The batches of a pass, from one of them on."""
        return map(self._expanded, self._disk.epoch(number, first))

    def in_order(self, each: Callable[[int, Rows], Any]) -> Iterator[Any]:
        """What `each` makes of all rows, as they lie on disk."""
        return self._disk.in_order(lambda number, rows: each(number, self._expanded(rows)))

    def place(self, number: int, row: int) -> str:
        """Where a row of a block of `in_order` lies."""
        return self._disk.place(number, row)

    def _read(self, part: SomeRows) -> Rows:
        table = self._tables.table(part, self._names)
        values = self._columns.read(table)
        self._refuse_far(table, values)
        return values, self._columns.target.encode(table)

    def _expanded(self, rows: Rows) -> Rows:
        values, y = rows
        x = self._columns.expand(values)
        return (x, y) if self._class_weights is None else (x, y, self._class_weights[y])

    def _refuse_far(self, table: Table, values: np.ndarray) -> None:
        """Raise `InputError` for a cell too far out, whose file and row are known only here."""
        columns, places = self._columns, self._columns.number_places
        inputs = columns.inputs
        numbers = [i for i, column in enumerate(inputs) if column.kind == "numeric"]
        mean, scale = self._scaling.x_mean[places], self._scaling.x_scale[places]
        far = np.abs((values[:, numbers] - mean) / scale) > FARTHEST
        if far.any():
            rows = [int(np.argmax(far.any(axis=1)))]
            columns.refuse_far(table.take(rows), columns.expand(values[rows]), self._scaling)
