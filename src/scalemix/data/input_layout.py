"""What the inputs of a network were made of, where a column of a table became several of them."""

from typing import NamedTuple

import numpy as np


class InputLayout(NamedTuple):
    """One entry for each input of a network."""

    columns: np.ndarray
    """The number of the column that it was made of."""
    parts: np.ndarray
    """The number of the part of a column that it belongs to: a bin is a part of its own, and all
    categories of a column are one, as are all numbers that repeat."""
    scaled: np.ndarray
    """Whether it is divided by its standard deviation. Bins, categories and numbers that repeat
    keep their unit: a rare category would otherwise be a large number."""
    optional: np.ndarray
    """Whether held-out rows may decide to do without it, as they may with bins."""
    levels: np.ndarray
    """Of how many levels it is the position, which networks look up; 0 for a number."""

    @property
    def is_plain(self) -> bool:
        """Whether each column became one input, a number."""
        return bool(self.scaled.all()) and len(set(self.columns.tolist())) == len(self.columns)


def join(parts: list[InputLayout]) -> InputLayout:
    """The layout of several columns, each of which counts from column 0, side by side."""
    columns = np.repeat(np.arange(len(parts)), [len(part.columns) for part in parts])
    starts = np.cumsum([0, *(part.parts.max() + 1 for part in parts)])
    numbers = [part.parts + start for part, start in zip(parts, starts[:-1], strict=True)]
    scaled, optional, levels = (np.concatenate([part[i] for part in parts]) for i in (2, 3, 4))
    return InputLayout(columns, np.concatenate(numbers), scaled, optional, levels)


def of_numbers(
    num_bins: int = 0, num_repeated: int = 0, *, optional: bool = False, gaps: bool = False
) -> InputLayout:
    """A column of numbers: the number itself, its bins, numbers that repeat, and whether it is
    missing."""
    place = np.arange(1 + num_bins + num_repeated + gaps)
    more = (place > 0) & (place <= num_bins + num_repeated)
    # All numbers that repeat are one part.
    parts = place - np.clip(place - num_bins - 1, 0, max(num_repeated - 1, 0))
    none = np.zeros(len(place), int)
    return InputLayout(none, parts, place == 0, optional & more, none)


def of_categories(num: int) -> InputLayout:
    """A column of words: an input for each of so many categories."""
    none = np.zeros(num, int)
    return InputLayout(none, none, np.zeros(num, bool), np.zeros(num, bool), none)


def of_levels(num: int) -> InputLayout:
    """A column of words: the position of the one that is there, among so many levels."""
    return of_categories(1)._replace(levels=np.array([num]))
