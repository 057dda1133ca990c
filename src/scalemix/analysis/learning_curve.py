"""What more rows bring: simpler models, fitted to fewer rows than there are.

Networks fitted to fewer rows would say it better, and cost as much as all that was done before.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from scalemix.analysis import baselines
from scalemix.analysis.baselines import Baseline, CannotFitError, Kind, Predict, Rows
from scalemix.likelihoods import Likelihood

# The shares of the training rows that a learning curve has, and how often each is drawn.
SHARES = (0.125, 0.25, 0.5)
REPEATS = 3
# Above so many trees' worth of rows, each size is drawn once.
MANY = 20_000
# Fewer rows than this make no curve.
LEAST_ROWS = 40
# A fall of the error by less than this, at twice the rows, is hardly worth collecting them.
LEAST_GAIN = 0.05
# The standard errors to each side of a gain.
SURE = 2.0


class Curve(NamedTuple):
    """How a baseline gets better with the number of rows that it is fitted to.

    Attributes
    ----------
    name : str
        What the baseline is called.
    sizes : numpy.ndarray
        Numbers of rows.
    errors : numpy.ndarray
        The error at each of them, as `baselines.total_error` has it.
    spread : numpy.ndarray
        The standard deviation of the error over subsets of the rows; zero where there is one.
    last_gains : tuple of float
        Between which shares the last gain lies, as far as the rows and the subsets can tell: two
        standard errors to each side.

    Examples
    --------
    >>> from scalemix.analysis.learning_curve import Curve
    >>> errors = np.array([3.0, 2.0])
    >>> curve = Curve("boosted trees", np.array([50, 100]), errors, np.zeros(2), (0.2, 0.5))
    >>> round(curve.last_gain, 2), curve.trend
    (0.33, 'falls')
    """

    name: str
    sizes: np.ndarray
    errors: np.ndarray
    spread: np.ndarray
    last_gains: tuple[float, float]

    @property
    def last_gain(self) -> float:
        """By which share the error fell when the rows were doubled for the last time."""
        return float(1 - self.errors[-1] / self.errors[-2])

    @property
    def trend(self) -> Literal["flat", "falls", "unclear"]:
        """Whether the error still falls: more than chance, less than matters, or who knows."""
        low, high = self.last_gains
        if high < LEAST_GAIN:
            return "flat"
        return "falls" if low > 0 else "unclear"


def learning_curves(
    train: Rows, test: Rows, likelihood: Likelihood, full: Sequence[Baseline]
) -> list[Curve]:
    """The errors of baselines that are fitted to an eighth, a quarter, a half and all of the rows.

    Parameters
    ----------
    train, test, likelihood
        As in `fit_baselines`.
    full : sequence of Baseline
        What `fit_baselines` gave.

    Returns
    -------
    list of Curve
        One for each model but the first, which learns next to nothing; none if rows are few. A size
        at which a model cannot be fitted, such as one of counts that are all zero, is left out.

    Examples
    --------
    >>> from scalemix.analysis.baselines import fit_baselines
    >>> from scalemix.analysis.learning_curve import learning_curves
    >>> rows = (np.tile(x, (3, 1)), np.tile(y, 3)), (x, y), post.model.likelihood
    >>> [curve.sizes.tolist() for curve in learning_curves(*rows, fit_baselines(*rows).fitted)]
    [[15, 30, 60, 120], [15, 30, 60, 120]]
    """
    _, y = train
    if len(y) < LEAST_ROWS:
        return []
    kind, num = baselines.kind_of(likelihood, train, test), baselines.num_classes(likelihood)
    orders = [np.random.default_rng(seed).permutation(len(y)) for seed in range(REPEATS)]
    if len(y) * max(num, 1) > MANY:
        orders = orders[:1]
    sizes = [int(share * len(y)) for share in SHARES]
    curves = []
    for baseline in full[1:]:
        predict = baselines.models(kind, num)[baseline.name]
        losses = {n: _losses(predict, train, test, [o[:n] for o in orders], kind) for n in sizes}
        known = {n: at_size for n, at_size in losses.items() if at_size is not None}
        if not known:
            continue
        errors = {n: _errors(at_size, kind) for n, at_size in known.items()}
        (full_error,) = _errors(baseline.losses[None], kind)
        curves.append(
            Curve(
                baseline.name,
                np.array([*known, len(y)]),
                np.array([*map(np.mean, errors.values()), full_error]),
                np.array([*map(np.std, errors.values()), 0.0]),
                _last_gains([*known.values()][-1], baseline.losses, kind),
            )
        )
    return curves


def _losses(
    predict: Predict, train: Rows, test: Rows, subsets: list[np.ndarray], kind: Kind
) -> np.ndarray | None:
    """What rows of the test cost after fits to subsets, (subsets, rows).

    `None` if one of the subsets cannot be fitted to. Those that can are not typical: of rare
    counts, they are the ones that have some.
    """
    x, y = train
    try:
        predictions = [predict(x[some], y[some], test[0]) for some in subsets]
    except CannotFitError:
        return None
    return np.array([baselines.row_losses(made, test[1], kind) for made in predictions])


def _errors(losses: np.ndarray, kind: Kind) -> np.ndarray:
    """The error of each fit, as `baselines.total_error` has it."""
    means = losses.mean(axis=1)
    return np.sqrt(means) if kind == "real" else means


def _last_gains(half: np.ndarray, full: np.ndarray, kind: Kind) -> tuple[float, float]:
    """Between which shares the error falls from fits to half of the rows to the fit to all.

    Rows are compared with themselves, for those that are hard for one fit are hard for the other.
    """
    gaps = half.mean(axis=0) - full
    of_subsets = np.var(half.mean(axis=1)) / len(half)
    error = np.sqrt(np.var(gaps) / len(gaps) + of_subsets)
    before = max(half.mean(), np.finfo(float).tiny)

    def gain(gap: float) -> float:
        left = max(1 - gap / before, 0.0)
        return 1 - (left**0.5 if kind == "real" else left)

    return gain(gaps.mean() - SURE * error), gain(gaps.mean() + SURE * error)
