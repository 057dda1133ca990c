"""Posteriors to files and back."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from scalemix._random import HASH, check_key
from scalemix.data.scaling import Scaling
from scalemix.model.assembly import assemble
from scalemix.model.model import Model
from scalemix.posterior.networks import Ensemble, Networks, SampledNetworks
from scalemix.posterior.posterior import History, Posterior, check_inputs
from scalemix.posterior.storage import container, priors, skeletons
from scalemix.posterior.storage.arrays import Collected, Found, check_finite
from scalemix.posterior.storage.container import explaining, take
from scalemix.posterior.storage.kinds import KINDS, Kind

# More than this no example has.
MOST_AXES = 32


class Saved(NamedTuple):
    """What a file holds."""

    posterior: Posterior
    metadata: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Info:
    """What a file says of itself, without its arrays."""

    scalemix: str
    """The version that wrote it."""
    kind: str
    """The kind of posterior: how networks are drawn from it."""
    num_members: int
    network: str
    """The class of the network."""
    needs_network: bool
    """Whether `load` has to be given `network=`."""
    prior: dict[str, str]
    """The structure of each site, in words."""
    likelihood: str
    num_parameters: int
    """Numbers in the network; of an ensemble, in each."""
    num_steps: int
    """How long it was trained."""
    metadata: dict[str, Any]
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    """Of Python and of the packages that it was written with; empty in files of before."""


GENERATORS: dict[str, Any] = {
    "threefry2x32": "threefry2x32",
    "rbg": "rbg",
    "unsafe_rbg": "unsafe_rbg",
    "scalemix_hash": HASH,
}

# ---------------------------------------------------------------------------------------- writing


def write(path: str | Path, posterior: Posterior, metadata: dict[str, Any] | None = None) -> None:
    """Write a posterior to one file, replacing any earlier one at once."""
    arrays = Collected()
    networks, num_members = posterior.networks, None
    if isinstance(networks, Ensemble):
        networks, num_members = networks.stacked, networks.num_members
    kind = KINDS.get(type(networks).__name__)
    if kind is None or type(networks) is not kind.networks:
        raise ValueError(f"Files hold {', '.join(KINDS)}; not {type(networks).__name__}.")
    model, scaling, history = networks.model, posterior.scaling, posterior.history
    key = check_key(posterior.key, "The posterior's key")
    described, parts = skeletons.describe(model.network), kind.parts(networks)
    try:
        for name, array in skeletons.arrays_of(model.network).items():
            # What a network of one's own means by infinity is its own affair; but NaN is not NaN.
            check_finite(name, array, None if described else array)
        for name, part in parts.items():
            check_finite(name, part)
    except ValueError as error:
        raise ValueError(f"This posterior cannot be saved: {error}") from None
    header = {
        "metadata": _check_metadata({} if metadata is None else metadata),
        "kind": type(networks).__name__,
        "num_members": num_members,
        "network": {
            "class": type(model.network).__name__,
            "build": described,
            "numbers": skeletons.numbers_of(model.network),
            "arrays": arrays.put("network", skeletons.arrays_of(model.network)),
        },
        "frozen": list(model.frozen),
        "example": _describe_example(model.example),
        "structures": {name: priors.encode(part) for name, part in model.structures.items()},
        "likelihood": priors.encode(model.likelihood),
        "parts": {name: arrays.put(name, part) for name, part in parts.items()},
        "scaling": {
            "x_mean": arrays.put("scaling.x_mean", scaling.x_mean),
            "x_scale": arrays.put("scaling.x_scale", scaling.x_scale),
            "y_mean": float(scaling.y_mean),
            "y_scale": float(scaling.y_scale),
        },
        "history": {
            name: arrays.put(f"history.{name}", part) for name, part in history._asdict().items()
        },
        "key": {
            "generator": str(jax.random.key_impl(key)),
            "data": np.asarray(jax.random.key_data(key)).tolist(),
        },
        "score_spread": float(posterior.score_spread),
    }
    container.write(Path(path), header, arrays.by_name)


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


# ---------------------------------------------------------------------------------------- reading


def load(path: str | Path, *, network: PyTree | None = None) -> Posterior:
    """The posterior that `Posterior.save` wrote: its predictions are the same to the last bit.

    `network` is needed for one that is not scalemix's own: any of the same class and sizes, whose
    arrays then give way to those of the file. Nothing in a file is executed. A file that is
    damaged, cut short or not of scalemix gives a `ValueError`.
    """
    return read(path, network=network).posterior


def read(path: str | Path, *, network: PyTree | None = None) -> Saved:
    """The posterior, as `load` gives it, and the metadata that were saved with it."""
    path = Path(path)
    with explaining(path):
        header, found = container.read(path)
        arrays = Found(found)
        lead = _lead(header)
        model = _read_model(header, arrays, lead, network)
        kind = _kind(header)
        parts = arrays.tree(take(header, "parts", dict))
        for name, part in parts.items():
            check_finite(name, part)
        networks = kind.restore(model, parts, lead)
        posterior = Posterior(
            Ensemble(networks, lead[0]) if lead else networks,
            _read_scaling(take(header, "scaling", dict), arrays),
            _read_history(take(header, "history", dict), arrays, lead, networks),
            _read_key(take(header, "key", dict)),
            _read_spread(header),
        )
        _check_scaling(posterior)
        return Saved(posterior, take(header, "metadata", dict))


def info(path: str | Path) -> Info:
    """What a file says of itself; its arrays are not read."""
    path = Path(path)
    with explaining(path):
        header = container.read_header(path)
        lead, network = _lead(header), take(header, "network", dict)
        listed = take(header, "arrays", dict)

        def shape(name: str) -> list[int]:
            return take(take(listed, name, dict), "shape", list)

        sizes = [math.prod(shape(name)) for name in take(network, "arrays", dict).values()]
        structures = take(header, "structures", dict)
        return Info(
            scalemix=take(header, "scalemix", str),
            kind=_kind(header).networks.__name__,
            num_members=math.prod(lead),
            network=take(network, "class", str),
            needs_network=take(network, "build", (dict, type(None))) is None,
            prior={name: priors.in_words(take(structures, name, dict)) for name in structures},
            likelihood=priors.in_words(take(header, "likelihood", dict)),
            num_parameters=sum(sizes) // math.prod(lead),
            num_steps=shape(take(take(header, "history", dict), "objective", str))[-1],
            metadata=take(header, "metadata", dict),
            versions=_read_versions(header),
        )


def _read_versions(header: dict[str, Any]) -> dict[str, str]:
    found = take({"versions": {}, **header}, "versions", dict)
    return {name: take(found, name, str) for name in found}


def _kind(header: dict[str, Any]) -> Kind:
    name = take(header, "kind", str)
    if name not in KINDS:
        raise ValueError(f"it holds {name[:60]!r}; this version knows {', '.join(KINDS)}.")
    return KINDS[name]


def _lead(header: dict[str, Any]) -> tuple[int, ...]:
    num = take(header, "num_members", (int, type(None)))
    if num is not None and num < 1:
        raise ValueError(f"its header speaks of {num} members.")
    return () if num is None else (num,)


def _read_model(
    header: dict[str, Any], arrays: Found, lead: tuple[int, ...], network: PyTree | None
) -> Model:
    entry = take(header, "network", dict)
    stacked: dict[str, Array] = {
        name: arrays.tree(place) for name, place in take(entry, "arrays", dict).items()
    }
    like = {
        name: jax.ShapeDtypeStruct(_after(lead, array.shape, name), array.dtype)
        for name, array in stacked.items()
    }
    facts = ("shape", "dtype")
    if network is None:
        build = take(entry, "build", (dict, type(None)))
        if build is None:
            raise ValueError(
                f"a file holds no code, and its network is of the class "
                f"{take(entry, 'class', str)[:60]!r} or has an activation that is not in jax.nn. "
                f"{skeletons.ADVICE}"
            )
        # In the default precision, whatever that of the file.
        network, facts = skeletons.build(build), ("shape",)
        if not all(jnp.issubdtype(shape.dtype, jnp.floating) for shape in like.values()):
            raise ValueError("its network holds whole numbers where weights must be.")
    skeletons.check(network, like, take(entry, "numbers", dict), facts)
    own = skeletons.arrays_of(network)
    for name, array in stacked.items():
        check_finite(name, array, own[name])
    structures = take(header, "structures", dict)
    model = assemble(
        skeletons.fill(network, like),
        {name: priors.decode_structure(part, lead) for name, part in structures.items()},
        priors.decode_likelihood(take(header, "likelihood", dict), lead),
        example=_read_example(header),
        frozen=_read_frozen(header, like),
    )
    return eqx.tree_at(lambda m: m.network, model, skeletons.fill(network, stacked))


def _describe_example(example: jax.ShapeDtypeStruct | None) -> dict[str, Any] | None:
    return None if example is None else {"shape": [*example.shape], "dtype": str(example.dtype)}


def _read_example(header: dict[str, Any]) -> jax.ShapeDtypeStruct | None:
    # Files of earlier versions have none.
    entry = take({"example": None, **header}, "example", (dict, type(None)))
    if entry is None:
        return None
    shape, dtype = take(entry, "shape", list), take(entry, "dtype", str)
    if len(shape) > MOST_AXES or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("the shape of its example is none.")
    try:
        return jax.ShapeDtypeStruct(tuple(shape), jax.dtypes.canonicalize_dtype(dtype))
    except TypeError:
        raise ValueError(f"the type of its example is {dtype[:60]!r}, which is none.") from None


def _read_frozen(header: dict[str, Any], arrays: dict[str, Any]) -> tuple[str, ...]:
    # Files of earlier versions have none.
    names = take({"frozen": [], **header}, "frozen", list)
    unknown = [name for name in names if not isinstance(name, str) or name not in arrays]
    if unknown:
        raise ValueError(f"it speaks of a frozen array {str(unknown[0])[:60]!r}, and has none.")
    return tuple(names)


def _after(lead: tuple[int, ...], shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """The shape for one member."""
    if shape[: len(lead)] != lead:
        raise ValueError(f"the array {name!r} has not one entry for each of {lead[0]} members.")
    return shape[len(lead) :]


def _read_scaling(entry: dict[str, Any], arrays: Found) -> Scaling:
    x_mean, x_scale = (arrays.array(take(entry, name, str)) for name in ("x_mean", "x_scale"))
    y_mean, y_scale = (float(take(entry, name, (int, float))) for name in ("y_mean", "y_scale"))
    values = np.concatenate([x_mean.reshape(-1), x_scale.reshape(-1), [y_mean, y_scale]])
    fits = x_mean.ndim == 1 and x_mean.shape == x_scale.shape
    if not (fits and np.isfinite(values).all() and y_scale > 0 and (x_scale > 0).all()):
        raise ValueError("the means and scales of its data are none.")
    return Scaling(x_mean, x_scale, y_mean, y_scale)


def _check_scaling(posterior: Posterior) -> None:
    num_inputs = posterior.scaling.x_mean.size
    if num_inputs:
        check_inputs(np.zeros((1, num_inputs)), posterior.model)


def _read_history(
    entry: dict[str, Any], arrays: Found, lead: tuple[int, ...], networks: Networks
) -> History:
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
        _after(lead, array.shape, f"history.{name}")
    # Of chains, one for each step of each.
    chains = isinstance(networks, SampledNetworks)
    if history.objective.ndim != len(lead) + 1 + chains:
        raise ValueError("its history has not one objective for each step.")
    if history.score.ndim != len(lead) + 1:
        raise ValueError("its history has not one score for each chunk.")
    if chains:
        num = networks.positions.shape[0]
        for array in (history.objective, *history.recorded.values()):
            if array.ndim != 2 or len(array) != num:
                raise ValueError(f"its history is not that of {num} chains.")
    return history


def _read_spread(header: dict[str, Any]) -> float:
    # Files of earlier versions have none.
    spread = take({"score_spread": 1.0, **header}, "score_spread", (int, float))
    if not 0 < spread < math.inf:
        raise ValueError(f"its score_spread is {spread}, which is no positive number.")
    return float(spread)


def _read_key(entry: dict[str, Any]) -> PRNGKeyArray:
    generator, data = take(entry, "generator", str), take(entry, "data", list)
    if generator not in GENERATORS:
        raise ValueError(f"its key is of the generator {generator[:60]!r}, which is unknown.")
    words = np.array(data)
    if words.ndim != 1 or words.dtype.kind != "i" or not ((words >= 0) & (words < 2**32)).all():
        raise ValueError("its key is none.")
    return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl=GENERATORS[generator])
