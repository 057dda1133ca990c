"""What a fit records while it runs."""

from typing import NamedTuple

import numpy as np


class History(NamedTuple):
    """How a fit went, step by step.

    For an ensemble every array has a leading axis, the members.

    Attributes
    ----------
    objective : numpy.ndarray
        The objective at each step, per row of data. Of chains, their log density at each step, with
        a leading axis of chains.
    score : numpy.ndarray
        The held-out log-likelihood per row after each chunk of steps; empty if no rows were held
        out.
    recorded : dict of str to numpy.ndarray
        What the method recorded besides: the importance weights of
        `NoiseTraining(record_weights=True)`, one entry for each chunk, or the statistics of each
        step of `MCMC`.

    Examples
    --------
    >>> post.history.objective.shape
    (50,)
    >>> post.history.score.size
    0
    """

    objective: np.ndarray
    score: np.ndarray
    recorded: dict[str, np.ndarray]
