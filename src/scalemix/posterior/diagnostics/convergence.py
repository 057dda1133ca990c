"""R-hat and effective sample sizes, by ArviZ."""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

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
    """R-hat of quantities of which there are values `(chains, samples, ...)`."""
    with np.errstate(all="ignore"):
        rhat = load_arviz().rhat(_dataset(values), method="rank")
    return _as_array(rhat, values)


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
