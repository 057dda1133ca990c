"""A posterior from the header and the arrays of a file, nothing of which is trusted."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import HASH
from scalemix._types import PyTree
from scalemix.data.checks import check_inputs
from scalemix.data.scaling import Scaling
from scalemix.posterior.history import History
from scalemix.posterior.networks import Ensemble, Networks
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.storage.arrays import FileArrays, check_finite
from scalemix.posterior.storage.classes import NETWORKS_CLASSES
from scalemix.posterior.storage.container import take
from scalemix.posterior.storage.models import read_model, without_lead

GENERATORS: dict[str, Any] = {
    "threefry2x32": "threefry2x32",
    "rbg": "rbg",
    "unsafe_rbg": "unsafe_rbg",
    "scalemix_hash": HASH,
}


class Saved(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    posterior : Posterior
        The posterior that was saved.
    metadata : dict
        What was saved with it as `metadata`; empty if nothing was.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scalemix import storage
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.scalemix"
    >>> post.save(path, metadata={"columns": ["a", "b", "c"]})
    >>> storage.read(path, network=net).metadata
    {'columns': ['a', 'b', 'c']}
    """

    posterior: Posterior
    metadata: dict[str, Any]


def unpack(
    header: dict[str, Any], arrays: dict[str, np.ndarray], network: PyTree | None = None
) -> Saved:
    """What `pack` took apart, or a `ValueError`; `network` as in `load`."""
    by_name, lead = FileArrays(arrays), read_lead(header)
    model = read_model(header, by_name, lead, network)
    kind = read_kind(header)
    parts = by_name.tree(take(header, "parts", dict))
    for name, part in parts.items():
        check_finite(name, part)
    networks = kind.from_arrays(model, parts, lead)
    posterior = Posterior(
        Ensemble(networks, lead[0]) if lead else networks,
        _read_scaling(take(header, "scaling", dict), by_name, model.likelihood.target_shape),
        _read_history(take(header, "history", dict), by_name, lead),
        _read_key(take(header, "key", dict)),
        _read_spread(header, model.likelihood.target_shape),
    )
    networks.check_history(posterior.history, lead)
    _check_scaling(posterior)
    return Saved(posterior, take(header, "metadata", dict))


def read_kind(header: dict[str, Any]) -> type[Networks]:
    """The class of the file's networks."""
    name = take(header, "kind", str)
    if name not in NETWORKS_CLASSES:
        known = ", ".join(NETWORKS_CLASSES)
        raise ValueError(f"it holds {name[:60]!r}; this version knows {known}.")
    return NETWORKS_CLASSES[name]


def read_lead(header: dict[str, Any]) -> tuple[int, ...]:
    """The leading axes of the file's arrays: the members of an ensemble, or none."""
    num = take(header, "num_members", (int, type(None)))
    if num is not None and num < 1:
        raise ValueError(f"its header speaks of {num} members.")
    return () if num is None else (num,)


def _read_scaling(entry: dict[str, Any], arrays: FileArrays, shape: tuple[int, ...]) -> Scaling:
    x_mean, x_scale = (arrays.array(take(entry, name, str)) for name in ("x_mean", "x_scale"))
    y_mean, y_scale = (_by_target(entry, name, shape) for name in ("y_mean", "y_scale"))
    values = np.concatenate([np.ravel(part) for part in (x_mean, x_scale, y_mean, y_scale)])
    scales = np.concatenate([np.ravel(part) for part in (x_scale, y_scale)])
    fits = x_mean.ndim == 1 and x_mean.shape == x_scale.shape
    if not (fits and np.isfinite(values).all() and (scales > 0).all()):
        raise ValueError("the means and scales of its data are none.")
    # Files of earlier versions have no ends.
    ends = arrays.array(take(entry, "x_ends", str)) if "x_ends" in entry else None
    if ends is not None and not (
        ends.shape == (2, *x_mean.shape) and np.isfinite(ends).all() and (ends[0] <= ends[1]).all()
    ):
        raise ValueError("the ends of its data are none.")
    draws_in = take(entry, "draws_in", bool) if "draws_in" in entry else False
    return Scaling(x_mean, x_scale, y_mean, y_scale, ends, draws_in)


def _by_target(entry: dict[str, Any], name: str, shape: tuple[int, ...]) -> float | np.ndarray:
    """A number, or an array with one for each of several targets."""
    numbers = take(entry, name, list if shape else (int, float))
    if not shape:
        return float(numbers)
    plain = all(type(number) in (int, float) for number in numbers)
    if not plain or np.shape(numbers) != shape:
        raise ValueError(f"its {name} has not one number for each of {shape[0]} targets.")
    return np.array(numbers, np.float64)


def _check_scaling(posterior: Posterior) -> None:
    num_inputs = posterior.scaling.x_mean.size
    if num_inputs:
        check_inputs(np.zeros((1, num_inputs)), posterior.model)


def _read_history(entry: dict[str, Any], arrays: FileArrays, lead: tuple[int, ...]) -> History:
    recorded = take(entry, "recorded", dict)
    history = History(
        objective=arrays.array(take(entry, "objective", str)),
        score=arrays.array(take(entry, "score", str)),
        recorded={name: arrays.array(place) for name, place in recorded.items()},
    )
    series = {"objective": history.objective, "score": history.score, **history.recorded}
    for name, array in series.items():
        if array.dtype.kind not in "fiub" or array.ndim < len(lead) + 1:
            raise ValueError(f"its history's {name!r} is no series of numbers.")
        without_lead(lead, array.shape, f"history.{name}")
    return history


def _read_spread(header: dict[str, Any], shape: tuple[int, ...]) -> float | np.ndarray:
    # Files of earlier versions have none. One number is that of all targets.
    entry = {"score_spread": 1.0, **header}
    several = isinstance(entry["score_spread"], list)
    spread = _by_target(entry, "score_spread", shape if several else ())
    if not np.all((np.asarray(spread) > 0) & (np.asarray(spread) < math.inf)):
        raise ValueError(f"its score_spread is {spread}, which is no positive number.")
    return spread


def _read_key(entry: dict[str, Any]) -> PRNGKeyArray:
    generator, data = take(entry, "generator", str), take(entry, "data", list)
    if generator not in GENERATORS:
        raise ValueError(f"its key is of the generator {generator[:60]!r}, which is unknown.")
    words = np.array(data)
    if words.ndim != 1 or words.dtype.kind != "i" or not ((words >= 0) & (words < 2**32)).all():
        raise ValueError("its key is none.")
    return jax.random.wrap_key_data(
        jnp.asarray(words.astype(np.uint32)), impl=GENERATORS[generator]
    )
