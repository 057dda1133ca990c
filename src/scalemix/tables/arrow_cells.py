"""Columns of PyArrow as cells: looked at all at once, and not one Python object after the other."""

import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from scalemix.data.arrow_files import kind_of
from scalemix.tables.table import Cell
from scalemix.tables.values import as_cell


class ArrowCells(Sequence[Cell]):
    """The cells of a column whose values stay where PyArrow has them."""

    def __init__(self, array: Any):
        self._array = array
        self._distinct: tuple[list[Cell], np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, place: int) -> Cell: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Cell]: ...
    def __getitem__(self, place: int | slice) -> Cell | Sequence[Cell]:
        if isinstance(place, slice):
            return [as_cell(value) for value in self._array[place].to_pylist()]
        return as_cell(self._array[place].as_py())

    def __iter__(self) -> Iterator[Cell]:
        return map(as_cell, self._array.to_pylist())

    def count(self, value: Any) -> int:
        """How often a cell occurs; gaps are `None`."""
        values = self.values(dates=False) if value is None else None
        if values is not None:
            return int(np.isnan(values).sum())
        cells, codes = self.distinct()
        return sum(int((codes == i).sum()) for i, cell in enumerate(cells) if cell == value)

    def take(self, rows: np.ndarray) -> list[Cell]:
        """Some of the cells, in memory."""
        import pyarrow as pa

        return [as_cell(v) for v in self._array.take(pa.array(rows, pa.int64())).to_pylist()]

    @property
    def is_text(self) -> bool:
        """Whether the type is text."""
        return kind_of(self._array.type) == "text"

    def without(self, gone: np.ndarray) -> "ArrowCells":
        """The cells with a gap in the place of some of them."""
        import pyarrow as pa
        from pyarrow import types

        if not gone.any():
            return self
        # Its functions are made when it is imported, and unknown to checkers of types.
        compute: Any = importlib.import_module("pyarrow.compute")
        kind = self._array.type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return ArrowCells(
            compute.if_else(pa.array(gone), pa.scalar(None, kind), self._array.cast(kind))
        )

    def values(self, *, dates: bool) -> np.ndarray | None:
        """The numbers, or days from 1970, with NaN for gaps; `None` if the type has none."""
        from pyarrow import timestamp, types

        kind, array = self._array.type, self._array
        if dates and (types.is_timestamp(kind) or types.is_date(kind)):
            moments = array.cast(timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
            gaps = np.isnat(moments)
            return np.where(gaps, np.nan, moments.astype(np.int64) / 1e6 / 86_400)
        if dates or not (types.is_integer(kind) or types.is_floating(kind)):
            return None
        return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)

    def distinct(self) -> tuple[list[Cell], np.ndarray]:
        """The different cells, and which of them each row has."""
        if self._distinct is None:
            self._distinct = self._find_distinct()
        return self._distinct

    def _find_distinct(self) -> tuple[list[Cell], np.ndarray]:
        from pyarrow import types

        array = self._array
        coded = array if types.is_dictionary(array.type) else array.dictionary_encode()
        cells = [as_cell(value) for value in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False)
        return [*cells, None], codes.astype(np.int64)


def texts_of(cells: Iterable[Cell]) -> list[str]:
    """The cells that are text; a type that says there are none is believed."""
    if isinstance(cells, ArrowCells) and not cells.is_text:
        return []
    return [cell for cell in cells if isinstance(cell, str)]


def cells_of(column: Any) -> Sequence[Cell]:
    """The cells of a chunked column of PyArrow."""
    from pyarrow import types

    array = column.combine_chunks()
    if hasattr(array, "num_chunks"):
        array = array.chunk(0) if array.num_chunks == 1 else array.cast(column.type)
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    plain = (types.is_integer, types.is_floating, types.is_string, types.is_large_string,
             types.is_boolean, types.is_timestamp, types.is_date)  # fmt: skip
    if any(is_one(kind) for is_one in plain):
        return ArrowCells(array)
    return [as_cell(value) for value in array.to_pylist()]
