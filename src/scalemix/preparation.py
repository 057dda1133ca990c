"""Data as they come, checked, scaled and split for the loop."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix.inference.batches import Data
from scalemix.inputs import (
    check_inputs,
    check_targets,
    check_weights,
    inputs_as_seen,
    network_dtype,
    targets_as_seen,
)
from scalemix.model import Model
from scalemix.scaling import Scaling, find_scaling


def prepare(model: Model, x: Any, y: Any, weight: Any, standardize: bool) -> tuple[Data, Scaling]:
    """Data as the model's network and likelihood see them, and the way back; or a `ValueError`.

    Rows of weight zero are gone: they are in no batch, no count and no held-out part.
    """
    x = check_inputs(x, model)
    y = check_targets(y, model.likelihood)
    if len(y) != len(x):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}.")
    if len(x) == 0:
        raise ValueError("There are no data: x has no rows.")
    weight = check_weights(weight, len(y))
    dtype = network_dtype(model)
    rows = np.flatnonzero(weight >= jnp.finfo(dtype).tiny)
    if len(rows) < len(y):
        x, y, weight = x[rows], y[rows], weight[rows]
    real = model.likelihood.continuous_units
    table = x.ndim == 2 and jnp.issubdtype(x.dtype, jnp.floating)
    scaling = find_scaling(x, y, weight, inputs=standardize and table, targets=standardize and real)
    y = targets_as_seen(y, scaling, dtype, rows)
    if not real:
        _check_possible(model, y, rows)
    return Data(inputs_as_seen(x, model, scaling, rows), y, weight.astype(dtype)), scaling


def _check_possible(model: Model, y: np.ndarray, rows: np.ndarray) -> None:
    likelihood = model.likelihood
    output = jnp.zeros(likelihood.num_outputs, network_dtype(model))
    possible = jax.vmap(lambda target: likelihood.log_prob(output, target))(y)
    if not np.isfinite(possible).all():
        row = int(np.argmin(np.isfinite(possible)))
        raise ValueError(
            f"y is {y[row]} at row {rows[row]}, which {likelihood!r} gives no probability."
        )


def hold_out(data: Data, fraction: float, key: PRNGKeyArray) -> tuple[Data, Data]:
    """The data without a random part of them, and that part."""
    num = len(data.y)
    num_held = round(fraction * num)
    if fraction and not 0 < num_held < num:
        raise ValueError(f"validation_fraction={fraction} of {num} rows leaves a part empty.")
    order = np.asarray(jax.random.permutation(key, num)) if num_held else np.arange(num)
    held, kept = np.sort(order[:num_held]), np.sort(order[num_held:])
    return Data(*(a[kept] for a in data)), Data(*(a[held] for a in data))
