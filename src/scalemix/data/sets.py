"""Loading the sets that come with the package; `PROVENANCE.md` says where they are from."""

import gzip
from importlib import resources
from typing import NamedTuple

import numpy as np

NAMES = ("boston", "concrete", "energy", "kin8nm", "power", "wine", "yacht")
# The names of the folders in which the published splits are kept.
ALIASES = {"bostonHousing": "boston", "power-plant": "power", "wine-quality-red": "wine"}
NUM_SPLITS = 20


class Dataset(NamedTuple):
    """Inputs, one row an example, and the target."""

    name: str
    x: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_name: str


def load(name: str) -> Dataset:
    """One of the seven sets, by name."""
    name = ALIASES.get(name, name)
    if name not in NAMES:
        raise ValueError(f"There is no data set {name!r}. There are: {', '.join(NAMES)}.")
    packed = resources.files("scalemix.data").joinpath(f"{name}.csv.gz").read_bytes()
    head, *lines = gzip.decompress(packed).decode().splitlines()
    *feature_names, target_name = head.split(",")
    table = np.array([line.split(",") for line in lines], dtype=float)
    return Dataset(name, table[:, :-1], table[:, -1], tuple(feature_names), target_name)


def splits(num_rows: int, num_splits: int = NUM_SPLITS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of the standard splits of a set of so many rows: 90% and 10%.

    They are those of the published index files, which were drawn with NumPy's legacy generator.
    """
    if num_rows < 2:
        raise ValueError(f"A split takes two rows or more, got {num_rows}.")
    rng = np.random.RandomState(1)
    cut = round(0.9 * num_rows)
    orders = [rng.choice(num_rows, num_rows, replace=False) for _ in range(num_splits)]
    return [(order[:cut], order[cut:]) for order in orders]
