"""Trials of candidates: which rows each member holds out, and what comes of it."""

import dataclasses
import logging

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalemix as sx
from scalemix import Candidate
from scalemix.data.batches import Data, stack
from scalemix.data.preparation import hold_out, hold_out_in_turn
from scalemix.fitting.trials import NUM_SCORED, trial_lengths, try_out
from scalemix.inference.training.jobs import ensemble_jobs, run_jobs
from scalemix.inference.training.programs import HeldOutScores
from tests.fitting.test_stacking import KEY, candidates, data

NUM = 40


def numbered(num=NUM, seed=0):
    """Rows whose weights say which they are."""
    x, y = data(seed, num)
    return Data(x.astype(np.float32), y.astype(np.float32), 1 + np.arange(num, dtype=np.float32))


@settings(derandomize=True, max_examples=50)
@given(st.integers(4, 60), st.floats(0.125, 0.5, exclude_min=True))
def test_parts_are_of_one_size_and_no_row_is_in_two(num, fraction):
    parts = list(hold_out_in_turn(numbered(num), fraction, KEY))
    held = [part.weight.tolist() for _, part in parts]
    assert len({len(one) for one in held}) == 1
    flat = [row for one in held for row in one]
    assert len(flat) == len(set(flat))
    # What is left over is too little for another part.
    assert num - len(flat) < len(held[0])
    for (kept, part), rows in zip(parts, held, strict=True):
        assert sorted([*kept.weight.tolist(), *rows]) == (1 + np.arange(num)).tolist()
        np.testing.assert_array_equal(part.x, numbered(num).x[np.array(rows, int) - 1])
    np.testing.assert_array_equal(hold_out(numbered(num), fraction, KEY)[1].weight, held[0])
    kept = [len(kept.y) for kept, _ in parts]
    assert trial_lengths([num], fraction, len(parts) + 1) == kept
    assert trial_lengths([num], fraction, 1) == kept[:1]


@pytest.mark.parametrize("num_members", [1, 2, 3, 5])
def test_members_hold_out_parts_in_turn_and_are_mixed_where_they_share_one(num_members):
    """With thirds held out there are three parts: of five members, two share each of two."""
    options = [
        Candidate(model, dataclasses.replace(method, steps=20, chunk_steps=20))
        for model, method in candidates()
    ]
    rows, fraction = numbered(), 0.33
    split_keys, trial_keys = jax.random.split(KEY, 1), jax.random.split(jax.random.key(1), 1)
    (tried,) = try_out([options], [rows], num_members, fraction, trial_keys, split_keys)
    parts = list(hold_out_in_turn(rows, fraction, split_keys[0]))[:num_members]
    assert len(parts) == min(num_members, 3)
    np.testing.assert_array_equal(tried.weight, np.concatenate([part.weight for _, part in parts]))
    np.testing.assert_array_equal(tried.y, np.concatenate([part.y for _, part in parts]))
    model, method = options[1]
    members = ensemble_jobs(
        model, dataclasses.replace(method, num_members=num_members), 0,
        jax.random.fold_in(trial_keys[0], 1), num_members,
    )  # fmt: skip
    place = len(parts) - 1
    kept, part = parts[place]
    alone = [job._replace(which=0) for job in members[place :: len(parts)]]
    scores = run_jobs(alone, method.schedule([kept]), [kept], lengths=[NUM]).score_rows(
        stack([part]), NUM_SCORED
    )
    expected = np.log(np.mean(np.exp(scores.log_prob[:, : len(part.y)]), axis=0))
    # Fits side by side and alone may round differently, in single precision.
    np.testing.assert_allclose(tried.log_prob[1, -len(part.y) :], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        tried.cdf[1, -len(part.y) :], scores.cdf[:, : len(part.y)].mean(axis=0), atol=1e-4
    )


def test_trials_and_the_final_ensemble_are_one_program(caplog):
    """Although trials read several parts of the table, and the final networks all of it."""
    options = [
        Candidate(model, dataclasses.replace(method, steps=26, chunk_steps=13))
        for model, method in candidates()
    ]
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        sx.fit_stacked(
            options, *data(0, 2 * NUM), key=KEY, num_members=8, num_trial_members=4, progress=False
        )
    compilations = [r for r in caplog.messages if r.startswith("Compiling jit(run_chunk)")]
    assert len(compilations) == 1
    # What scores the trials was compiled by another thread, whose programs are not logged.
    assert not any(r.startswith("Compiling jit(score_rows)") for r in caplog.messages)


def test_scores_come_out_the_same_whether_their_program_is_made_ahead_or_not():
    model, method = candidates()[0]
    method = dataclasses.replace(method, steps=20, chunk_steps=10)
    kept, part = hold_out(numbered(), 0.25, KEY)
    jobs, schedule = ensemble_jobs(model, method, 0, KEY, 2), method.schedule([kept])
    to_score = stack([part]), NUM_SCORED
    both = []
    for ahead in (to_score, None):
        jax.clear_caches()
        ran = run_jobs(jobs, schedule, [kept], to_score=ahead)
        both.append(ran.score_rows(*to_score))
    np.testing.assert_array_equal(both[0].log_prob, both[1].log_prob)
    np.testing.assert_array_equal(both[0].cdf, both[1].cdf)


def test_what_goes_wrong_ahead_does_not_end_the_run(monkeypatch):
    model, method = candidates()[0]
    method = dataclasses.replace(method, steps=10, chunk_steps=10)
    kept, part = hold_out(numbered(), 0.25, KEY)

    def fail(self, state):
        raise RuntimeError("no program")

    monkeypatch.setattr(HeldOutScores, "compile", fail)
    jobs, to_score = ensemble_jobs(model, method, 0, KEY, 1), (stack([part]), NUM_SCORED)
    ran = run_jobs(jobs, method.schedule([kept]), [kept], to_score=to_score)
    assert np.isfinite(ran.score_rows(*to_score).log_prob).all()
