"""Kinds of targets by name, for front doors where people say what they have, not what models it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scalemix.likelihoods._base import Likelihood
from scalemix.likelihoods.beta import Beta
from scalemix.likelihoods.independent import Independent
from scalemix.likelihoods.log_normal import LogNormal
from scalemix.likelihoods.negative_binomial import NegativeBinomial
from scalemix.likelihoods.right_censored import RightCensored
from scalemix.likelihoods.student_t import StudentT
from scalemix.likelihoods.weibull import Weibull

# Targets spread by more than this share of their mean have intervals below zero, if their noise is
# modelled as symmetric.
WIDE = 0.5
# Whole numbers above this that never are zero are amounts, such as prices, and not counts.
MOST_COUNTED = 1000


class TargetKind(NamedTuple):
    """A kind of target: what it is, and the likelihood that suits it."""

    summary: str
    """What the numbers are, in a few words."""
    build: Callable[..., Likelihood]
    """The likelihood, from `floor` and `per_input`."""


TARGETS: dict[str, TargetKind] = {
    "real": TargetKind("any numbers", lambda **noise: StudentT(4.0, **noise)),
    "positive": TargetKind("numbers above zero, such as prices", LogNormal),
    "count": TargetKind("whole numbers from zero", NegativeBinomial),
    "share": TargetKind("numbers strictly between zero and one", Beta),
    "time": TargetKind(
        "times, below zero where they were not observed to the end (`censored_times`)",
        lambda **noise: RightCensored(Weibull(**noise)),
    ),
}
"""The kinds of targets that `for_target` knows, by name."""


def for_target(
    kind: str,
    *,
    floor: float | None = None,
    per_input: bool = False,
    num_targets: int | None = None,
) -> Likelihood:
    """The likelihood that suits a kind of target.

    Parameters
    ----------
    kind : {"real", "positive", "count", "share", "time"}
        What the target is: any number, one above zero, a whole number from zero, one strictly
        between zero and one, or a time that may not have been observed to the end.
    floor : float, optional
        What the noise level always stays above. By default that of the likelihood.
    per_input : bool, default False
        Whether the network decides the noise level of each input.
    num_targets : int, optional
        How many such targets each row has, if it has several.

    Returns
    -------
    Likelihood
        The likelihood: `StudentT`, `LogNormal`, `NegativeBinomial`, `Beta` or `RightCensored`.

    Examples
    --------
    >>> sx.likelihoods.for_target("count").title
    'NegativeBinomial'
    >>> sx.likelihoods.for_target("time", num_targets=2).title
    'Independent(RightCensored(Weibull), 2)'
    """
    if kind not in TARGETS:
        known = "; ".join(f"{name!r}, {one.summary}" for name, one in TARGETS.items())
        raise ValueError(f"There is no kind of target {kind!r}. There are: {known}.")
    noise: dict[str, Any] = {"per_input": per_input}
    if floor is not None:
        # Learning starts above any floor.
        noise |= {"floor": floor, "scale": 1.0 + 2 * floor}
    one = TARGETS[kind].build(**noise)
    return one if num_targets is None else Independent(one, num_targets)


def suggest_target(y: Any) -> str:
    """The kind of target that numbers look like; a person who knows better should say so.

    Parameters
    ----------
    y : array_like
        The targets.

    Returns
    -------
    str
        `"share"` for numbers strictly between zero and one. For numbers from zero whose standard
        deviation is more than half their mean: `"count"` if they are whole, some are above one, and
        they are no large amounts such as prices, else `"positive"` if none is zero. `"real"` for
        all others. Never `"time"`.

    Examples
    --------
    >>> sx.likelihoods.suggest_target([3, 0, 12])
    'count'
    >>> sx.likelihoods.suggest_target([0.5, 12.0, 300.0])
    'positive'
    """
    y = np.asarray(y, np.float64)
    if not y.size or not np.isfinite(y).all():
        return "real"
    if np.all((y > 0) & (y < 1)):
        return "share"
    if np.any(y < 0) or not np.all(np.std(y, axis=0) > WIDE * np.mean(y, axis=0)):
        return "real"
    if np.all(y == np.floor(y)) and y.max() > 1 and (y.max() <= MOST_COUNTED or y.min() == 0):
        return "count"
    return "positive" if np.all(y > 0) else "real"


def suggestion(y: Any, spell: Callable[[str], str]) -> str | None:
    """A line on the kind of target that numbers look like, if they would gain by it.

    `spell` says how that kind is asked for where the line is read.
    """
    kind = suggest_target(y)
    if kind == "real":
        return None
    ends = "0 or above 1" if kind == "share" else "zero"
    return (
        f"The targets look like {TARGETS[kind].summary}. As real numbers they get intervals that "
        f"may reach below {ends}; with {spell(kind)} they do not."
    )
