"""Fits to data that come as batches, from whatever loads them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from scalemix._mesh import check_mesh
from scalemix._random import check_key
from scalemix.data.preparation import (
    Standardize,
    check_standardize,
    keep_units,
    leave_levels,
    standardises_inputs,
)
from scalemix.data.streams import BatchStream
from scalemix.fitting.front_door import check_checkpoints, check_method
from scalemix.fitting.progress import Pace, watch
from scalemix.inference.driver import Control, Progress
from scalemix.inference.method import Method, StreamProblem
from scalemix.model.model import Model
from scalemix.networks.demands import reads_batch
from scalemix.posterior.posterior import Posterior


def fit_batches(
    model: Model,
    batches: Iterable[Any],
    method: Method,
    *,
    num_rows: int | None = None,
    key: PRNGKeyArray,
    standardize: Standardize = True,
    progress: bool | None = None,
    callback: Callable[[Progress], object] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> Posterior:
    """The posterior of a model, given batches of data from any loader.

    Each step takes the next batch, so that order and shuffling are the loader's. `method` decides
    how many steps there are, and the loader is read again from its beginning whenever it ends.

    Parameters
    ----------
    model : Model
        A network with its prior and likelihood.
    batches : iterable
        Of `(x, y)` or `(x, y, sample_weight)`, with arrays or tensors that NumPy understands: what
        `data.open_batches` makes of large files, a loader of Grain, tf.data or PyTorch, or a list.
        All batches have as many rows as the first
        one, or fewer. The rows of a shorter one count for more, so that it weighs what the others
        do; networks with a state, and objectives that weigh draws by batch, never see it.
    method : NoiseTraining or VariationalEM
        How to infer the weights. Its `batch_size` does not count: batches have the size they have.
    num_rows : int, optional
        How many rows all data have, by which the prior is weighed against the likelihood. Batches
        of `data.open_batches` know it; for others it has to be given.
    key : PRNGKey
        The key that decides everything random but the order of the batches.
    standardize : bool, "target" or sequence of bool, default True
        As in `fit`. It takes one pass over all batches before the first step, unless it is `False`.
    progress : bool, optional
        As in `fit`.
    callback : callable, optional
        As in `fit`.
    checkpoint : path, optional
        As in `fit`.
    checkpoint_every : int, default 10
        As in `fit`.
    resume : bool, default False
        Whether to continue from the checkpoint. Batches of the steps that are done are skipped: the
        result is that of a run without interruption if the loader repeats its order.
    mesh : jax.sharding.Mesh, optional
        As in `fit`.

    Returns
    -------
    Posterior
        What is believed about the network after the data.

    Raises
    ------
    ValueError
        If data, model and method do not go together.
    DivergenceError
        If training produces NaN or infinity.

    Examples
    --------
    >>> loader = [(x[start : start + 10], y[start : start + 10]) for start in (0, 10, 20, 30)]
    >>> method = sx.VariationalEM(epochs=5)
    >>> post = sx.fit_batches(model, loader, method, num_rows=40, key=key)
    >>> post
    Posterior(Model(MLP, ARD on 3 sites, Gaussian), GaussianNetworks, after 20 steps)
    """
    check_method(method, model)
    check_standardize(standardize)
    path, devices = check_checkpoints(checkpoint, checkpoint_every, resume), check_mesh(mesh)
    key = check_key(key, "key")
    whole = reads_batch(model.network) or method.weighs_batches
    stream = BatchStream(batches, num_rows, model, whole)
    if standardize is not False:
        stream.standardise(inputs=standardises_inputs(standardize))
        stream.scaling = leave_levels(keep_units(stream.scaling, standardize), model)
    fit_key, predict_key, _ = jax.random.split(key, 3)
    with watch(progress, callback, pace_of(stream)) as report:
        control = Control(report, path, checkpoint_every, resume, devices)
        outcome = type(method).run_stream(StreamProblem(model, method, stream, fit_key), control)
    (inferred,) = outcome.inferred
    posterior = Posterior(inferred.networks, stream.scaling, inferred.history, predict_key)
    outcome.warn([posterior])
    return posterior


def pace_of(stream: BatchStream) -> Pace | None:
    """What a step takes from the loader, if that knows."""
    loader = stream.epochs
    return None if loader is None else Pace(stream.batch_size, loader.num_bytes / loader.num_rows)
