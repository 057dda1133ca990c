"""A posterior as a header and arrays, ready for a file."""

import json
from typing import Any, NamedTuple

import jax
import numpy as np

from scalemix._random import check_key
from scalemix._types import PyTree
from scalemix.posterior.networks import Networks
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.storage import priors, skeletons
from scalemix.posterior.storage.arrays import Collected, check_finite
from scalemix.posterior.storage.classes import NETWORKS_CLASSES


class Packed(NamedTuple):
    """What a file holds: a header of what JSON holds, and arrays by the names it calls them."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack(posterior: Posterior, metadata: dict[str, Any] | None = None) -> Packed:
    """The posterior, with these metadata, as a header and arrays; or a `ValueError`."""
    arrays = Collected()
    networks = posterior.networks.stacked
    kind = type(networks).__name__
    if NETWORKS_CLASSES.get(kind) is not type(networks):
        raise ValueError(f"Files hold {', '.join(NETWORKS_CLASSES)}; not {kind}.")
    model, scaling, history = networks.model, posterior.scaling, posterior.history
    key = check_key(posterior.key, "The posterior's key")
    described, parts = skeletons.describe(model.network), networks.to_arrays()
    _check_values(networks, described is not None, parts)
    header = {
        "metadata": _check_metadata({} if metadata is None else metadata),
        "kind": kind,
        "num_members": next(iter(posterior.networks.lead), None),
        "network": {
            "class": type(model.network).__name__,
            "build": described,
            "numbers": skeletons.numbers_of(model.network),
            "settings": skeletons.settings_of(model.network),
            "arrays": arrays.put("network", skeletons.arrays_of(model.network)),
        },
        "frozen": list(model.frozen),
        "example": _describe_example(networks.example),
        "structures": {name: priors.encode(part) for name, part in model.structures.items()},
        "likelihood": priors.encode(model.likelihood),
        "parts": {name: arrays.put(name, part) for name, part in parts.items()},
        "scaling": {
            "x_mean": arrays.put("scaling.x_mean", scaling.x_mean),
            "x_scale": arrays.put("scaling.x_scale", scaling.x_scale),
            "y_mean": np.asarray(scaling.y_mean).tolist(),
            "y_scale": np.asarray(scaling.y_scale).tolist(),
            **_put_ends(arrays, scaling.x_ends),
            "draws_in": scaling.draws_in,
        },
        "history": {
            name: arrays.put(f"history.{name}", part) for name, part in history._asdict().items()
        },
        "key": {
            "generator": str(jax.random.key_impl(key)),
            "data": np.asarray(jax.random.key_data(key)).tolist(),
        },
        "score_spread": np.asarray(posterior.score_spread).tolist(),
    }
    return Packed(header, arrays.by_name)


def _put_ends(arrays: Collected, ends: np.ndarray | None) -> dict[str, Any]:
    """The entry for the ends of inputs, where they are known."""
    return {} if ends is None else {"x_ends": arrays.put("scaling.x_ends", ends)}


def _check_values(networks: Networks, ours: bool, parts: dict[str, Any]) -> None:
    """Raise `ValueError` for numbers that are not finite.

    A network of one's own may hold infinity, and means by it what it likes; but no NaN.
    """
    try:
        for name, array in skeletons.arrays_of(networks.model.network).items():
            check_finite(name, array, None if ours else array)
        for name, part in parts.items():
            check_finite(name, part)
    except ValueError as error:
        raise ValueError(f"This posterior cannot be saved: {error}") from None


def _check_metadata(metadata: Any) -> dict[str, Any]:
    try:
        same = json.loads(json.dumps(metadata, allow_nan=False)) == metadata
    except (TypeError, ValueError, RecursionError):
        same = False
    if not (same and isinstance(metadata, dict)):
        raise ValueError(
            "metadata must be a dict of what JSON holds: dicts with text as keys, lists (not "
            "tuples), text, finite numbers, True, False and None."
        )
    return metadata


def _describe_example(example: PyTree) -> dict[str, Any] | None:
    if isinstance(example, dict):
        return {"dict": {name: _describe_example(part) for name, part in example.items()}}
    if isinstance(example, tuple):
        return {"tuple": [_describe_example(part) for part in example]}
    return None if example is None else {"shape": [*example.shape], "dtype": str(example.dtype)}
