"""Table 1: one hidden layer of 50 under Bernoulli noise, by several objectives."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scalemix._mesh import check_mesh
from scalemix.data import Dataset
from scalemix.data.batches import Data, stack
from scalemix.data.preparation import hold_out, prepare
from scalemix.fitting.front_door import fit_many
from scalemix.fitting.progress import bar
from scalemix.fitting.trials import NUM_SCORED
from scalemix.inference import NoiseTraining
from scalemix.inference.driver import Control
from scalemix.inference.training.jobs import Job, run_jobs
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import Bernoulli
from scalemix.model.model import Model
from scalemix.networks import MLP
from scalemix.posterior.posterior import Posterior
from scalemix.reproduce.given_rows import given_rows, held_out_log_probs
from scalemix.reproduce.plans import WIDTH, Plan, Split
from scalemix.structures import ARD


class Kind(NamedTuple):
    """An objective, who shares a draw, and what noise predicts."""

    objective: Any
    sharing: Any
    given_rows: bool = False
    """Whether predictions take noise given the rows of training, or from the prior as dropout."""


KINDS = {
    "lower_bound": Kind("lower_bound", "example"),
    "importance_weighted_by_example": Kind("importance_weighted", "example"),
    "tail_adaptive": Kind("tail_adaptive", "example"),
    "importance_weighted_by_batch": Kind("importance_weighted", "batch"),
    "importance_weighted_given_rows": Kind("importance_weighted", "batch", given_rows=True),
}
# Those that share draws alike are one program.
GROUPS = [
    tuple(name for name, kind in KINDS.items() if kind.sharing == sharing)
    for sharing in ("example", "batch")
]
NUM_DRAWS = 10


class SplitFits(NamedTuple):
    """A posterior for each split, and what was chosen for it inside its training set."""

    posteriors: list[Posterior]
    chosen: list[dict[str, float]]


def fit_dropout(
    data: Dataset,
    splits: Sequence[Split],
    plan: Plan,
    names: Sequence[str],
    progress: bool | None,
) -> dict[str, SplitFits]:
    """Fits of each split by methods that share draws alike.

    All splits, objectives and choices are tried as one program, and what was chosen trains as
    another. Methods that differ only in how they predict share a fit where they choose alike.
    """
    num = len(splits)
    training = plan.training(len(splits[0][0]))
    methods: dict[str, NoiseTraining] = {}
    for name in names:
        objective, sharing, _ = KINDS[name]
        methods[name] = NoiseTraining(
            objective, num_draws=NUM_DRAWS, noise_sharing=sharing, **training
        )
    keys = jax.random.split(jax.random.key(1), num)
    options = [_options(data.x.shape[1], plan, key) for key in keys]
    xs, ys = ([values[rows] for rows, _ in splits] for values in (data.x, data.y))
    prepared = [prepare(options[0][0], x, y, None, True)[0] for x, y in zip(xs, ys, strict=True)]
    best = _choose(options, methods, prepared, plan.held_out, progress)
    # The fits that are asked for, each once: a method, a split and what was chosen for it.
    wanted = {name: [(methods[name], i, best[name][i]) for i in range(num)] for name in names}
    fits = list(dict.fromkeys(fit for of_method in wanted.values() for fit in of_method))
    posteriors = fit_many(
        [options[i][choice] for _, i, choice in fits],
        [xs[i] for _, i, _ in fits],
        [ys[i] for _, i, _ in fits],
        [method for method, _, _ in fits],
        keys=keys[np.array([i for _, i, _ in fits])],
        progress=progress,
    )
    made = dict(zip(fits, posteriors, strict=True))
    fitted = {}
    for name in names:
        mine = [made[fit] for fit in wanted[name]]
        if KINDS[name].given_rows:
            mine = [given_rows(*one) for one in zip(mine, prepared, keys, strict=True)]
        fitted[name] = SplitFits(mine, [plan.choices[c] for c in best[name]])
    return fitted


def _options(num_inputs: int, plan: Plan, key: Any) -> list[Model]:
    """The models of one split among which is chosen."""
    network = MLP(num_inputs, "scalar", WIDTH, 1, key=key)
    scale = np.inf if plan.prior_scale is None else plan.prior_scale
    return [
        Model(
            network,
            ARD(Bernoulli(1 - c["drop"]), scale=scale),
            Gaussian(floor=c["noise_floor"]),
        )
        for c in plan.choices
    ]


def _choose(
    options: Sequence[Sequence[Model]],
    methods: dict[str, NoiseTraining],
    data: Sequence[Data],
    fraction: float,
    progress: bool | None,
) -> dict[str, list[int]]:
    """The number of the option that is best for each split, by method."""
    if len(options[0]) == 1:
        return {name: [0] * len(options) for name in methods}
    scores = _try_out(options, methods, data, fraction, progress)
    return {name: of_method.argmax(axis=1).tolist() for name, of_method in scores.items()}


def _try_out(
    options: Sequence[Sequence[Model]],
    methods: dict[str, NoiseTraining],
    data: Sequence[Data],
    fraction: float,
    progress: bool | None,
) -> dict[str, np.ndarray]:
    """The score of each choice on held-out rows of training, (splits, choices) by method."""
    split_keys, trial_keys = (jax.random.split(jax.random.key(i), len(data)) for i in (3, 2))
    parts = [hold_out(one, fraction, key) for one, key in zip(data, split_keys, strict=True)]
    train = [part for part, _ in parts]
    held_out = stack([part for _, part in parts])
    # Methods that differ only in how they predict are tried by one fit.
    fits = dict.fromkeys(methods.values())
    jobs = [
        Job(model, method, i, jax.random.fold_in(trial_keys[i], c))
        for i, of_split in enumerate(options)
        for c, (method, model) in enumerate((m, model) for m in fits for model in of_split)
    ]
    with bar(progress) as report:
        schedule = next(iter(fits)).schedule(train)
        trained = run_jobs(jobs, schedule, train, control=Control(report, mesh=check_mesh(None)))
    which = np.array([job.which for job in jobs])
    log_probs: dict[bool, Any] = {False: trained.score_rows(held_out, NUM_SCORED).log_prob}
    if any(KINDS[name].given_rows for name in methods):
        keys = jnp.stack([job.key for job in jobs])
        log_probs[True] = held_out_log_probs(
            trained.networks.model, stack(train), held_out, which, keys
        )
    scores = {}
    for name, method in methods.items():
        seen = held_out.weight[which] > 0
        means = np.sum(np.where(seen, log_probs[KINDS[name].given_rows], 0.0), axis=1)
        table = (means / seen.sum(axis=1)).reshape(len(data), len(fits), -1)
        scores[name] = table[:, list(fits).index(method)]
    return scores
