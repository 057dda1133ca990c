"""What a recipe makes of a table that is larger than memory."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._mesh import check_mesh
from scalemix.data.batches import Data
from scalemix.data.checks import check_inputs, check_targets, inputs_as_seen, targets_as_seen
from scalemix.data.input_layout import InputLayout
from scalemix.data.scaling import Scaling
from scalemix.data.streams import BatchStream, Epochs
from scalemix.fitting.candidates import Candidate
from scalemix.fitting.from_batches import pace_of
from scalemix.fitting.mixing import apportion
from scalemix.fitting.progress import bar
from scalemix.fitting.recipes import Fitted, Recipe
from scalemix.fitting.stacking import Chosen, choose, control_of, jobs_of
from scalemix.fitting.tried import build_candidates, mesh_for, trials_of, warn_of_few
from scalemix.inference.method import StreamProblem
from scalemix.inference.training.jobs import run_stream
from scalemix.posterior.posterior import Posterior

# What the rows of a chunk of steps may take in double precision. At least so many steps are one.
CHUNK_BYTES, LEAST_CHUNK = 2**26, 10


def fit_stream(
    recipe: Recipe,
    batches: Epochs,
    sample: tuple[np.ndarray, np.ndarray, np.ndarray],
    scaling: Scaling,
    *,
    key: PRNGKeyArray,
    num_classes: int | None,
    num_targets: int | None,
    layout: InputLayout,
    progress: bool | None = None,
    checkpoint: Path,
    resume: bool = False,
) -> Fitted:
    """The posterior that a recipe makes of batches, as `Recipe.fit` does of a table.

    The recipe trains: chains need all rows at once. Settings that held-out rows choose are chosen
    on the sample, `(x, y, sample_weight)`. The members of the final ensemble see the same batches.
    """
    network_key, fit_key = jax.random.split(key)
    num_rows, num_inputs = batches.num_rows, sample[0].shape[1]
    warn_of_few(num_rows)
    steps = CHUNK_BYTES // (8 * num_inputs * recipe.plan(num_rows).batch_size)
    candidates = [
        Candidate(model, _in_chunks(method, steps))
        for model, method in build_candidates(
            recipe, num_rows, num_inputs, num_classes, num_targets, layout, network_key
        )
    ]
    stream = BatchStream(batches, None, candidates[0].model, candidates[0].method.weighs_batches)
    stream.scaling = scaling
    devices = check_mesh(mesh_for(recipe))
    if len(candidates) == 1:
        ((model, method),) = candidates
        one_key, predict_key, _ = jax.random.split(fit_key, 3)
        with bar(progress, pace_of(stream)) as report:
            control = control_of(report, checkpoint, resume, devices)
            outcome = method.run_stream(StreamProblem(model, method, stream, one_key), control)
        return Fitted.to_table(_posterior(outcome, scaling, predict_key))
    plan = recipe.plan(num_rows)
    trial_key, final_key, split_key, predict_key = jax.random.split(fit_key, 4)
    with bar(progress) as report:
        (choice,) = choose(
            [candidates], [_as_seen(candidates[0].model, *sample, scaling)], [scaling],
            trial_key[None], split_key[None], num_trial_members=plan.num_trial_members,
            trial_share=plan.trial_share,
            control=control_of(report, f"{checkpoint}.trial", resume, devices),
        )  # fmt: skip
    counts = apportion(choice.shares, plan.num_members)
    jobs = jobs_of(candidates, counts, 0, final_key)
    with bar(progress, pace_of(stream)) as report:
        control = control_of(report, checkpoint, resume, devices)
        schedule = candidates[0].method.stream_schedule(stream)
        outcome = run_stream(jobs, schedule, stream, control).outcome(plan.num_members)
    posterior = _posterior(outcome, scaling, predict_key, choice)
    trials = trials_of(recipe, candidates, layout, choice.shares, choice.scores, counts)
    return Fitted.to_table(posterior, trials)


def _in_chunks(method: Any, steps: int) -> Any:
    return dataclasses.replace(method, chunk_steps=min(method.chunk_steps, max(steps, LEAST_CHUNK)))


def _as_seen(
    model: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray, scaling: Scaling
) -> Data:
    """Rows in memory as the network sees them."""
    seen = inputs_as_seen(check_inputs(x, model), model, scaling)
    y = targets_as_seen(check_targets(y, model.likelihood), scaling, model.dtype)
    return Data(seen, y, weight.astype(model.dtype))


def _posterior(
    outcome: Any, scaling: Scaling, key: PRNGKeyArray, choice: Chosen | None = None
) -> Posterior:
    (inferred,) = outcome.inferred
    spread = 1.0 if choice is None else choice.spread
    posterior = Posterior(inferred.networks, scaling, inferred.history, key, spread)
    outcome.warn([posterior])
    return posterior
