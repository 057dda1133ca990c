"""Times that were not observed to the end."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import as_array
from scalemix.likelihoods._base import Likelihood
from scalemix.likelihoods._wrapper import Wrapper


class RightCensored(Wrapper):
    """A positive target, such as a time until failure, that may not have been observed to the end.

    A target `y` above zero was observed. A target below zero says that nothing had happened by the
    time `-y`, and has the probability of a longer time for its density. `censored_times` makes such
    targets of times and of whether each was observed. Everything but `log_prob` is about the time
    itself: predictions, intervals and samples are those of the likelihood inside.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood of a time, `Weibull` or `LogNormal`.

    Examples
    --------
    >>> times = sx.likelihoods.RightCensored(sx.likelihoods.Weibull())
    >>> output = jnp.array(0.0)
    >>> round(float(times.log_prob(output, -2.0)), 4)
    -2.0
    >>> round(float(times.mean(output)), 4)
    1.0
    """

    summary: ClassVar[str] = "a time that may not have been observed to the end"

    def __init__(self, likelihood: Likelihood):
        if (
            not isinstance(likelihood, Likelihood)
            or type(likelihood).log_sf is Likelihood.log_sf
            or likelihood.support[0] != 0
        ):
            raise ValueError(
                f"RightCensored takes the likelihood of one time, Weibull() or LogNormal(); got "
                f"{likelihood!r}."
            )
        self.likelihood = likelihood

    @property
    def num_outputs(self) -> int:
        return self.likelihood.num_outputs

    @property
    def title(self) -> str:
        return f"RightCensored({self.likelihood.title})"

    def in_words(self) -> str:
        return f"{self.likelihood.in_words()}, observed to the end or not"

    def possible(self, y: np.ndarray) -> np.ndarray:
        return y != 0

    def has_density(self, y: np.ndarray) -> np.ndarray:
        return y > 0

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        y = as_array(self.target(y))
        time = jnp.abs(y)
        observed = self.likelihood.log_prob(output, time)
        return jnp.where(y < 0, self.likelihood.log_sf(output, time), observed)

    def score(self, output: Array, y: ArrayLike) -> Array:
        # Where a time would have ended is not known, and those that are known are the short ones.
        return jnp.full_like(self.log_prob(output, y), jnp.nan)

    def leverage(self, output: Array) -> Array:
        return self.likelihood.leverage(output)

    def mean(self, output: Array) -> Array:
        return self.likelihood.mean(output)

    def variance(self, output: Array) -> Array:
        return self.likelihood.variance(output)

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        return self.likelihood.cdf(output, y)

    def sf(self, output: Array, y: ArrayLike) -> Array:
        return self.likelihood.sf(output, y)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        return self.likelihood.sample(output, key=key)


def censored_times(time: Any, observed: Any) -> np.ndarray:
    """Targets for `RightCensored`: times, below zero where they were not observed to the end.

    Parameters
    ----------
    time : array_like
        How long each was observed, above zero.
    observed : array_like
        Whether that was the end: `True` or 1 if it was, `False` or 0 if it goes on.

    Returns
    -------
    numpy.ndarray
        The times, with a minus before those that were not observed to the end.

    Examples
    --------
    >>> sx.likelihoods.censored_times([3.0, 5.0], [True, False])
    array([ 3., -5.])
    """
    time, observed = np.asarray(time, np.float64), np.asarray(observed)
    if time.shape != observed.shape:
        raise ValueError(f"There are times of the shape {time.shape}, and {observed.shape} ends.")
    if not np.all(np.isfinite(time) & (time > 0)):
        place = int(np.argmin(np.isfinite(time.ravel()) & (time.ravel() > 0)))
        raise ValueError(
            f"Times must be finite and above zero; number {place} is {time.flat[place]}."
        )
    if not np.isin(observed, (0, 1)).all():
        raise ValueError("observed must be True or False (or 1 or 0) for each time.")
    return np.where(observed.astype(bool), time, -time)
