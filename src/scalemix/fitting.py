"""The front door of inference: `fit` and `fit_many`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from scalemix._random import check_key
from scalemix.inference import loop
from scalemix.inference.batches import Data, stack
from scalemix.inference.em import VariationalEM
from scalemix.inference.loop import Engine
from scalemix.inference.noise import NoiseTraining
from scalemix.model import Model
from scalemix.posterior import (
    GaussianNetworks,
    History,
    NoisyNetworks,
    OneNetwork,
    Posterior,
    check_inputs,
)
from scalemix.progress import bar
from scalemix.scaling import Scaling, find_scaling

Method = NoiseTraining | VariationalEM


def fit(
    model: Model,
    x: Any,
    y: Any,
    method: Method,
    *,
    key: PRNGKeyArray,
    sample_weight: Any = None,
    standardize: bool = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
) -> Posterior:
    """The posterior of a model, given data and a method of inference.

    Columns of a table `x` and a real-valued target are standardised inside, and predictions come
    back on the scale of `y`; `standardize=False` leaves both alone. With `checkpoint` the state is
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
    method: Method,
    *,
    keys: PRNGKeyArray,
    sample_weights: Sequence[Any] | None = None,
    standardize: bool = True,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
) -> list[Posterior]:
    """Many fits as one program: of several data sets, seeds, or settings of one kind of model.

    `xs[i]`, `ys[i]` and `keys[i]` are those of fit i, and so is `models[i]`; one model serves all.
    Data sets may differ in length. The result is that of a loop over `fit`, up to rounding; for
    unequal lengths and `batch_size=None`, all rows in every step, up to the noise that is drawn.
    """
    if not isinstance(method, Engine):
        raise ValueError(f"method must be one such as NoiseTraining(), got {method!r}.")
    if resume and checkpoint is None:
        raise ValueError("resume=True continues from a file: give checkpoint= its path.")
    if callable(models) and not isinstance(models, Model):
        raise ValueError(f"A model is a scalemix.Model, got {type(models).__name__}.")
    num = len(xs)
    keys = _check_keys(keys, num)
    models = [models] * num if isinstance(models, Model) else list(models)
    if not (len(models) == len(ys) == len(keys) == num) or num == 0:
        raise ValueError(
            f"fit_many takes one entry of xs, ys, keys (and models) for each fit: got {num} xs, "
            f"{len(ys)} ys, {len(keys)} keys, {len(models)} models."
        )
    for model in models:
        if not isinstance(model, Model):
            raise ValueError(f"A model is a scalemix.Model, got {type(model).__name__}.")
    sample_weights = [None] * num if sample_weights is None else list(sample_weights)
    for model in models:
        method.check_model(model)
    prepared = [
        _prepare(*one, standardize) for one in zip(models, xs, ys, sample_weights, strict=True)
    ]
    scalings = [scaling for _, scaling in prepared]
    fit_keys, predict_keys, split_keys = jax.vmap(lambda k: jax.random.split(k, 3), out_axes=1)(
        keys
    )
    splits = [
        _hold_out(data, method.validation_fraction, k)
        for (data, _), k in zip(prepared, split_keys, strict=True)
    ]
    train = [data for data, _ in splits]
    held_out = stack([data for _, data in splits]) if method.validation_fraction else None
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
    lengths = {method.num_steps(int(n)) for n in num_rows}
    if len(lengths) > 1:
        raise ValueError(
            f"Fits that run together take the same number of steps, and so many epochs of these "
            f"data sets take {min(lengths)} to {max(lengths)}. Give steps instead of epochs."
        )
    num_steps = lengths.pop()
    schedule = loop.Schedule(
        num_steps=num_steps,
        batch_size=batch_size,
        chunk_steps=min(method.chunk_steps, num_steps),
        patience=method.patience,
        stream=batch_size is not None and sum(d.x.nbytes for d in train) > method.stream_above,
    )
    stacked = _stack_models(models)
    with bar(progress) as report:
        outcome = loop.run(
            method, stacked, stack(train), held_out, num_rows, schedule, fit_keys, report=report,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            checkpoint_every=checkpoint_every, resume=resume,
        )  # fmt: skip
    return [
        _posterior(method, _take(outcome, i), _take(stacked, i), scalings[i], predict_keys[i])
        for i in range(num)
    ]


def _check_keys(keys: Any, num: int) -> PRNGKeyArray:
    if isinstance(keys, list | tuple):
        return jnp.stack([check_key(key, "each of keys") for key in keys])
    dtype = getattr(keys, "dtype", None)
    if dtype == jnp.uint32 and keys.shape == (num, 2):
        return jax.random.wrap_key_data(keys)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key) or keys.ndim != 1:
        raise ValueError(
            f"keys must be one PRNG key for each fit, such as jax.random.split(key, {num}); "
            f"got {keys!r}."
        )
    return keys


def _posterior(
    method: Method, outcome: loop.Outcome, model: Model, scaling: Scaling, key: PRNGKeyArray
) -> Posterior:
    learned = model.with_learned(outcome.state.learned)
    if isinstance(method, VariationalEM):
        deviations = {n: jnp.exp(v) for n, v in outcome.state.log_deviations.items()}
        networks = GaussianNetworks(learned, deviations, outcome.state.variances)
    else:
        networks = OneNetwork(learned) if method.deterministic else NoisyNetworks(learned)
    history = History(outcome.objective, outcome.score, outcome.recorded)
    return Posterior(learned, networks, scaling, history, key)


def _prepare(model: Model, x: Any, y: Any, weight: Any, standardize: bool) -> tuple[Data, Scaling]:
    x = check_inputs(x, model)
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(
            f"y must have one target a row, got the shape {y.shape}. Classes are whole numbers "
            f"from 0, not one-hot."
        )
    if len(y) != len(x):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}.")
    if len(x) == 0:
        raise ValueError("There are no data: x has no rows.")
    if y.dtype.kind not in "biuf":
        raise ValueError(
            f"y must be real numbers, got the type {y.dtype}. Number the classes from 0."
        )
    real = model.likelihood.continuous_units
    whole = y.dtype.kind in "biu"
    y = y.astype(np.int32 if whole and not real else np.float32 if not real else np.float64)
    if not np.isfinite(y).all():
        raise ValueError(f"y is not finite at row {np.argwhere(~np.isfinite(y))[0][0]}.")
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    if weight.shape != (len(y),):
        raise ValueError(
            f"sample_weight must be one number a row, got {weight.shape} for {len(y)}."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        row = int(np.argmin(np.isfinite(weight) & (weight >= 0)))
        raise ValueError(f"sample_weight is {weight[row]} at row {row}: none may be negative.")
    if not weight.sum() > 0:
        raise ValueError("sample_weight is zero for every row.")
    table = x.ndim == 2 and np.issubdtype(x.dtype, np.floating)
    scaling = find_scaling(x, y, weight, inputs=standardize and table, targets=standardize and real)
    dtype = next(iter(model.weights.values())).dtype
    y = scaling.targets(y)
    y = y if np.issubdtype(y.dtype, np.integer) else y.astype(dtype)
    _check_targets(model, y)
    return Data(scaling.inputs(x), y, weight.astype(dtype)), scaling


def _check_targets(model: Model, y: np.ndarray) -> None:
    likelihood = model.likelihood
    if not likelihood.continuous_units:
        dtype = next(iter(model.weights.values())).dtype
        output = jnp.zeros(likelihood.num_outputs, dtype)
        possible = jax.vmap(lambda target: likelihood.log_prob(output, target))(y)
        if not np.isfinite(possible).all():
            row = int(np.argmin(np.isfinite(possible)))
            raise ValueError(
                f"y is {y[row]} at row {row}, which {likelihood!r} gives no probability."
            )


def _hold_out(data: Data, fraction: float, key: PRNGKeyArray) -> tuple[Data, Data]:
    num = len(data.y)
    num_held = round(fraction * num)
    if fraction and not 0 < num_held < num:
        raise ValueError(f"validation_fraction={fraction} of {num} rows leaves a part empty.")
    order = np.asarray(jax.random.permutation(key, num)) if num_held else np.arange(num)
    held, kept = np.sort(order[:num_held]), np.sort(order[num_held:])
    return Data(*(a[kept] for a in data)), Data(*(a[held] for a in data))


def _stack_models(models: list[Model]) -> PyTree:
    """The models on a leading axis. Their priors become arrays, so that another value of a
    parameter is not another program.
    """

    def as_arrays(model: Model) -> Model:
        dtype = next(iter(model.weights.values())).dtype
        numbers = model.structures, model.likelihood
        return eqx.tree_at(
            lambda m: (m.structures, m.likelihood),
            model,
            jax.tree.map(lambda v: jnp.asarray(v, dtype) if isinstance(v, float) else v, numbers),
        )

    parts = [eqx.partition(as_arrays(model), eqx.is_array) for model in models]
    static = parts[0][1]
    shapes = jax.tree.map(jnp.shape, parts[0][0])
    for i, (arrays, other) in enumerate(parts):
        if not eqx.tree_equal(static, other) or jax.tree.map(jnp.shape, arrays) != shapes:
            raise ValueError(
                f"Models that are fitted together must be of one kind: model {i} differs from "
                f"model 0 in its network, its structures or its likelihood."
            )
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(arrays for arrays, _ in parts))
    return eqx.combine(stacked, static)


def _take(tree: PyTree, index: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index] if hasattr(leaf, "ndim") else leaf, tree)
