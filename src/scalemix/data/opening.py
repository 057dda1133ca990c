"""`open_batches`: batches from files that are larger than memory."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import check_key
from scalemix._text import listing
from scalemix.data.arrow_files import ArrowPart, import_pyarrow, kind_of, open_files
from scalemix.data.pages import empty
from scalemix.data.rows import are_several, num_rows, take_rows
from scalemix.data.values import as_numbers, is_whole
from scalemix.data.windows import DiskBatches, Piece, Rows, seed_of

WINDOW = 2**18
# A window of an array is made of so many slices from anywhere in it.
SLICES = 16


def open_batches(
    source: Any,
    *,
    target: Any,
    batch_size: int,
    key: PRNGKeyArray | None,
    columns: Sequence[str] | None = None,
    weight: Any = None,
    window: int = WINDOW,
    threads: int = 2,
) -> DiskBatches:
    """Batches from files that are larger than memory, for `fit_batches`.

    Parameters
    ----------
    source : path or array_like
        A Parquet or Arrow file, or a folder of them; or the inputs as a file of NumPy (`x.npy`), or
        as an array, such as `np.load("x.npy", mmap_mode="r")`.
    target : str, sequence of str, path or array_like
        The column of the files to predict, or several. Beside inputs of NumPy, another file or
        array with as many rows.
    batch_size : int
        The number of rows of each batch. The last one of a pass may be shorter.
    key : PRNGKey or None
        The key that decides the order: the same key gives the same batches. `None` leaves rows in
        the order of the files.
    columns : sequence of str, optional
        The columns to use as inputs. By default all but target and weight. All have to be numbers
        or truth values.
    weight : str, path or array_like, optional
        How many rows each row counts as: a column, or as for `target` another file or array.
    window : int, default=262144
        The least number of rows that are shuffled together. A row group of a Parquet file is never
        split, so that a window may be longer. About three windows are in memory.
    threads : int, default=2
        The number of threads that read ahead.

    Returns
    -------
    DiskBatches
        Something that `fit_batches` reads as often as it takes, in another order each time.

    Raises
    ------
    ValueError
        If files differ in their columns, are incomplete, or hold something else than numbers. A
        missing number is named, with its file and row, when it is read.

    See Also
    --------
    scalemix.fit_batches : Fits a model to batches.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", x)
    >>> np.save(folder / "y.npy", y)
    >>> batches = sx.data.open_batches(
    ...     folder / "x.npy", target=folder / "y.npy", batch_size=10, key=key
    ... )
    >>> post = sx.fit_batches(model, batches, sx.VariationalEM(epochs=5), key=key)
    >>> post
    Posterior(Model(MLP, ARD on 3 sites, Gaussian), GaussianNetworks, after 20 steps)
    """
    for name, value in (("batch_size", batch_size), ("window", window), ("threads", threads)):
        if not is_whole(value) or value <= 0:
            raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    seed = None if key is None else seed_of(check_key(key, "key"))
    if isinstance(source, str | Path) and Path(source).suffix.lower() != ".npy":
        pieces = _columns(Path(source), target, columns, weight)
    else:
        if columns is not None:
            raise ValueError("columns are those of Parquet and Arrow files: arrays have no names.")
        pieces = _arrays(source, target, weight, max(window // SLICES, batch_size))
    return DiskBatches(pieces, batch_size=batch_size, window=window, seed=seed, threads=threads)


def _columns(path: Path, target: Any, columns: Sequence[str] | None, weight: Any) -> list[Piece]:
    targets = [target] if isinstance(target, str) else list(target)
    weights = [] if weight is None else [weight]
    files = open_files(path)
    types = files[0].types
    inputs = [name for name in types if name not in (*targets, *weights)]
    inputs = inputs if columns is None else list(columns)
    for name in (*inputs, *targets, *weights):
        if name not in types:
            raise ValueError(f"{path}: there is no column {name!r}. There are: {listing(types)}.")
        for file in files:
            kind = kind_of(file.types[name])
            if kind not in ("numbers", "truth values"):
                raise ValueError(
                    f"{file.path}, column {name!r}: it holds {kind}, and networks take numbers. "
                    f"Encode it, leave it out by columns=, or use `scalemix fit`, which encodes."
                )
    if not inputs:
        raise ValueError(f"{path}: there is nothing to predict {listing(targets)} from.")
    dtype = _holding([file.types[name] for file in files for name in inputs])
    # Files may differ in the type of a number. All rows of a window have one.
    beside = {
        name: np.result_type(*(_in_numpy(file.types[name]) for file in files))
        for name in (*targets, *weights)
    }
    return [
        Piece(
            part.num_rows,
            part.num_bytes,
            functools.partial(
                _read_columns,
                part,
                inputs,
                targets,
                weights,
                dtype,
                beside,
                isinstance(target, str),
            ),
            part.place,
        )
        for file in files
        for part in file.parts()
    ]


def _read_columns(
    part: ArrowPart,
    inputs: list[str],
    targets: list[str],
    weights: list[str],
    dtype: Any,
    beside: dict[str, Any],
    one_target: bool,
) -> Rows:
    table = part.read([*inputs, *targets, *weights])
    x = empty((part.num_rows, len(inputs)), dtype)
    for place, name in enumerate(inputs):
        x[:, place] = _numbers(part, table, name)
    ys, ws = (
        [_numbers(part, table, name).astype(beside[name], copy=False) for name in names]
        for names in (targets, weights)
    )
    return (x, ys[0] if one_target else np.stack(ys, axis=1), *ws)


def _numbers(part: ArrowPart, table: Any, name: str) -> np.ndarray:
    """A column as numbers, or a `ValueError` that names the row where there is none."""
    pa = import_pyarrow(part.file.path)
    column = table.column(name)
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise ValueError(f"{part.place(row)}, column {name!r}: the value is missing. {REMEDY}")
    if not _is_plain(column.type):
        column = column.cast(pa.from_numpy_dtype(_in_numpy(column.type)))
    values = column.to_numpy()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"{part.place(row)}, column {name!r}: it is {values[row]}. {REMEDY}")
    return values


REMEDY = "Remove or impute such rows first, or use `scalemix fit`, which learns what gaps mean."


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind)


def _in_numpy(kind: Any) -> Any:
    """The type that NumPy holds such numbers in."""
    from pyarrow import types

    if _is_plain(kind):
        return np.dtype(kind.to_pandas_dtype())
    return np.dtype(np.int8 if types.is_boolean(kind) else np.float64)


def _holding(types: Sequence[Any]) -> Any:
    """Single precision if it holds all numbers of these types, else double precision."""
    small = {"float", "halffloat", "int8", "int16", "uint8", "uint16", "bool"}
    return np.float32 if {str(kind) for kind in types} <= small else np.float64


def _arrays(source: Any, target: Any, weight: Any, size: int) -> list[Piece]:
    x = jax.tree.map(lambda part: _mapped("x", part), source) if are_several(source) else source
    x = x if are_several(source) else _mapped("x", source)
    rows: Rows = (x, _mapped("y", target), *([] if weight is None else [_mapped("weight", weight)]))
    num = num_rows(x)
    for name, part in zip(("x", "y", "weight"), rows, strict=False):
        for leaf in jax.tree.leaves(part):
            if leaf.ndim == 0 or len(leaf) != num or not num:
                raise ValueError(f"{name} has the shape {leaf.shape}, and x has {num} rows.")
    num_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(rows))

    def read(start: int, stop: int) -> Rows:
        # Copied, so that a page of the file is read here and not when it is used.
        part = jax.tree.map(np.array, take_rows(rows, slice(start, stop)))
        for name, given in zip(("x", "y", "weight"), part, strict=False):
            for leaf in jax.tree.leaves(given):
                if leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
                    row = start + int(np.argwhere(~np.isfinite(leaf))[0][0])
                    raise ValueError(f"{name} is not finite at row {row}. {REMEDY}")
        return part

    return [
        Piece(
            min(size, num - start),
            round(num_bytes * min(size, num - start) / num),
            functools.partial(read, start, min(start + size, num)),
            lambda row, start=start: f"row {start + row}",
        )
        for start in range(0, num, size)
    ]


def _mapped(name: str, given: Any) -> np.ndarray:
    """An array whose values stay on disk until they are read, if they are there."""
    if not isinstance(given, str | Path):
        return as_numbers(name, given)
    try:
        return as_numbers(name, np.load(given, mmap_mode="r", allow_pickle=False))
    except FileNotFoundError:
        raise ValueError(f"{given}: there is no such file.") from None
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{given}: it is no complete file of an array ({error}).") from None
