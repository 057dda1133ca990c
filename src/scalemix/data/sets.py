"""Loading the sets that come with the package; `PROVENANCE.md` says where they are from."""

import gzip
from importlib import resources
from typing import NamedTuple

import numpy as np

NAMES = ("boston", "concrete", "energy", "kin8nm", "power", "wine", "yacht")
"""The names of the sets that come with the package."""
# The names of the folders in which the published splits are kept.
ALIASES = {"bostonHousing": "boston", "power-plant": "power", "wine-quality-red": "wine"}
NUM_SPLITS = 20


class Dataset(NamedTuple):
    """A table of inputs with a real target.

    Attributes
    ----------
    name : str
        The name of the set.
    x : ndarray of shape (rows, columns)
        The inputs, one row an example.
    y : ndarray of shape (rows,)
        The target.
    feature_names : tuple of str
        The names of the columns of `x`.
    target_name : str
        The name of the target.

    Examples
    --------
    >>> data = sx.data.load("yacht")
    >>> data.x.shape, data.target_name
    ((308, 6), 'resistance')
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_name: str


def load(name: str) -> Dataset:
    """One of the seven UCI regression sets that come with the package.

    Parameters
    ----------
    name : str
        One of `scalemix.data.NAMES`, or the name of the folder of its published splits, such as
        "bostonHousing".

    Returns
    -------
    Dataset
        Inputs and target in double precision.

    Raises
    ------
    ValueError
        If there is no such set.

    Examples
    --------
    >>> sx.data.NAMES
    ('boston', 'concrete', 'energy', 'kin8nm', 'power', 'wine', 'yacht')
    >>> sx.data.load("energy").x.shape
    (768, 8)
    """
    name = ALIASES.get(name, name)
    if name not in NAMES:
        raise ValueError(f"There is no data set {name!r}. There are: {', '.join(NAMES)}.")
    packed = resources.files("scalemix.data").joinpath(f"{name}.csv.gz").read_bytes()
    head, *lines = gzip.decompress(packed).decode().splitlines()
    *feature_names, target_name = head.split(",")
    table = np.array([line.split(",") for line in lines], dtype=float)
    return Dataset(name, table[:, :-1], table[:, -1], tuple(feature_names), target_name)


def splits(num_rows: int, num_splits: int = NUM_SPLITS) -> list[tuple[np.ndarray, np.ndarray]]:
    """The standard splits of a set of so many rows into 90% to train on and 10% to test on.

    They are those of the published index files, which were drawn with NumPy's legacy generator.

    Parameters
    ----------
    num_rows : int
        The number of rows of the set, two or more.
    num_splits : int, default=20
        How many splits to give; the first ones do not depend on it.

    Returns
    -------
    list of (ndarray, ndarray)
        The training rows and the test rows of each split.

    Examples
    --------
    >>> train, test = sx.data.splits(308)[0]
    >>> len(train), len(test), test[:3].tolist()
    (277, 31, [121, 115, 286])
    """
    if num_rows < 2:
        raise ValueError(f"A split takes two rows or more, got {num_rows}.")
    rng = np.random.RandomState(1)
    cut = round(0.9 * num_rows)
    orders = [rng.choice(num_rows, num_rows, replace=False) for _ in range(num_splits)]
    return [(order[:cut], order[cut:]) for order in orders]
