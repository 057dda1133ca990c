"""Trials of candidates on rows that they were not fitted to."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import fold_in
from scalemix.data.batches import Data, stack
from scalemix.data.preparation import hold_out_in_turn, num_left
from scalemix.fitting.candidates import Candidate
from scalemix.inference.driver import Control
from scalemix.inference.training.jobs import ensemble_jobs, run_jobs
from scalemix.inference.training.settings import Training

# Draws of each network by which held-out rows are scored. With few of them a wide posterior scores
# worse than it predicts.
NUM_SCORED = 64
# Trials are no shorter than this, unless the final fits are: networks that have hardly begun to
# learn are too unsure of everything, and say nothing about those that have.
LEAST_TRIAL_STEPS = 1500


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
    """For each data set, what each candidate, fitted to the other rows, says of those held out.

    Each member of a candidate holds out another part of the rows, as long as there are any left;
    then the next ones share the parts. On small tables, where the choice is hardest, more rows help
    more than a second opinion on the same ones. But a row is then judged by a single network, and
    settings whose networks differ much look worse than their ensembles are.
    """
    num_parts = [count_parts(len(one.y), fraction, num_trial_members) for one in data]
    parts = [
        pair
        for one, key, num in zip(data, split_keys, num_parts, strict=True)
        for pair in itertools.islice(hold_out_in_turn(one, fraction, key), num)
    ]
    first_parts = np.cumsum([0, *num_parts]).tolist()
    train, held_out = zip(*parts, strict=True)
    jobs = [
        job._replace(which=first_parts[i] + member % num_parts[i])
        for i, options in enumerate(candidates)
        for c, (model, method) in enumerate(options)
        for member, job in enumerate(
            ensemble_jobs(
                model,
                dataclasses.replace(method, num_members=num_trial_members),
                i,
                fold_in(trial_keys[i], c),
                num_trial_members,
            )
        )
    ]
    schedule = candidates[0][0].method.schedule(train)
    lengths, to_score = [len(one.y) for one in data], (stack(held_out), NUM_SCORED)
    tried = run_jobs(jobs, schedule, train, control=control, lengths=lengths, to_score=to_score)
    scores = tried.score_rows(*to_score)
    log_prob, cdf = np.asarray(scores.log_prob), np.asarray(scores.cdf)
    results, first = [], 0
    for i, options in enumerate(candidates):
        mine = slice(first, first + len(options) * num_trial_members)
        own_parts = held_out[first_parts[i] : first_parts[i + 1]]
        results.append(_joined(log_prob[mine], cdf[mine], num_trial_members, own_parts))
        first = mine.stop
    return results


def count_parts(num_rows: int, fraction: float, num_trial_members: int) -> int:
    """How many parts of a data set are held out in turn."""
    return min(num_trial_members, num_rows // (num_rows - num_left(num_rows, fraction)))


def trial_lengths(num_rows: Sequence[int], fraction: float, num_trial_members: int) -> list[int]:
    """How many rows there are in each data set that trials are fitted to."""
    return [
        num_left(num, fraction)
        for num in num_rows
        for _ in range(count_parts(num, fraction, num_trial_members))
    ]


def _joined(
    log_prob: np.ndarray, cdf: np.ndarray, num_members: int, held_out: Sequence[Data]
) -> HeldOut:
    """What candidates say of the rows of all parts, from what each of their members says.

    The members that hold out the same part are mixed, as those of the final ensemble will be. Where
    a part has a single member, there is nothing to mix, and intervals of an ensemble whose members
    disagree are calibrated a little too wide.
    """
    log_prob, cdf = (
        values.reshape(-1, num_members, *values.shape[1:]) for values in (log_prob, cdf)
    )
    log_probs, cdfs = [], []
    for place, part in enumerate(held_out):
        # Rows beyond those of a part fill it up to the size of the largest.
        mine = np.s_[:, place :: len(held_out), : len(part.y)]
        under_each = log_prob[mine]
        mixed = np.logaddexp.reduce(under_each, axis=1) - np.log(under_each.shape[1])
        log_probs.append(mixed)
        cdfs.append(np.mean(cdf[mine], axis=1))
    y = np.concatenate([part.y for part in held_out])
    weight = np.concatenate([part.weight for part in held_out])
    return HeldOut(np.concatenate(log_probs, axis=1), np.concatenate(cdfs, axis=1), y, weight)


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
