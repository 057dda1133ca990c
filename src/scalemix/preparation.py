"""Data as they come, checked, scaled and split for the loop."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix.inference.batches import Data
from scalemix.model import Model
from scalemix.posterior import check_inputs
from scalemix.scaling import Scaling, find_scaling


def prepare(model: Model, x: Any, y: Any, weight: Any, standardize: bool) -> tuple[Data, Scaling]:
    """Data as the model's network and likelihood see them, and the way back; or a `ValueError`."""
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


def hold_out(data: Data, fraction: float, key: PRNGKeyArray) -> tuple[Data, Data]:
    """The data without a random part of them, and that part."""
    num = len(data.y)
    num_held = round(fraction * num)
    if fraction and not 0 < num_held < num:
        raise ValueError(f"validation_fraction={fraction} of {num} rows leaves a part empty.")
    order = np.asarray(jax.random.permutation(key, num)) if num_held else np.arange(num)
    held, kept = np.sort(order[:num_held]), np.sort(order[num_held:])
    return Data(*(a[kept] for a in data)), Data(*(a[held] for a in data))
