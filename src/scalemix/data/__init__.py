"""Seven regression sets of the UCI repository, their twenty standard splits, and large files."""

import importlib
from typing import TYPE_CHECKING, Any

from scalemix.data.public import read_public
from scalemix.data.sets import NAMES, Dataset, load, splits

if TYPE_CHECKING:
    from scalemix.data.opening import open_batches
    from scalemix.data.windows import DiskBatches

__all__ = ["NAMES", "Dataset", "DiskBatches", "load", "open_batches", "read_public", "splits"]

# These need JAX, which `scalemix --help` does without.
LATER = {"open_batches": "opening", "DiskBatches": "windows"}


def __getattr__(name: str) -> Any:
    if name in LATER:
        return getattr(importlib.import_module(f"scalemix.data.{LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
