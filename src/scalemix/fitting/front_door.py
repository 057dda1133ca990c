"""The front door of inference: `fit` and `fit_many`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from scalemix._random import check_key, check_keys, side_key
from scalemix.data.batches import Data, stack
from scalemix.data.preparation import Standardize, hold_out, prepare
from scalemix.data.scaling import Scaling
from scalemix.fitting.findings import warn_of_useless_fits
from scalemix.fitting.progress import bar
from scalemix.inference.chains import loop as chains
from scalemix.inference.chains.mcmc import MCMC
from scalemix.inference.training import loop
from scalemix.inference.training.em import VariationalEM
from scalemix.inference.training.engine import Engine, Schedule
from scalemix.inference.training.noise import NoiseTraining
from scalemix.model.model import Model
from scalemix.posterior.diagnostics import warn_if_chains_disagree, warn_if_diverged
from scalemix.posterior.networks import (
    Ensemble,
    GaussianNetworks,
    Networks,
    NoisyNetworks,
    OneNetwork,
    SampledNetworks,
)
from scalemix.posterior.posterior import History, Posterior

Method = NoiseTraining | VariationalEM
# Training inputs at which chains are compared.
NUM_PROBES = 50


def fit(
    model: Model,
    x: Any,
    y: Any,
    method: Method | MCMC,
    *,
    key: PRNGKeyArray,
    sample_weight: Any = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
) -> Posterior:
    """The posterior of a model, given data and a method of inference.

    Columns of a table `x` and a real-valued target are standardised inside, and predictions come
    back on the scale of `y`; `standardize=False` leaves both alone, `"target"` the columns.
    `sample_weight` is the number of rows that each row counts as: rows of zero are left out, and
    the prior is weighed against the sum. With `checkpoint` the state is
    saved every so many chunks, and `resume=True` continues from the file: the result is bit for bit
    that of a run without interruption.
    """
    weights = None if sample_weight is None else [sample_weight]
    key = check_key(key, "key")
    return fit_many(
        [model], [x], [y], method, keys=key[None], sample_weights=weights, standardize=standardize,
        progress=progress, checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume,
    )[0]  # fmt: skip


def fit_many(
    models: Model | Sequence[Model],
    xs: Sequence[Any],
    ys: Sequence[Any],
    method: Method | MCMC | Sequence[Method],
    *,
    keys: PRNGKeyArray,
    sample_weights: Sequence[Any] | None = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
) -> list[Posterior]:
    """Many fits as one program: of several data sets, seeds, or settings of one kind of model.

    `xs[i]`, `ys[i]` and `keys[i]` are those of fit i, and so are `models[i]` and `method[i]`; one
    model serves all, and so does one method. Several methods may differ in `learning_rate`, in
    `temperature` (EM) and in `objective` (noise training) alone. Data sets may differ in length.
    The result is that of a loop over `fit`, up to rounding; for unequal lengths and
    `batch_size=None`, all rows in every step, up to the noise that is drawn.
    """
    if resume and checkpoint is None:
        raise ValueError("resume=True continues from a file: give checkpoint= its path.")
    if callable(models) and not isinstance(models, Model):
        raise ValueError(f"A model is a scalemix.Model, got {type(models).__name__}.")
    num = len(xs)
    keys = check_keys(keys, num)
    models = [models] * num if isinstance(models, Model) else list(models)
    methods: list[Any] = list(method) if isinstance(method, list | tuple) else [method] * num
    if not (len(models) == len(methods) == len(ys) == len(keys) == num) or num == 0:
        raise ValueError(
            f"fit_many takes one entry of xs, ys, keys (and models) for each fit: got {num} xs, "
            f"{len(ys)} ys, {len(keys)} keys, {len(models)} models, {len(methods)} methods."
        )
    for model, one in zip(models, methods, strict=True):
        check_method(one, model)
    weights = [None] * num if sample_weights is None else list(sample_weights)
    prepared = [prepare(*one, standardize) for one in zip(models, xs, ys, weights, strict=True)]
    fit_keys, predict_keys, split_keys = jax.vmap(lambda k: jax.random.split(k, 3), out_axes=1)(
        keys
    )
    if isinstance(method, MCMC):
        return _sample(
            models, method, prepared, fit_keys, predict_keys, progress=progress,
            checkpoint=checkpoint, checkpoint_every=checkpoint_every, resume=resume,
        )  # fmt: skip
    splits = [
        hold_out(data, methods[0].validation_fraction, k)
        for (data, _), k in zip(prepared, split_keys, strict=True)
    ]
    jobs = [
        job
        for i, (model, one, key) in enumerate(zip(models, methods, fit_keys, strict=True))
        for job in members(model, one, i, key)
    ]
    train = [data for data, _ in splits]
    ran = run_jobs(
        jobs,
        train,
        [data for _, data in splits] if methods[0].validation_fraction else None,
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
    )
    posteriors = [ran.posterior(i, methods[0], prepared[i][1], predict_keys[i]) for i in range(num)]
    warn_of_useless_fits(ran.outcome, jobs, train, posteriors)
    return posteriors


def _sample(
    models: Sequence[Model],
    method: MCMC,
    prepared: Sequence[tuple[Data, Scaling]],
    keys: PRNGKeyArray,
    predict_keys: PRNGKeyArray,
    *,
    progress: bool | None,
    checkpoint: str | Path | None,
    checkpoint_every: int,
    resume: bool,
) -> list[Posterior]:
    """The posteriors that chains have sampled, with a warning where these disagree."""
    sets = [data for data, _ in prepared]
    _, stacked = _stack([(method, model) for model in models])
    resuming = resume and checkpoint is not None and Path(checkpoint).exists()
    starts = None
    if isinstance(method.warm_start, Engine) and not resuming:
        starts = _trained_starts(models, method, sets, keys, progress)
    with bar(progress) as report:
        ran = chains.run(
            method, stacked, stack(sets), np.array([len(data.y) for data in sets]), keys,
            starts=starts, report=report, checkpoint_every=checkpoint_every, resume=resume,
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )  # fmt: skip
    posteriors = []
    for i, (data, scaling) in enumerate(prepared):
        unknowns, warm = method.unknowns(_take(stacked, i)), method.num_warmup
        steps = ran.transitions._replace(**{n: v[i] for n, v in ran.transitions._asdict().items()})
        kept = steps.log_density[:, warm:][:, method.thin - 1 :: method.thin]
        best = np.unravel_index(kept.argmax(), kept.shape)
        model = unknowns.place(
            jnp.asarray(ran.positions[i][best]), jnp.asarray(ran.bits[i][best])
        ).model
        networks = SampledNetworks(
            model,
            method.unknowns(model),
            jnp.asarray(ran.positions[i]),
            jnp.asarray(ran.bits[i]),
            jnp.asarray(data.x[np.linspace(0, len(data.y) - 1, NUM_PROBES).astype(int)]),
        )
        recorded = {n: v[:, warm:] for n, v in steps._asdict().items()}
        history = History(steps.log_density / data.weight.sum(), np.zeros(0), recorded)
        posteriors.append(Posterior(networks, scaling, history, predict_keys[i]))
        warn_if_chains_disagree(posteriors[-1])
        warn_if_diverged(posteriors[-1])
    return posteriors


def _trained_starts(
    models: Sequence[Model],
    method: MCMC,
    sets: Sequence[Data],
    keys: PRNGKeyArray,
    progress: bool | None,
) -> PyTree:
    """Models with two leading axes, fits and chains, as the warm start's training left them."""
    start: Any = method.warm_start
    training = dataclasses.replace(start, num_members=method.num_chains)
    jobs = [
        job
        for i, model in enumerate(models)
        for job in members(model, training, i, side_key(keys[i]))
    ]
    ran = run_jobs(jobs, sets, None, progress=progress)
    learned = ran.programs[1].with_learned(ran.outcome.state.learned)
    shape = len(models), method.num_chains
    return jax.tree.map(
        lambda leaf: leaf.reshape(shape + leaf.shape[1:]) if eqx.is_array(leaf) else leaf, learned
    )


class Job(NamedTuple):
    """One model to fit to one of several data sets."""

    model: Model
    method: Method
    which: int
    key: PRNGKeyArray


def members(model: Model, method: Method, which: int, key: PRNGKeyArray) -> list[Job]:
    """The fits that a method makes of one model: one, or an ensemble from different starts."""
    if method.num_members == 1:
        return [Job(model, method, which, key)]
    keys = jax.random.split(key, method.num_members)
    starts = [model, *(restart(model, k) for k in keys[1:])]
    return [Job(start, method, which, k) for start, k in zip(starts, keys, strict=True)]


def restart(model: Model, key: PRNGKeyArray) -> Model:
    """The model with each array of its network that learns in another order.

    That is another draw from whatever distribution the network was started with, without having to
    know it; constants, such as the scales of a norm, stay what they are.
    """
    # NumPy's generator: what it makes of the key's words has nothing in common with what JAX does.
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))

    def reorder(leaf: Any) -> Any:
        values = np.asarray(leaf)
        return jnp.asarray(rng.permutation(values.reshape(-1)).reshape(values.shape))

    learned, fixed = eqx.partition(model.network, model.learnable().network)
    network = eqx.combine(jax.tree.map(reorder, learned), fixed)
    return eqx.tree_at(lambda m: m.network, model, network)


class Ran(NamedTuple):
    """Jobs that ran together: what they started from, and how they ended."""

    programs: tuple[PyTree, PyTree]
    """Methods and models, stacked on a leading axis."""
    outcome: loop.Outcome

    def posterior(
        self, index: int, method: Method, scaling: Scaling, key: PRNGKeyArray
    ) -> Posterior:
        """What one fit found, all its members together."""
        num = method.num_members
        first = index * num
        rows = slice(first, first + num) if num > 1 else first
        model, outcome = _take(self.programs[1], rows), _take(self.outcome, rows)
        networks = _networks(method, model.with_learned(outcome.state.learned), outcome.state)
        if num > 1:
            networks = Ensemble(networks, num)
        history = History(outcome.objective, outcome.score, outcome.recorded)
        return Posterior(networks, scaling, history, key)


def _networks(method: Method, learned: Model, state: PyTree) -> Networks:
    if isinstance(method, VariationalEM):
        deviations = {name: jnp.exp(value) for name, value in state.log_deviations.items()}
        return GaussianNetworks(learned, deviations, state.variances)
    return OneNetwork(learned) if method.deterministic else NoisyNetworks(learned)


def run_jobs(
    jobs: Sequence[Job],
    train: Sequence[Data],
    held_out: Sequence[Data] | None,
    *,
    progress: bool | None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
) -> Ran:
    """Fit all these models as one program, each to the data set that it names."""
    method = jobs[0].method
    num_rows = np.array([len(data.y) for data in train])
    batch_size = method.batch_size
    if batch_size is not None and batch_size >= num_rows.min():
        if batch_size < num_rows.max():
            raise ValueError(
                f"batch_size={batch_size} is more than the {num_rows.min()} rows of data set "
                f"{int(num_rows.argmin())} and less than those of others. Choose one below all, or "
                f"None for all rows in every step."
            )
        batch_size = None
    num_steps = common_steps(method, num_rows.tolist())
    schedule = Schedule(
        num_steps=num_steps,
        batch_size=batch_size,
        chunk_steps=min(method.chunk_steps, num_steps),
        patience=method.patience,
        stream=batch_size is not None and sum(d.x.nbytes for d in train) > method.stream_above,
    )
    methods = type(method).side_by_side([job.method for job in jobs])
    programs = _stack([(one, job.model) for one, job in zip(methods, jobs, strict=True)])
    with bar(progress) as report:
        outcome = loop.run(
            programs, stack(train), None if held_out is None else stack(held_out), num_rows,
            np.array([job.which for job in jobs]), schedule, jnp.stack([job.key for job in jobs]),
            report=report, checkpoint=None if checkpoint is None else Path(checkpoint),
            checkpoint_every=checkpoint_every, resume=resume,
        )  # fmt: skip
    return Ran(programs, outcome)


def common_steps(method: Method, num_rows: Sequence[int]) -> int:
    """The number of steps that fits to sets of these sizes take, all the same; or `ValueError`."""
    lengths = {method.num_steps(num) for num in num_rows}
    if len(lengths) > 1:
        raise ValueError(
            f"Fits that run together take the same number of steps, and so many epochs of these "
            f"data sets take {min(lengths)} to {max(lengths)}. Give steps instead of epochs."
        )
    return lengths.pop()


def check_method(method: Any, model: Any) -> None:
    """Raise `ValueError` unless this is a method, and one for this model."""
    if not isinstance(method, Engine | MCMC):
        raise ValueError(f"method must be one such as NoiseTraining(), got {method!r}.")
    if not isinstance(model, Model):
        raise ValueError(f"A model is a scalemix.Model, got {type(model).__name__}.")
    method.check_model(model)


def _stack(pairs: Sequence[tuple[Method | MCMC, Model]]) -> tuple[PyTree, PyTree]:
    """Methods and models on a leading axis. The numbers of priors, likelihoods and methods become
    arrays, so that another value is not another program.
    """

    def as_arrays(pair: tuple[Method | MCMC, Model]) -> tuple[Any, Model]:
        method, model = pair
        dtype = next(iter(model.weights.values())).dtype

        def arrays_of(tree: PyTree) -> PyTree:
            return jax.tree.map(lambda v: np.asarray(v, dtype) if isinstance(v, float) else v, tree)

        model = eqx.tree_at(
            lambda m: (m.structures, m.likelihood),
            model,
            arrays_of((model.structures, model.likelihood)),
        )
        return arrays_of(method), model

    parts = [eqx.partition(as_arrays(pair), _is_array) for pair in pairs]
    static = parts[0][1]
    shapes = jax.tree.map(jnp.shape, parts[0][0])
    for i, (arrays, other) in enumerate(parts):
        if not eqx.tree_equal(static, other) or jax.tree.map(jnp.shape, arrays) != shapes:
            what = "model" if eqx.tree_equal(static[0], other[0]) else "method"
            raise ValueError(
                f"Fits that run together must be of one kind: {what} {i} differs from {what} 0 in "
                + (
                    "its network, what of it is frozen, its structures or its likelihood."
                    if what == "model"
                    else "more than its learning rate, temperature or objective."
                )
            )
    stacked = jax.tree.map(
        lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])),
        *(arrays for arrays, _ in parts),
    )
    return eqx.combine(stacked, static)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray)


def _take(tree: PyTree, rows: int | slice) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[rows] if hasattr(leaf, "ndim") else leaf, tree)
