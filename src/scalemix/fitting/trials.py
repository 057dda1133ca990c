"""Trials of candidates on rows that they were not fitted to."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix.data.batches import Data, stack
from scalemix.data.preparation import hold_out
from scalemix.fitting.candidates import Candidate
from scalemix.inference.driver import Control
from scalemix.inference.training.jobs import ensemble_jobs, run_jobs
from scalemix.inference.training.settings import Training

# Draws of each network by which held-out rows are scored. With few of them a wide posterior scores
# worse than it predicts.
NUM_SCORED = 64
# Trials are no shorter than this, unless the final fits are: networks that have hardly begun to
# learn are too unsure of everything, and say nothing about those that have.
LEAST_TRIAL_STEPS = 2500


class HeldOut(NamedTuple):
    """What each candidate says of held-out rows, (candidates, rows), and the rows themselves.

    Of several targets each has a cdf of its own: (candidates, rows, targets).
    """

    log_prob: np.ndarray
    cdf: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def try_out(
    candidates: Sequence[Sequence[Candidate]],
    data: Sequence[Data],
    num_trial_members: int,
    fraction: float,
    trial_keys: PRNGKeyArray,
    split_keys: PRNGKeyArray,
    control: Control = Control(),  # noqa: B008
) -> list[HeldOut]:
    """For each data set, what each candidate, fitted to the other rows, says of those held out."""
    parts = [hold_out(one, fraction, key) for one, key in zip(data, split_keys, strict=True)]
    train, held_out = [part for part, _ in parts], stack([part for _, part in parts])
    jobs = [
        job
        for i, options in enumerate(candidates)
        for c, (model, method) in enumerate(options)
        for job in ensemble_jobs(
            model,
            dataclasses.replace(method, num_members=num_trial_members),
            i,
            jax.random.fold_in(trial_keys[i], c),
            num_trial_members,
        )
    ]
    schedule = candidates[0][0].method.schedule(train)
    log_prob, cdf = (
        values.reshape(-1, num_trial_members, *values.shape[1:])
        for values in run_jobs(
            jobs, schedule, train, control=control, lengths=[len(one.y) for one in data]
        ).score_rows(held_out, NUM_SCORED)
    )
    # The members of a candidate are mixed, as those of the final ensemble will be.
    log_prob = np.logaddexp.reduce(log_prob, axis=1) - np.log(num_trial_members)
    cdf = np.mean(cdf, axis=1)
    results, first = [], 0
    for i, options in enumerate(candidates):
        seen, mine = held_out.weight[i] > 0, slice(first, first + len(options))
        rows = held_out.y[i][seen], held_out.weight[i][seen]
        results.append(HeldOut(log_prob[mine, seen], cdf[mine, seen], *rows))
        first += len(options)
    return results


def shorten(method: Training, share: float, total: int) -> Training:
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
