"""Data as they come, checked, scaled and split for the loop."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import generator_of
from scalemix._warnings import warn
from scalemix.data.batches import Data
from scalemix.data.checks import check_inputs, check_targets, inputs_as_seen, targets_as_seen
from scalemix.data.reader import Reader
from scalemix.data.rows import are_several, num_rows, row_like, take_rows
from scalemix.data.scaling import Scaling, find_scaling
from scalemix.data.values import check_weights
from scalemix.likelihoods import Likelihood

# Single precision that resolves no more than this share of a column's spread deserves a warning.
COARSEST = 0.01


Standardize = bool | Literal["target"] | Sequence[bool] | np.ndarray
"""What is standardised: columns and a real target (`True`), the target alone, or neither; or, with
one truth value a column, the target and these columns. The others are centred and keep their unit.
Columns that the network looks up in a table stay as they are.
"""


class InputWarning(UserWarning):
    """Inputs reach the network in a way that may not be meant.

    Columns come in single precision that resolves too little of their spread, or are standardised
    although a frozen layer reads them.

    Examples
    --------
    >>> import warnings
    >>> far = 1e8 + np.asarray(x, np.float32)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = sx.fit(model, far, y, sx.VariationalEM(steps=20), key=key)
    >>> caught[0].category.__name__
    'InputWarning'
    """


def prepare(
    reader: Reader, x: Any, y: Any, weight: Any, standardize: Standardize
) -> tuple[Data, Scaling]:
    """Data as the reader's network and likelihood see them, and their scaling; or a `ValueError`.

    Rows of weight zero are dropped: they are in no batch, no count and no held-out part.
    """
    check_standardize(standardize)
    x = check_inputs(x, reader)
    y = check_targets(y, reader.likelihood)
    if len(y) != num_rows(x):
        raise ValueError(f"x has {num_rows(x)} rows and y has {len(y)}.")
    if len(y) == 0:
        raise ValueError("There are no data: x has no rows.")
    weight = check_weights(weight, len(y))
    dtype = reader.dtype
    rows = np.flatnonzero(weight >= jnp.finfo(dtype).tiny)
    if len(rows) < len(y):
        x, y, weight = take_rows((x, y, weight), rows)
    check_support(reader.likelihood, y, y, rows)
    real = reader.likelihood.continuous_units
    table = not are_several(x) and x.ndim == 2 and jnp.issubdtype(x.dtype, jnp.floating)
    inputs = table and standardises_inputs(standardize)
    scaling = find_scaling(
        x, y, weight, inputs=inputs, targets=standardize is not False and real,
        positive=reader.likelihood.support[0] == 0,
    )  # fmt: skip
    scaling = leave_levels(keep_units(scaling, standardize), reader)
    if inputs:
        _warn_of_frozen_readers(reader, x)
        _warn_of_lost_digits(x, scaling)
    given, y = y, targets_as_seen(y, scaling, dtype, rows)
    check_support(reader.likelihood, given, y, rows)
    if not real:
        check_possible(reader, y, rows)
    return Data(inputs_as_seen(x, reader, scaling, rows), y, weight.astype(dtype)), scaling


def standardises_inputs(standardize: Standardize) -> bool:
    """Whether any columns are standardised."""
    return not isinstance(standardize, str) and standardize is not False


def keep_units(scaling: Scaling, standardize: Standardize) -> Scaling:
    """The scaling, without the units of columns that are only centred."""
    if isinstance(standardize, bool | str) or not scaling.x_scale.size:
        return scaling
    scaled = np.asarray(standardize)
    if scaled.shape != scaling.x_scale.shape:
        raise ValueError(
            f"standardize has {scaled.size} truth values, and x has {scaling.x_scale.size} columns."
        )
    return scaling.keeping_units(~scaled)


def leave_levels(scaling: Scaling, reader: Reader) -> Scaling:
    """The scaling, without inputs that the reader's network looks up in a table as they are."""
    if not scaling.x_mean.size:
        return scaling
    num_levels: dict[int, int] = {}
    for _, num, places in reader.lookups(jax.ShapeDtypeStruct(scaling.x_mean.shape, reader.dtype)):
        for place in np.concatenate(places).tolist():
            num_levels[place] = min(num, num_levels.get(place, num))
    return scaling.leaving_levels(num_levels)


def check_standardize(standardize: Any) -> None:
    """Raise `ValueError` unless this says what to standardise."""
    if isinstance(standardize, bool) or (isinstance(standardize, str) and standardize == "target"):
        return
    scaled = None if isinstance(standardize, str) else np.asarray(standardize)
    if scaled is None or scaled.ndim != 1 or scaled.dtype != bool:
        raise ValueError(
            f"standardize must be True, False, 'target', or one truth value for each column of x; "
            f"got {standardize!r:.80}."
        )


def _warn_of_frozen_readers(reader: Reader, x: np.ndarray) -> None:
    """Warn if a frozen layer, trained on a table as it is, would now see it standardised."""
    frozen = reader.frozen_readers(row_like(x, reader.dtype))
    if frozen:
        warn(
            f"{frozen[0]!r} is frozen and reads x, whose columns are standardised first. If it was "
            f"trained on x as it is, pass standardize='target' (or False), and x as it was then.",
            InputWarning,
        )


def _warn_of_lost_digits(x: np.ndarray, scaling: Scaling) -> None:
    """Warn of a column in single precision, so far from zero that few digits show its spread."""
    if x.dtype != np.float32:
        return
    steps = np.spacing(np.abs(scaling.x_mean).astype(np.float32)).astype(np.float64)
    lost = np.flatnonzero(steps > COARSEST * scaling.x_scale)
    if lost.size:
        column = int(lost[0])
        warn(
            f"Column {column} of x has the mean {scaling.x_mean[column]:g} and the spread "
            f"{scaling.x_scale[column]:g}, and comes in single precision, which goes in steps of "
            f"{steps[column]:g} there. Pass x as a NumPy array in double precision.",
            InputWarning,
        )


def check_support(
    likelihood: Likelihood, given: np.ndarray, seen: np.ndarray, rows: np.ndarray
) -> None:
    """Raise `ValueError` for a target that cannot be, or that rounds to one that cannot be."""
    place = np.argwhere(~likelihood.possible(seen))
    if len(place):
        low, high = likelihood.support
        between = f"above {low:g}" if high == np.inf else f"strictly between {low:g} and {high:g}"
        raise ValueError(
            f"y is {given[tuple(place[0])]:g} at row {rows[place[0][0]]}: the targets of "
            f"{likelihood.title} are {between}. Remove such rows, or choose another likelihood."
        )


def check_possible(reader: Reader, y: np.ndarray, rows: np.ndarray) -> None:
    """Raise `ValueError` for a target without a unit that has no probability, such as a class."""
    likelihood = reader.likelihood
    # Rows are repeated up to a power of two, so that few programs serve all sizes.
    filled = np.resize(y, (1 << (len(y) - 1).bit_length(), *y.shape[1:]))
    possible = np.isfinite(_log_probs(likelihood, reader.dtype, filled))[: len(y)]
    if not possible.all():
        row = int(np.argmin(possible))
        raise ValueError(
            f"y is {y[row]} at row {rows[row]}, which {likelihood.title} gives no probability."
        )


@eqx.filter_jit
def _log_probs(likelihood: Likelihood, dtype: Any, y: np.ndarray) -> Array:
    """The log probability of each target where the network's outputs are zero."""
    output = jnp.zeros(likelihood.num_outputs, dtype)
    return jax.vmap(lambda target: likelihood.log_prob(output, target))(y)


def num_left(num_rows: int, fraction: float) -> int:
    """How many rows are left if this share of them is held out."""
    return num_rows - round(fraction * num_rows)


def hold_out(data: Data, fraction: float, key: PRNGKeyArray) -> tuple[Data, Data]:
    """The data without a random part of them, and that part."""
    if not fraction:
        return data, take_rows(data, np.arange(0))
    return next(hold_out_in_turn(data, fraction, key))


def hold_out_in_turn(data: Data, fraction: float, key: PRNGKeyArray) -> Iterator[tuple[Data, Data]]:
    """The data without a random part of them, and that part; then another part, and so on.

    No row is held out twice, and all parts have the same size.
    """
    num = len(data.y)
    num_held = num - num_left(num, fraction)
    if not 0 < num_held < num:
        raise ValueError(f"validation_fraction={fraction} of {num} rows leaves a part empty.")
    order = generator_of(key).permutation(num)
    for first in range(0, num - num_held + 1, num_held):
        held = order[first : first + num_held]
        kept = np.setdiff1d(order, held)
        yield take_rows(data, kept), take_rows(data, np.sort(held))
