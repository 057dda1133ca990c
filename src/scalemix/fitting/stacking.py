"""Ensembles whose settings the training data choose: `fit_stacked`.

A temperature or a noise floor that suits one table ruins another, and a part of the training data
can tell. Every candidate is tried on that part, and the final ensemble has members of each in
proportion to the weights with which their predictive distributions, mixed, explain it best:

    max_w  sum_n log sum_c w_c p_c(y_n | x_n)

(stacking of predictive distributions). The trials of all candidates, and of all data sets, are one
program; the final members are another. What such a mixture says of held-out rows that had no say in
its weights also calibrates the intervals of the final ensemble (`scalemix.posterior.calibration`).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from scalemix._random import check_key, check_keys
from scalemix.data.batches import Data, stack
from scalemix.data.preparation import Standardize, hold_out, prepare
from scalemix.fitting.findings import warn_of_useless_fits
from scalemix.fitting.front_door import (
    Job,
    Method,
    check_method,
    common_steps,
    members,
    restart,
    run_jobs,
)
from scalemix.inference.training.compiled import held_out_scores
from scalemix.inference.training.em import VariationalEM
from scalemix.likelihoods import Likelihood, StudentT
from scalemix.model.assignment import Prior
from scalemix.model.model import Model
from scalemix.posterior.calibration import score_spread
from scalemix.posterior.posterior import Posterior

# Fewer held-out rows than this tell nothing, and all candidates count the same.
LEAST_HELD_OUT = 10
TEMPERATURES = (0.1, 0.3, 1.0)
FLOORS = (1e-3, 0.1)
ITERATIONS = 300
# Parts of the held-out rows, each of which is scored under the mixture that the others choose.
NUM_FOLDS = 5
# Draws of each network by which held-out rows are scored. With few of them a wide posterior scores
# worse than it predicts.
NUM_SCORED = 64
# Trials are no shorter than this, unless the final fits are: networks that have hardly begun to
# learn are too unsure of everything, and say nothing of those that have.
LEAST_TRIAL_STEPS = 4000


class Candidate(NamedTuple):
    """A model and a method of fitting it, on trial."""

    model: Model
    method: Method


class HeldOut(NamedTuple):
    """What each candidate says of held-out rows, (candidates, rows), and the rows' weights."""

    log_prob: np.ndarray
    cdf: np.ndarray
    weight: np.ndarray


class Stacked(NamedTuple):
    """An ensemble, and how the candidates fared."""

    posterior: Posterior
    weights: np.ndarray
    """Each candidate's share of the mixture that explains the held-out rows best."""
    scores: np.ndarray
    """Each candidate's own log-likelihood per held-out row, on the scale of the target."""
    num_members: np.ndarray
    """How many members of the ensemble are of each candidate."""


def default_candidates(
    network: PyTree,
    prior: Prior,
    method: VariationalEM,
    likelihoods: Sequence[Likelihood] | None = None,
) -> list[Candidate]:
    """Three temperatures for each likelihood; for a real target, two floors of Student-t noise.

    The noise is one for each input, so that the network needs two outputs. A high floor keeps an
    overfitted network from being sure of itself; a low one lets noiseless targets be matched.
    """
    if likelihoods is None:
        likelihoods = [StudentT(4.0, floor=floor, per_input=True) for floor in FLOORS]
    return [
        Candidate(
            Model(network, prior, likelihood), dataclasses.replace(method, temperature=temperature)
        )
        for likelihood in likelihoods
        for temperature in TEMPERATURES
    ]


def fit_stacked(
    candidates: Sequence[Candidate],
    x: Any,
    y: Any,
    *,
    key: PRNGKeyArray,
    num_members: int = 16,
    num_trial_members: int = 4,
    trial_share: float = 0.3,
    held_out: float = 0.25,
    sample_weight: Any = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> Stacked:
    """An ensemble of `num_members` fits, of candidates that a held-out part of the data chose.

    Candidates are models of one kind, whose priors and likelihoods may differ in their numbers, and
    methods that may differ in temperature. `num_trial_members` fits of each are tried on the share
    `held_out` of the rows, and train for `trial_share` of the steps, or 4,000 if that is more and
    there are so many: settings show their worth early. The final members are fitted to all rows.
    """
    return fit_stacked_many(
        [candidates], [x], [y], keys=check_key(key, "key")[None], num_members=num_members,
        num_trial_members=num_trial_members, trial_share=trial_share, held_out=held_out,
        sample_weights=None if sample_weight is None else [sample_weight],
        standardize=standardize, progress=progress, checkpoint=checkpoint, resume=resume,
    )[0]  # fmt: skip


def fit_stacked_many(
    candidates: Sequence[Sequence[Candidate]],
    xs: Sequence[Any],
    ys: Sequence[Any],
    *,
    keys: PRNGKeyArray,
    num_members: int = 16,
    num_trial_members: int = 4,
    trial_share: float = 0.3,
    held_out: float = 0.25,
    sample_weights: Sequence[Any] | None = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> list[Stacked]:
    """`fit_stacked` of several data sets at once: `candidates[i]`, `xs[i]`, `ys[i]`, `keys[i]`."""
    num = len(xs)
    keys = check_keys(keys, num)
    _check(candidates, num_members, num_trial_members, trial_share, held_out)
    weights = [None] * num if sample_weights is None else list(sample_weights)
    prepared = [
        prepare(options[0].model, x, y, weight, standardize)
        for options, x, y, weight in zip(candidates, xs, ys, weights, strict=True)
    ]
    data = [one for one, _ in prepared]
    scalings = [scaling for _, scaling in prepared]
    trial_keys, final_keys, split_keys, predict_keys = jax.vmap(
        lambda key: jax.random.split(key, 4), out_axes=1
    )(keys)
    files = (f"{checkpoint}.trial", checkpoint) if checkpoint is not None else (None, None)
    shares = [np.full(len(options), 1 / len(options)) for options in candidates]
    scores = [np.full(len(options), np.nan) for options in candidates]
    spreads = [1.0] * num
    if min(len(one.y) for one in data) * held_out >= LEAST_HELD_OUT:
        total = common_steps(candidates[0][0].method, [len(one.y) for one in data])
        trials = [
            [Candidate(model, _shortened(method, trial_share, total)) for model, method in options]
            for options in candidates
        ]
        found = try_out(
            trials, data, num_trial_members, held_out, trial_keys, split_keys,
            progress=progress, checkpoint=files[0], resume=resume,
        )  # fmt: skip
        for i, (log_prob, cdf, weight) in enumerate(found):
            shares[i] = stacking_weights(log_prob, weight)
            scores[i] = np.average(log_prob, axis=1, weights=weight) - np.log(scalings[i].y_scale)
            if candidates[i][0].model.likelihood.continuous_units:
                spreads[i] = score_spread(crossed_cdf(log_prob, cdf, weight), weight)
    counts = [apportion(share, num_members) for share in shares]
    jobs = [
        Job(restart(options[which].model, keys[m]), options[which].method, i, keys[m])
        for i, (options, count) in enumerate(zip(candidates, counts, strict=True))
        for keys in [jax.random.split(final_keys[i], num_members)]
        for m, which in enumerate(np.repeat(np.arange(len(options)), count).tolist())
    ]
    ran = run_jobs(jobs, data, None, progress=progress, checkpoint=files[1], resume=resume)
    ensemble = dataclasses.replace(candidates[0][0].method, num_members=num_members)
    posteriors = [
        eqx.tree_at(
            lambda posterior: posterior.score_spread,
            ran.posterior(i, ensemble, scalings[i], predict_keys[i]),
            spreads[i],
        )
        for i in range(num)
    ]
    warn_of_useless_fits(ran.outcome, jobs, data, posteriors)
    return [Stacked(*found) for found in zip(posteriors, shares, scores, counts, strict=True)]


def try_out(
    candidates: Sequence[Sequence[Candidate]],
    data: list[Data],
    num_trial_members: int,
    fraction: float,
    trial_keys: PRNGKeyArray,
    split_keys: PRNGKeyArray,
    **run: Any,
) -> list[HeldOut]:
    """For each data set, what each candidate, fitted to the other rows, says of those held out."""
    parts = [hold_out(one, fraction, key) for one, key in zip(data, split_keys, strict=True)]
    held_out = stack([part for _, part in parts])
    jobs = [
        job
        for i, options in enumerate(candidates)
        for c, (model, method) in enumerate(options)
        for job in members(
            model,
            dataclasses.replace(method, num_members=num_trial_members),
            i,
            jax.random.fold_in(trial_keys[i], c),
        )
    ]
    ran = run_jobs(jobs, [part for part, _ in parts], None, **run)
    which = np.array([job.which for job in jobs])
    keys = jnp.stack([job.key for job in jobs])
    log_prob, cdf = (
        values.reshape(len(values) // num_trial_members, num_trial_members, -1)
        for values in held_out_scores(
            ran.programs, ran.outcome.state, held_out, which, keys, NUM_SCORED
        )
    )
    # The members of a candidate are mixed, as those of the final ensemble will be.
    log_prob = np.logaddexp.reduce(log_prob, axis=1) - np.log(num_trial_members)
    cdf = np.mean(cdf, axis=1)
    found, first = [], 0
    for i, options in enumerate(candidates):
        seen, mine = held_out.weight[i] > 0, slice(first, first + len(options))
        found.append(HeldOut(log_prob[mine, seen], cdf[mine, seen], held_out.weight[i][seen]))
        first += len(options)
    return found


def _shortened(method: Method, share: float, total: int) -> Method:
    """The method with this share of all its steps, as long as they are enough."""
    steps = min(total, max(round(share * total), LEAST_TRIAL_STEPS))
    method = dataclasses.replace(
        method, steps=steps, epochs=None, chunk_steps=min(method.chunk_steps, steps)
    )
    warm_up = getattr(method, "warm_up", 0.0)
    if isinstance(warm_up, int):
        # A number of steps is the same share of a shorter run.
        method = dataclasses.replace(method, warm_up=round(warm_up * steps / total))
    return method


def stacking_weights(log_probs: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The mixture of candidates under which the rows are most likely.

    `log_probs` is (candidates, rows). The problem is concave; these are the steps of expectation
    maximisation for the shares of a mixture, each of which can only improve on the last.
    """
    relative = np.exp(log_probs - log_probs.max(axis=0))
    shares = np.full(len(log_probs), 1 / len(log_probs))
    for _ in range(ITERATIONS):
        belongs = shares[:, None] * relative
        shares = np.average(belongs / belongs.sum(axis=0), axis=1, weights=weight)
    return shares


def crossed_cdf(log_prob: np.ndarray, cdf: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Each row's `cdf` under the mixture that the other rows choose, fold by fold.

    Rows that chose the mixture lie better in it than new ones will: spreads measured on them are
    too small, and intervals too narrow by as much as several points of coverage.
    """
    folds = np.arange(len(weight)) % NUM_FOLDS
    crossed = np.empty(len(weight))
    for fold in range(NUM_FOLDS):
        mine, others = folds == fold, folds != fold
        crossed[mine] = stacking_weights(log_prob[:, others], weight[others]) @ cdf[:, mine]
    return crossed


def apportion(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to the shares, by largest remainders."""
    exact = shares * total
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


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
