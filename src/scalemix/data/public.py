"""Any set in the public layout of the UCI splits: `NAME/data/data.txt` and its index files."""

from pathlib import Path

import numpy as np

from scalemix.data.sets import Dataset

Splits = list[tuple[np.ndarray, np.ndarray]]


def read_public(folder: str | Path) -> tuple[Dataset, Splits]:
    """The set and the splits in a folder with `data.txt`, `index_features.txt`,
    `index_target.txt`, and `index_train_i.txt`, `index_test_i.txt` for each split i.
    """
    folder = Path(folder)
    inner = folder / "data" if (folder / "data").is_dir() else folder
    table = np.atleast_2d(_numbers(inner / "data.txt"))
    features = np.atleast_1d(_numbers(inner / "index_features.txt")).astype(int)
    target = int(np.atleast_1d(_numbers(inner / "index_target.txt"))[0])
    splits = []
    while (inner / f"index_train_{len(splits)}.txt").exists():
        i = len(splits)
        parts = [
            np.atleast_1d(_numbers(inner / f"index_{part}_{i}.txt")).astype(int)
            for part in ("train", "test")
        ]
        splits.append((parts[0], parts[1]))
    if not splits:
        raise ValueError(f"{inner} holds no index_train_0.txt: there is no split to use.")
    highest = max(int(rows.max()) for pair in splits for rows in pair)
    if highest >= len(table) or max(*features, target) >= table.shape[1]:
        raise ValueError(f"{inner}: an index file names a row or a column that data.txt lacks.")
    names = tuple(f"column {i}" for i in features)
    name = folder.name if folder.name != "data" else folder.parent.name
    return Dataset(name, table[:, features], table[:, target], names, f"column {target}"), splits


def _numbers(path: Path) -> np.ndarray:
    try:
        return np.loadtxt(path)
    except FileNotFoundError:
        raise ValueError(f"{path} is missing.") from None
    except ValueError as error:
        raise ValueError(f"{path} is not a table of numbers: {error}") from None
