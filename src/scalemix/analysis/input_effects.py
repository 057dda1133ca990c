"""Effects of columns that became several inputs of a network: categories, bins and the like."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scalemix.analysis.asking import all_means, pick
from scalemix.analysis.effects import Effect, summarise
from scalemix.posterior.posterior import Posterior


class Setting(NamedTuple):
    """Values for a column to take, and what its inputs are at each of them.

    Attributes
    ----------
    column : int
        The number of the column.
    name : str
        What it is called.
    values : numpy.ndarray
        The values.
    places : sequence of int
        The inputs that it became.
    blocks : numpy.ndarray of shape (values, places)
        What they are at each value.

    Examples
    --------
    >>> from scalemix.analysis.input_effects import Setting
    >>> Setting(0, "town", np.array(["Ulm", "Bonn"]), (0, 1), np.eye(2)).thinned(1).values
    array(['Ulm'], dtype='<U4')
    """

    column: int
    name: str
    values: np.ndarray
    places: Sequence[int]
    blocks: np.ndarray

    def thinned(self, most: int) -> "Setting":
        """So many of the values at most, evenly spread."""
        some = np.unique(np.linspace(0, len(self.values) - 1, min(len(self.values), most)).round())
        chosen = some.astype(int)
        return self._replace(values=self.values[chosen], blocks=self.blocks[chosen])


def effects_of_inputs(
    posterior: Posterior,
    x: np.ndarray,
    settings: Sequence[tuple[Setting, ...]],
    *,
    outputs: Sequence[int | None] = (None,),
    num_rows: int = 60,
    probability: float = 0.9,
) -> list[list[Effect]]:
    """The effects of columns, or of pairs of them, on several outputs, all as one prediction.

    Parameters
    ----------
    posterior : Posterior
        What a fit returned.
    x : numpy.ndarray of shape (rows, inputs)
        Rows that say what all other inputs are.
    settings : sequence of tuple of Setting
        One column, or two, for each effect.
    outputs : sequence of int, default=(None,)
        Which classes or which of several targets; `None` where there is nothing to choose.
    num_rows, probability
        As in `scalemix.analysis.effects.effect`.

    Returns
    -------
    list of list of Effect
        For each of the outputs, one for each entry of `settings`.

    Examples
    --------
    >>> from scalemix.analysis.input_effects import Setting, effects_of_inputs
    >>> town = Setting(0, "town", np.array(["Ulm", "Bonn"]), (0, 1), np.eye(2))
    >>> effects_of_inputs(post, x, [(town,)])[0][0].mean.shape
    (2,)
    """
    if not settings:
        return [[] for _ in outputs]
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), num_rows)).astype(int))
    rows = np.asarray(x, np.float64)[some]
    tables, ends = [], [0]
    for chosen in settings:
        points = list(itertools.product(*(range(len(setting.values)) for setting in chosen)))
        table = np.tile(rows, (len(points), 1, 1))
        for setting, at in zip(chosen, zip(*points, strict=True), strict=True):
            table[:, :, list(setting.places)] = setting.blocks[list(at)][:, None, :]
        tables.append(table.reshape(-1, rows.shape[1]))
        ends.append(ends[-1] + len(points))
    means = all_means(posterior.predict(np.concatenate(tables)))
    by_output = [pick(means, output).reshape(ends[-1], len(some), -1) for output in outputs]
    return [
        [
            summarise(
                tuple(setting.column for setting in chosen),
                tuple(setting.name for setting in chosen),
                tuple(setting.values for setting in chosen),
                means[start:end],
                probability,
            )
            for chosen, start, end in zip(settings, ends[:-1], ends[1:], strict=True)
        ]
        for means in by_output
    ]
