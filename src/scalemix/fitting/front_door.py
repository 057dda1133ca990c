"""The front door of inference: `fit` and `fit_many`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from scalemix._mesh import check_mesh
from scalemix._random import check_key, check_keys, split_each
from scalemix.data.batches import Data
from scalemix.data.preparation import Standardize, prepare
from scalemix.data.scaling import Scaling
from scalemix.fitting.progress import watch
from scalemix.inference.checkpoint import check_files
from scalemix.inference.driver import Control, Progress
from scalemix.inference.method import Method, Problem
from scalemix.model.model import Model
from scalemix.posterior.posterior import Posterior


def fit(
    model: Model,
    x: Any,
    y: Any,
    method: Method,
    *,
    key: PRNGKeyArray,
    sample_weight: Any = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    callback: Callable[[Progress], object] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> Posterior:
    """The posterior of a model, given data and a method of inference.

    Parameters
    ----------
    model : Model
        A network with its prior and likelihood.
    x : array_like
        The inputs, one example per row.
    y : array_like
        The targets, one for each row of `x`; or several, `(rows, targets)`, if the likelihood is
        `likelihoods.Independent`.
    method : NoiseTraining, VariationalEM or MCMC
        How to infer the weights.
    key : PRNGKey
        The key that decides everything random. The same key gives the same posterior.
    sample_weight : array_like, optional
        The number of rows that each row counts as. Rows of weight zero are left out, and the prior
        is weighed against the sum.
    standardize : bool, "target" or sequence of bool, default True
        Whether to standardise the columns of a table `x` and a real-valued target. Predictions
        come back on the scale of `y`. `"target"` standardises only the target, `False` nothing.
        With one truth value for each column, the others are centred and keep their unit.
    progress : bool, optional
        Whether to show a progress bar. By default it is shown on a terminal only.
    callback : callable, optional
        A function that is called after each chunk of steps (`chunk_steps` of the method) with a
        `scalemix.inference.Progress`: step, objective and metrics. What it raises ends the fit.
    checkpoint : path, optional
        A file to which the state of the run is written: every `checkpoint_every` chunks, on Ctrl-C,
        and at the end. It stays there. A file that exists is refused unless `resume=True`.
    checkpoint_every : int, default 10
        The number of chunks (`chunk_steps` of the method) between two checkpoints.
    resume : bool, default False
        Whether to continue from the checkpoint. The result is bit for bit that of a run without
        interruption. Where there is no such file the run starts from the beginning, with a warning.
    mesh : jax.sharding.Mesh, optional
        The devices to use, with the axes `members`, `data` or both: `jax.make_mesh((4, 2),
        ("members", "data"))` spreads the members of an ensemble, or chains, over four groups, and
        the rows of each batch over the two devices of a group. By default all local devices along
        `members`, as far as there are members for them. Draws are the same on any number of
        devices, and results are so up to the order of sums.

    Returns
    -------
    Posterior
        What is believed about the network after the data.

    Raises
    ------
    ValueError
        If data, model and method do not go together, or the checkpoint is of another run.
    DivergenceError
        If training produces NaN or infinity.

    Warns
    -----
    UselessFitWarning
        If training ends with a network that is no better than a constant.
    ConvergenceWarning
        If Markov chains disagree or diverge.

    Examples
    --------
    >>> post = sx.fit(model, x, y, sx.VariationalEM(steps=20), key=key)
    >>> post.predict(x).mean.shape
    (40,)
    """
    weights = None if sample_weight is None else [sample_weight]
    key = check_key(key, "key")
    return fit_many(
        [model], [x], [y], method, keys=key[None], sample_weights=weights, standardize=standardize,
        progress=progress, callback=callback, checkpoint=checkpoint,
        checkpoint_every=checkpoint_every, resume=resume, mesh=mesh,
    )[0]  # fmt: skip


def fit_many(
    models: Model | Sequence[Model],
    xs: Sequence[Any],
    ys: Sequence[Any],
    method: Method | Sequence[Method],
    *,
    keys: PRNGKeyArray,
    sample_weights: Sequence[Any] | None = None,
    standardize: Standardize = True,
    progress: bool | None = None,
    callback: Callable[[Progress], object] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> list[Posterior]:
    """Many fits as one program: of several data sets, seeds, or settings of one kind of model.

    The result is that of a loop over `fit`, up to rounding. Where lengths differ and steps take all
    rows (`batch_size=None`), it is so up to the noise that is drawn.

    Parameters
    ----------
    models : Model or sequence of Model
        One for all fits, or one for each. Their networks have the same shapes; numbers of priors
        and likelihoods may differ.
    xs : sequence of array_like
        The inputs of each fit. Data sets may differ in length. Fits to the very same arrays share
        one copy of them.
    ys : sequence of array_like
        The targets of each fit.
    method : NoiseTraining, VariationalEM or MCMC, or a sequence of one of these
        One for all fits, or one for each. Those of training may differ in `learning_rate`, in
        `temperature` (EM) and in `objective` (noise training) alone; those of MCMC in nothing.
    keys : PRNGKey
        One key for each fit, such as `jax.random.split(key, num)`.
    sample_weights : sequence of array_like, optional
        The weights of the rows of each fit, as in `fit`.
    standardize : bool, "target" or sequence of bool, default True
        As in `fit`.
    progress : bool, optional
        As in `fit`.
    callback : callable, optional
        As in `fit`.
    checkpoint : path, optional
        As in `fit`: one file for all.
    checkpoint_every : int, default 10
        As in `fit`.
    resume : bool, default False
        As in `fit`.
    mesh : jax.sharding.Mesh, optional
        As in `fit`; fits are members too.

    Returns
    -------
    list of Posterior
        One for each fit.

    Examples
    --------
    Two seeds at once:

    >>> posts = sx.fit_many(
    ...     model, [x, x], [y, y], sx.VariationalEM(steps=20), keys=jax.random.split(key, 2)
    ... )
    >>> [post.predict(x).mean.shape for post in posts]
    [(40,), (40,)]
    """
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
    for i, (model, one) in enumerate(zip(models, methods, strict=True)):
        check_method(one, model)
        if type(one) is not type(methods[0]):
            raise ValueError(
                f"Fits that run together must be of one kind: method {i} is "
                f"{type(one).__name__}, and method 0 is {type(methods[0]).__name__}."
            )
    path, devices = check_checkpoints(checkpoint, checkpoint_every, resume), check_mesh(mesh)
    weights = [None] * num if sample_weights is None else list(sample_weights)
    prepared = _prepared(models, xs, ys, weights, standardize)
    fit_keys, predict_keys, split_keys = split_each(keys, 3)
    problems = [
        Problem(models[i], methods[i], prepared[i][0], fit_keys[i], split_keys[i])
        for i in range(num)
    ]
    with watch(progress, callback) as report:
        control = Control(report, path, checkpoint_every, resume, devices)
        outcome = type(methods[0]).run(problems, control)
    posteriors = [
        Posterior(one.networks, scaling, one.history, key)
        for one, (_, scaling), key in zip(outcome.inferred, prepared, predict_keys, strict=True)
    ]
    outcome.warn(posteriors)
    return posteriors


def check_checkpoints(
    checkpoint: str | Path | None, checkpoint_every: int, resume: bool
) -> Path | None:
    """Where checkpoints go, or a `ValueError`."""
    if not (isinstance(checkpoint_every, int) and checkpoint_every > 0):
        raise ValueError(
            f"checkpoint_every must be a positive whole number, got {checkpoint_every!r}."
        )
    check_resume(checkpoint, resume)
    return None if checkpoint is None else Path(checkpoint)


def _prepared(
    models: Sequence[Model],
    xs: Sequence[Any],
    ys: Sequence[Any],
    weights: Sequence[Any],
    standardize: Standardize,
) -> list[tuple[Data, Scaling]]:
    """The data of each fit as its network sees them. Fits given the same arrays share one copy."""
    done, known = [], {}
    for model, x, y, weight in zip(models, xs, ys, weights, strict=True):
        data, scaling = prepare(model, x, y, weight, standardize)
        # Another model may see the same numbers in another way.
        first = known.setdefault((id(x), id(y), id(weight)), data)
        pairs = zip(jax.tree.leaves(first), jax.tree.leaves(data), strict=False)
        same = jax.tree.structure(first) == jax.tree.structure(data)
        same = same and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)
        done.append((first if same else data, scaling))
    return done


def check_method(method: Any, model: Any) -> None:
    """Raise `ValueError` unless this is a method, and one for this model."""
    if not isinstance(method, Method):
        raise ValueError(f"method must be one such as NoiseTraining(), got {method!r}.")
    if not isinstance(model, Model):
        raise ValueError(f"A model is a scalemix.Model, got {type(model).__name__}.")
    method.check_model(model)


def check_resume(checkpoint: str | Path | None, resume: bool, *others: str | Path) -> None:
    """Raise `ValueError` if a file of the run cannot be used, or if none is named to resume from.

    `others` are further files of the same run, any of which is enough to resume.
    """
    if checkpoint is not None:
        check_files([Path(path) for path in (checkpoint, *others)], resume)
    elif resume:
        raise ValueError("resume=True continues from a file: give checkpoint= its path.")
