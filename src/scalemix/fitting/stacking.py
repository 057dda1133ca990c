"""Ensembles whose settings the training data choose: `fit_stacked`.

A temperature or a noise floor that suits one table ruins another, and a part of the training data
can tell which. Every candidate is tried on that part. The final ensemble has members of each in
proportion to the weights with which their predictive distributions, mixed, explain it best
(stacking of predictive distributions).

The trials of all candidates, and of all data sets, are one program; the final members are another.
The held-out rows also calibrate the intervals of the final ensemble, each of them under a mixture
whose weights it had no say in (`scalemix.posterior.calibration`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from scalemix._mesh import check_mesh
from scalemix._random import check_key, check_keys, split_apart, split_each
from scalemix.data.batches import Data
from scalemix.data.preparation import Standardize, prepare
from scalemix.data.scaling import Scaling
from scalemix.fitting.candidates import Candidate
from scalemix.fitting.front_door import check_method, check_resume
from scalemix.fitting.mixing import apportion, crossed_cdf, stacking_weights
from scalemix.fitting.progress import bar
from scalemix.fitting.trials import shorten, trial_lengths, try_out
from scalemix.inference.driver import Control
from scalemix.inference.training.jobs import Job, restart, run_jobs
from scalemix.inference.training.settings import Training
from scalemix.posterior.calibration import score_spread
from scalemix.posterior.posterior import Posterior

# Fewer held-out rows than this tell nothing, and all candidates count the same.
LEAST_HELD_OUT = 10
HELD_OUT = 0.25


def can_hold_out(num_rows: int, share: float = HELD_OUT) -> bool:
    """Whether there are enough rows for a part of them to choose among candidates."""
    return num_rows * share >= LEAST_HELD_OUT


class Stacked(NamedTuple):
    """An ensemble, and how the candidates fared.

    Attributes
    ----------
    posterior : Posterior
        The ensemble.
    weights : numpy.ndarray
        Each candidate's share of the mixture that explains the held-out rows best.
    scores : numpy.ndarray
        Each candidate's own log-likelihood per held-out row, on the scale of the target. Not a
        number where there were too few rows to hold out any.
    num_members : numpy.ndarray
        How many members of the ensemble are of each candidate.

    Examples
    --------
    >>> from scalemix import Stacked
    >>> Stacked._fields
    ('posterior', 'weights', 'scores', 'num_members')
    """

    posterior: Posterior
    weights: np.ndarray
    scores: np.ndarray
    num_members: np.ndarray


def fit_stacked(
    candidates: Sequence[Candidate],
    x: Any,
    y: Any,
    *,
    key: PRNGKeyArray,
    num_members: int = 16,
    num_trial_members: int = 2,
    trial_share: float = 0.3,
    held_out: float = HELD_OUT,
    sample_weight: Any = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> Stacked:
    """An ensemble of the candidates that a held-out part of the data chose.

    Every candidate is tried on held-out rows. The final members are fitted to all rows.

    Parameters
    ----------
    candidates : sequence of Candidate
        Models of one kind, whose priors and likelihoods may differ in their numbers, with methods
        that may differ in temperature.
    x : array_like
        The inputs, one row an example.
    y : array_like
        The targets.
    key : PRNGKey
        The key that decides everything random.
    num_members : int, default 16
        The size of the final ensemble.
    num_trial_members : int, default 2
        The number of fits of each candidate that are tried. Each holds out other rows, as long as
        there are as many left; then they begin anew. Every part that is held out takes a copy of
        the other rows: on tables that nearly fill the memory, give 1.
    trial_share : float, default 0.3
        The share of the steps that trials take, since settings show their worth early. It is 1,500
        steps if that is more, but never more than the final fits take.
    held_out : float, default 0.25
        The share of the rows on which candidates are tried. Where that makes fewer than 10 rows,
        all candidates count the same.
    sample_weight : array_like, optional
        As in `fit`.
    standardize : bool, "target" or sequence of bool, default True
        As in `fit`.
    progress : bool, optional
        As in `fit`.
    checkpoint : path, optional
        As in `fit`. The trials have a file of their own beside it, which ends in `.trial`.
    resume : bool, default False
        As in `fit`.
    mesh : jax.sharding.Mesh, optional
        As in `fit`; trials are members too.

    Returns
    -------
    Stacked
        The ensemble, and how the candidates fared.

    Examples
    --------
    >>> from scalemix import Candidate
    >>> candidates = [
    ...     Candidate(model, sx.VariationalEM(steps=20, temperature=t)) for t in (0.1, 1.0)
    ... ]
    >>> stacked = sx.fit_stacked(candidates, x, y, key=key, num_members=3, num_trial_members=1)
    >>> len(stacked.posterior.members), int(stacked.num_members.sum())
    (3, 3)
    """
    return fit_stacked_many(
        [candidates], [x], [y], keys=check_key(key, "key")[None], num_members=num_members,
        num_trial_members=num_trial_members, trial_share=trial_share, held_out=held_out,
        sample_weights=None if sample_weight is None else [sample_weight],
        standardize=standardize, progress=progress, checkpoint=checkpoint, resume=resume,
        mesh=mesh,
    )[0]  # fmt: skip


def fit_stacked_many(
    candidates: Sequence[Sequence[Candidate]],
    xs: Sequence[Any],
    ys: Sequence[Any],
    *,
    keys: PRNGKeyArray,
    num_members: int = 16,
    num_trial_members: int = 2,
    trial_share: float = 0.3,
    held_out: float = HELD_OUT,
    sample_weights: Sequence[Any] | None = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> list[Stacked]:
    """`fit_stacked` of several data sets at once.

    Parameters
    ----------
    candidates : sequence of sequences of Candidate
        The candidates for each data set.
    xs, ys : sequence of array_like
        The inputs and the targets of each data set.
    keys : PRNGKey
        One key for each data set.
    num_members : int, default 16
        As in `fit_stacked`.
    num_trial_members : int, default 2
        As in `fit_stacked`.
    trial_share : float, default 0.3
        As in `fit_stacked`.
    held_out : float, default 0.25
        As in `fit_stacked`.
    sample_weights : sequence of array_like, optional
        The weights of the rows of each data set.
    standardize : bool, "target" or sequence of bool, default True
        As in `fit`.
    progress : bool, optional
        As in `fit`.
    checkpoint : path, optional
        As in `fit_stacked`: the files are those of all data sets together.
    resume : bool, default False
        As in `fit`.
    mesh : jax.sharding.Mesh, optional
        As in `fit`; trials are members too.

    Returns
    -------
    list of Stacked
        One for each data set.

    Examples
    --------
    >>> from scalemix import Candidate
    >>> candidates = [Candidate(model, sx.VariationalEM(steps=20))]
    >>> both = sx.fit_stacked_many(
    ...     [candidates] * 2, [x, x], [y, -y], keys=jax.random.split(key, 2), num_members=2,
    ...     num_trial_members=1,
    ... )
    >>> [stacked.num_members.tolist() for stacked in both]
    [[2], [2]]
    """
    num = len(xs)
    keys = check_keys(keys, num)
    _check(candidates, num_members, num_trial_members, trial_share, held_out)
    devices = check_mesh(mesh)
    trial_file = None if checkpoint is None else f"{checkpoint}.trial"
    check_resume(checkpoint, resume, f"{checkpoint}.trial")
    weights = [None] * num if sample_weights is None else list(sample_weights)
    prepared = [
        prepare(options[0].model, x, y, weight, standardize)
        for options, x, y, weight in zip(candidates, xs, ys, weights, strict=True)
    ]
    data = [one for one, _ in prepared]
    scalings = [scaling for _, scaling in prepared]
    trial_keys, final_keys, split_keys, predict_keys = split_each(keys, 4)
    method = candidates[0][0].method
    tries = can_hold_out(min(len(one.y) for one in data), held_out)
    with bar(progress if tries else False) as report:
        choices = choose(
            candidates, data, scalings, trial_keys, split_keys,
            num_trial_members=num_trial_members, trial_share=trial_share, held_out=held_out,
            control=control_of(report, trial_file, resume, devices),
        )  # fmt: skip
    counts = [apportion(choice.shares, num_members) for choice in choices]
    jobs = [
        job
        for i, options in enumerate(candidates)
        for job in jobs_of(options, counts[i], i, final_keys[i])
    ]
    with bar(progress) as report:
        control = control_of(report, checkpoint, resume, devices)
        # As in the trials, whose program then serves here too.
        num_rows = [len(one.y) for one in data]
        lengths = trial_lengths(num_rows, held_out, num_trial_members) if tries else []
        trained = run_jobs(jobs, method.schedule(data), data, control=control, lengths=lengths)
        outcome = trained.outcome(num_members)
    posteriors = [
        Posterior(one.networks, scaling, one.history, key, choice.spread)
        for one, scaling, key, choice in zip(
            outcome.inferred, scalings, predict_keys, choices, strict=True
        )
    ]
    outcome.warn(posteriors)
    return [
        Stacked(posterior, choice.shares, choice.scores, count)
        for posterior, choice, count in zip(posteriors, choices, counts, strict=True)
    ]


class Chosen(NamedTuple):
    """What held-out rows say of candidates."""

    shares: np.ndarray
    scores: np.ndarray
    spread: Any
    """By which intervals of the mixture are calibrated."""


def choose(
    candidates: Sequence[Sequence[Candidate]],
    data: Sequence[Data],
    scalings: Sequence[Scaling],
    trial_keys: PRNGKeyArray,
    split_keys: PRNGKeyArray,
    *,
    num_trial_members: int,
    control: Control,
    trial_share: float = 0.3,
    held_out: float = 0.25,
) -> list[Chosen]:
    """What held-out rows of each data set choose among its candidates."""
    even = [np.full(len(options), 1 / len(options)) for options in candidates]
    if not can_hold_out(min(len(one.y) for one in data), held_out):
        return [Chosen(shares, np.full(len(shares), np.nan), 1.0) for shares in even]
    total = candidates[0][0].method.common_steps([len(one.y) for one in data])
    trials = [
        [Candidate(model, shorten(method, trial_share, total)) for model, method in options]
        for options in candidates
    ]
    tried = try_out(trials, data, num_trial_members, held_out, trial_keys, split_keys, control)
    choices = []
    for options, scaling, (log_prob, cdf, y, weight) in zip(
        candidates, scalings, tried, strict=True
    ):
        units = scaling.log_unit(options[0].model.likelihood.has_density(y))
        scores = np.average(log_prob - units, axis=1, weights=weight)
        spread: Any = 1.0
        if np.isfinite(cdf).all():
            spread = score_spread(crossed_cdf(log_prob, cdf, weight), weight)
        choices.append(Chosen(stacking_weights(log_prob, weight), scores, spread))
    return choices


def jobs_of(
    options: Sequence[Candidate], counts: np.ndarray, which: int, key: PRNGKeyArray
) -> list[Job]:
    """The members of the final ensemble on data set `which`, so many of each candidate."""
    keys = split_apart(key, int(counts.sum()))
    chosen = np.repeat(np.arange(len(options)), counts).tolist()
    return [
        Job(restart(options[one].model, keys[m]), options[one].method, which, keys[m])
        for m, one in enumerate(chosen)
    ]


def control_of(
    report: Any, checkpoint: str | Path | None, resume: bool, mesh: Mesh | None
) -> Control:
    """Who watches a part of the fit, and where it is kept."""
    path = None if checkpoint is None else Path(checkpoint)
    return Control(report, path, resume=resume, mesh=mesh)


def _check(
    candidates: Sequence[Sequence[Candidate]],
    num_members: int,
    num_trial: int,
    trial_share: float,
    held_out: float,
) -> None:
    for options in candidates:
        if not options:
            raise ValueError("fit_stacked needs one candidate or more, pairs of model and method.")
        for model, method in options:
            check_method(method, model)
            if not isinstance(method, Training):
                raise ValueError(
                    f"fit_stacked takes methods of training, VariationalEM or NoiseTraining; got "
                    f"{type(method).__name__}."
                )
            if method.num_members != 1 or method.validation_fraction:
                raise ValueError(
                    "fit_stacked says itself how many members there are and what is held out: "
                    "leave num_members and validation_fraction of the methods alone."
                )
    for name, value in (("num_members", num_members), ("num_trial_members", num_trial)):
        if not (isinstance(value, int) and value > 0):
            raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    if not 0 < trial_share <= 1:
        raise ValueError(f"trial_share must lie in (0, 1], got {trial_share}.")
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must lie in (0, 1), got {held_out}.")
