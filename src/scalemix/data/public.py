"""Any set in the public layout of the UCI splits: `NAME/data/data.txt` and its index files."""

from pathlib import Path

import numpy as np

from scalemix.data.sets import Dataset
from scalemix.data.values import check_finite, check_table

Splits = list[tuple[np.ndarray, np.ndarray]]


def read_public(folder: str | Path) -> tuple[Dataset, Splits]:
    """A data set and its splits, from a folder in the layout of the published UCI splits.

    Parameters
    ----------
    folder : str or Path
        A folder, or one whose subfolder `data`, with the files `data.txt` (the table, numbers
        separated by blanks), `index_features.txt` and `index_target.txt` (columns of the table,
        counted from 0), and `index_train_i.txt` and `index_test_i.txt` (rows, counted from 0) for
        each split i = 0, 1, ...

    Returns
    -------
    Dataset
        The set, named after the folder. Columns are named by their numbers.
    list of (ndarray, ndarray)
        The training rows and the test rows of each split.

    Raises
    ------
    ValueError
        If a file is missing, holds no numbers, or names a row or a column that there is none of.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "tiny"
    >>> folder.mkdir()
    >>> files = {"data": "1 2 3\\n4 5 6\\n7 8 9\\n", "index_features": "0 1", "index_target": "2",
    ...          "index_train_0": "0 2", "index_test_0": "1"}
    >>> for name, text in files.items():
    ...     _ = (folder / f"{name}.txt").write_text(text)
    >>> data, splits = sx.data.read_public(folder)
    >>> data.name, data.y
    ('tiny', array([3., 6., 9.]))
    >>> splits
    [(array([0, 2]), array([1]))]
    """
    folder = Path(folder)
    inner = folder / "data" if (folder / "data").is_dir() else folder
    table = np.atleast_2d(_read(inner / "data.txt"))
    num_rows, num_columns = check_table(table)
    features = _read_indices(inner / "index_features.txt", num_columns)
    target = int(_read_indices(inner / "index_target.txt", num_columns)[0])
    splits: Splits = []
    while (inner / f"index_train_{len(splits)}.txt").exists():
        train, test = (
            _read_indices(inner / f"index_{part}_{len(splits)}.txt", num_rows)
            for part in ("train", "test")
        )
        splits.append((train, test))
    if not splits:
        raise ValueError(f"{inner} holds no index_train_0.txt: there is no split to use.")
    names = tuple(f"column {i}" for i in features)
    name = folder.name if folder.name != "data" else folder.parent.name
    return Dataset(name, table[:, features], table[:, target], names, f"column {target}"), splits


def _read(path: Path) -> np.ndarray:
    try:
        values = np.loadtxt(path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing.") from None
    except ValueError as error:
        raise ValueError(f"{path} is not a table of numbers: {error}") from None
    check_finite(str(path), values)
    return values


def _read_indices(path: Path, size: int) -> np.ndarray:
    """The rows or columns that a file names, all of which the table has."""
    values = np.atleast_1d(_read(path))
    known = (values >= 0) & (values < size) & (values % 1 == 0)
    if not known.all() or not values.size:
        first = f"{values[~known][0]:g}" if values.size else "none"
        raise ValueError(f"{path} names a row or a column that data.txt lacks: {first}.")
    return values.astype(int)
