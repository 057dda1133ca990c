"""Seven regression sets of the UCI repository and their twenty standard splits."""

from scalemix.data.public import read_public
from scalemix.data.sets import NAMES, Dataset, load, splits

__all__ = ["NAMES", "Dataset", "load", "read_public", "splits"]
