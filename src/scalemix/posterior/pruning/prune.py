"""A posterior without what its prior switched off."""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._types import PyTree
from scalemix._warnings import warn
from scalemix.data.checks import check_inputs
from scalemix.data.rows import Inputs, is_table, num_rows, take_rows
from scalemix.networks.groups import GROUPS
from scalemix.posterior.networks import Networks
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.pruning.compact import Compacted, compact
from scalemix.posterior.pruning.masks import Piece, Row, mask, pieces_off, with_members
from scalemix.posterior.pruning.measures import (
    count_layers,
    count_multiply_adds,
    count_parameters,
    count_stored,
    mean_change,
    measure_latency,
    rows_as_seen,
    rows_differ,
)
from scalemix.posterior.pruning.report import Report
from scalemix.posterior.relevance_rule import LISTED

NO_EXAMPLE = (
    "The shape of an input is not known, so the network was not traced: give prune some inputs."
)
# A change of the predictive mean that nobody should miss, in units of its spread.
MUCH = 0.05


@dataclasses.dataclass(frozen=True)
class Pruned:
    """A smaller posterior, and a report of what went. `Posterior.prune` makes it.

    `print` shows the report.

    Attributes
    ----------
    posterior : Posterior
        The smaller posterior.
    report : Report
        What was taken away, and what that cost.
    network : PyTree
        One network without noise, its weights at their means; of an ensemble, that of the first
        member. It takes inputs as `posterior.scaling` standardises them.
    members : tuple of Pruned
        With `same_shape=False`, each member of an ensemble by itself, of its own size; else empty.

    Examples
    --------
    >>> pruned = post.prune()
    >>> pruned.predict(x).mean.shape
    (40,)
    >>> pruned.network(jnp.zeros(3)).shape
    ()
    """

    posterior: Posterior
    report: Report
    members: tuple["Pruned", ...] = ()

    @property
    def network(self) -> PyTree:
        """One network without noise, its weights at their means."""
        networks = self.posterior.networks.members[0]
        means = {name: moments.mean for name, moments in networks.weight_moments().items()}
        return networks.model.with_weights(means).network

    def predict(
        self, x: Any, *, num_draws: int | None = None, key: PRNGKeyArray | None = None
    ) -> Predictive:
        """The predictive distribution of the smaller posterior.

        Parameters
        ----------
        x : array_like
            Inputs, one example a row; with `drop_inputs`, the columns `report.inputs` alone.
        num_draws : int, optional
            As in `Posterior.predict`.
        key : PRNGKeyArray, optional
            As in `Posterior.predict`.

        Returns
        -------
        Predictive
            What `posterior.predict` gives.
        """
        return self.posterior.predict(x, num_draws=num_draws, key=key)

    def __str__(self) -> str:
        return str(self.report)


def prune(
    posterior: Posterior,
    x: Any,
    *,
    threshold: float,
    tolerance: float | None,
    mask_only: bool,
    drop_inputs: bool,
    as_function: bool,
    timed: bool,
    same_shape: bool = True,
) -> Pruned:
    """A smaller posterior; see `Posterior.prune`."""
    if not same_shape:
        settings: dict[str, Any] = {
            "threshold": threshold, "tolerance": tolerance, "mask_only": mask_only,
            "drop_inputs": drop_inputs, "as_function": as_function, "timed": timed,
        }  # fmt: skip
        together = prune(posterior, x, **settings)
        members = tuple(prune(member, x, **settings) for member in posterior.members)
        return dataclasses.replace(together, members=members)
    _check(x, threshold, tolerance, mask_only, drop_inputs)
    members = [*posterior.networks.members]
    _check_networks(members[0])
    pieces = pieces_off(members, threshold)
    x, before = (None, None) if x is None else _predict(posterior, x)
    if before is not None and tolerance is not None:
        pieces = _within(posterior, members, pieces, x, before, tolerance)
    off = _rows(pieces)
    masked = mask(members, off)
    under_mask = with_members(posterior, masked)
    rows = rows_as_seen(posterior, x)
    small, made = under_mask, None
    if rows is not None and not mask_only:
        made = compact(masked, rows, drop_inputs=drop_inputs, as_function=as_function)
        small = with_members(posterior, made.members, made.inputs if drop_inputs else None)
    report = _report(posterior, small, made, rows, timed=timed, mask_only=mask_only)
    if before is not None:
        # Under a mask the draws have the same noise as before; in a smaller network they cannot.
        taken = x[:, list(report.inputs)] if drop_inputs else x
        change = mean_change(before, under_mask.predict(x))
        if tolerance is None and change > MUCH:
            _warn_of_change(change)
        report = dataclasses.replace(
            report,
            mean_change=change,
            std=(float(np.mean(before.std)), float(np.mean(small.predict(taken).std))),
        )
    counted = {
        "rows_off": _count(members, off, "unit"),
        "groups_off": {
            group: counts for group in LISTED if (counts := _count(members, off, group))
        },
    }
    return Pruned(small, dataclasses.replace(report, **counted))


def _check(x: Any, threshold: Any, tolerance: Any, mask_only: bool, drop_inputs: bool) -> None:
    if not (isinstance(threshold, int | float) and threshold >= 0):
        raise ValueError(f"threshold must be a number of zero or more, got {threshold!r}.")
    if tolerance is not None:
        if not (isinstance(tolerance, int | float) and 0 <= tolerance < math.inf):
            raise ValueError(f"tolerance must be a number of zero or more, got {tolerance!r}.")
        if x is None:
            raise ValueError(
                "tolerance bounds the change of predictions, and there are no inputs to predict "
                "for: give prune some, such as those it was fitted to."
            )
    if mask_only and drop_inputs:
        raise ValueError("mask_only=True leaves all shapes alone: drop_inputs cannot go with it.")
    if math.isinf(threshold) and tolerance is None:
        raise ValueError(
            "An infinite threshold makes everything a candidate: bound what may go by tolerance=."
        )


def _check_networks(networks: Networks) -> None:
    if networks.obstacle_to_pruning is not None:
        raise ValueError(
            f"A posterior of {networks.title} cannot be pruned: {networks.obstacle_to_pruning}"
        )


def _predict(posterior: Posterior, x: Any) -> tuple[Inputs, Predictive]:
    x = check_inputs(x, posterior.model)
    if num_rows(x) == 0:
        raise ValueError("x has no rows to compare predictions on.")
    if not rows_differ(x):
        raise ValueError(
            "x has no two different rows, and predictions of one row have no spread to measure "
            "their change by: give prune more rows, such as those it was fitted to."
        )
    return x, posterior.predict(x)


def _within(
    posterior: Posterior,
    members: list[Networks],
    off: list[Piece],
    x: Any,
    before: Predictive,
    tolerance: float,
) -> list[Piece]:
    """The longest beginning of the list that keeps the predictive mean within tolerance.

    It is found by bisection, for the change nearly always grows with the number of pieces removed.
    The change of what is returned has been measured.
    """

    def fits(num: int) -> bool:
        after = with_members(posterior, mask(members, _rows(off[:num]))).predict(x)
        return mean_change(before, after) <= tolerance

    if fits(len(off)):
        return off
    low, high = 0, len(off)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return off[:low]


def _rows(pieces: list[Piece]) -> list[Row]:
    return [row for piece in pieces for row in piece]


def _warn_of_change(change: float) -> None:
    warn(
        f"What the prior switched off is not nothing: without it the predictive mean changes by up "
        f"to {change:.2g} of its spread at these inputs. With tolerance={MUCH:g} less is removed, "
        f"and it changes by no more than that.",
        UserWarning,
    )


def _report(
    before: Posterior,
    after: Posterior,
    made: Compacted | None,
    rows: Inputs | None,
    *,
    timed: bool,
    mask_only: bool,
) -> Report:
    report = Report(
        num_members=len(before.members),
        num_layers=(count_layers(before), count_layers(after)),
        num_parameters=(count_parameters(before), count_parameters(after)),
        num_stored=(count_stored(before), count_stored(after)),
        notes=("Only a mask was put on: all shapes are as before.",),
    )
    if made is None and not mask_only:
        report = dataclasses.replace(report, notes=(*report.notes, NO_EXAMPLE))
    if rows is None:
        return report
    taken = rows
    if made is not None:
        report = dataclasses.replace(
            report, units=made.units, dropped=made.dropped, inputs=made.inputs,
            inputs_off=made.inputs_off, notes=made.notes,
        )  # fmt: skip
        taken = rows[:, list(made.inputs)] if is_table(rows) else rows
    report = dataclasses.replace(
        report,
        multiply_adds=(
            count_multiply_adds(before, take_rows(rows, 0)),
            count_multiply_adds(after, take_rows(taken, 0)),
        ),
    )
    if not timed:
        return report
    latency = measure_latency(before, rows), measure_latency(after, taken)
    return dataclasses.replace(report, latency=latency)


def _count(members: list[Networks], off: list[Row], group: str) -> dict[str, tuple[int, int]]:
    """How many rows, or outputs, of each site are off and how many there are."""
    return {
        prior.name: (
            sum(row.site == prior.name and row.group == group for row in off),
            math.prod(GROUPS[group].full_shape(prior.site)) * len(members),
        )
        for prior in members[0].model.site_priors
        if group == "unit" or group in prior.groups
    }
