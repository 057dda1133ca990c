"""R-hat, and effective sample sizes by ArviZ.

R-hat ends every fit by chains, and importing ArviZ would take longer than many of these: it is
computed here.
"""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
    from xarray import Dataset

# With fewer samples a chain there is nothing to compare.
FEWEST_SAMPLES = 4


@dataclasses.dataclass(frozen=True)
class Convergence:
    """How well chains agree about some quantities, and how many samples theirs are worth.

    All arrays have the shape of the quantities, and hold NaN where a quantity never changes.

    Attributes
    ----------
    rhat : numpy.ndarray
        The rank-normalised split R-hat: one where chains agree.
    ess_bulk : numpy.ndarray
        The effective sample size in the bulk of the distribution.
    ess_tail : numpy.ndarray
        The effective sample size in its tails.

    Examples
    --------
    >>> from scalemix.posterior.diagnostics import Convergence
    >>> print(Convergence(np.array([1.01, 1.002]), np.array([900, 850]), np.array([700, 720])))
    R-hat at most 1.010, ESS at least 850 bulk, 700 tail
    """

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray

    def __str__(self) -> str:
        if np.isnan(self.rhat).all():
            return "constant"
        worst = np.nanmax(self.rhat), np.nanmin(self.ess_bulk), np.nanmin(self.ess_tail)
        return "R-hat at most {:.3f}, ESS at least {:.0f} bulk, {:.0f} tail".format(*worst)


def find_convergence(values: np.ndarray) -> Convergence:
    """The convergence of quantities of which there are values `(chains, samples, ...)`."""
    if values.shape[1] < FEWEST_SAMPLES:
        raise ValueError(f"{values.shape[1]} samples a chain are too few to be diagnosed.")
    az, data = load_arviz(), _dataset(values)
    # Quantities that never change divide by their variance, zero.
    with np.errstate(all="ignore"):
        return Convergence(
            find_rhat(values),
            _as_array(az.ess(data, method="bulk"), values),
            _as_array(az.ess(data, method="tail"), values),
        )


def find_rhat(values: np.ndarray) -> np.ndarray:
    """R-hat of quantities of which there are values `(chains, samples, ...)`.

    The larger one of the bulk and of the tails, of ranks within the halves of all chains (Vehtari,
    Gelman, Simpson, Carpenter and Bürkner, 2021). NaN for a single chain, which agrees with none,
    and for a handful of samples.
    """
    if len(values) < 2 or values.shape[1] < FEWEST_SAMPLES:
        return np.full(values.shape[2:], np.nan)
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]]).astype(float)
    halves = halves.reshape(*halves.shape[:2], -1)
    far = np.abs(halves - np.median(halves, axis=(0, 1)))
    # Quantities that never change divide by their variance, zero.
    with np.errstate(all="ignore"):
        # All values of a quantity may be equally far from its median: then the bulk alone counts.
        rhat = np.fmax(_plain_rhat(_normal_scores(halves)), _plain_rhat(_normal_scores(far)))
    return rhat.reshape(values.shape[2:])


def _plain_rhat(values: np.ndarray) -> np.ndarray:
    """`sqrt(((n - 1) W + B) / (n W))`: W is the variance within the n samples of a chain, B is n
    times that of the chains' means."""
    num = values.shape[1]
    within = values.var(axis=1, ddof=1).mean(axis=0)
    between = num * values.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt(((num - 1) * within + between) / (num * within))


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks among all values of a quantity, which ties share."""
    flat = values.reshape(-1, values.shape[2])
    ranks = np.empty(flat.shape)
    for place, column in enumerate(flat.T):
        _, which, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, place] = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(values.shape)


def load_arviz() -> Any:
    """ArviZ, or an `ImportError` that says how to get it."""
    try:
        # The import announces changes of interface to come, which are none of the user's concern.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import arviz
    except ImportError:
        raise ImportError('Diagnostics need arviz: pip install "scalemix[mcmc]"') from None
    return arviz


def _dataset(values: np.ndarray) -> "Dataset":
    import xarray

    flat = values.reshape(*values.shape[:2], -1).astype(float)
    return xarray.Dataset({"value": (("chain", "draw", "quantity"), flat)})


def _as_array(statistic: "Dataset", values: np.ndarray) -> np.ndarray:
    return statistic["value"].to_numpy().reshape(values.shape[2:])
