"""How each class of networks is taken apart for a file, and put together again."""

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import jax
import numpy as np

from scalemix.model.model import Model
from scalemix.model.site_prior import Parametrization
from scalemix.model.unknowns import Unknowns
from scalemix.networks.placing import check_by_site
from scalemix.posterior.networks import (
    GaussianNetworks,
    Networks,
    NoisyNetworks,
    OneNetwork,
    SampledNetworks,
)
from scalemix.posterior.posterior import check_inputs

SAMPLED_SETTINGS = ("parametrization", "free_scale", "likelihood_scale")
Parts = dict[str, Any]
"""Arrays in dicts, which may be nested."""


class Kind(NamedTuple):
    """How one class of networks is taken apart and put together. `lead` is the members' axis."""

    networks: type[Networks]
    parts: Callable[[Any], Parts]
    """networks -> what it holds besides the model."""
    restore: Callable[[Model, Parts, tuple[int, ...]], Networks]
    """(model, parts, lead) -> the networks, or a `ValueError`."""


def _alone(kind: type[Networks]) -> Kind:
    def restore(model: Model, parts: Parts, lead: tuple[int, ...]) -> Networks:
        check_by_site(parts, {}, "The arrays")
        return kind(model)

    return Kind(kind, lambda networks: {}, restore)


def _gaussian_parts(networks: GaussianNetworks) -> Parts:
    return {"deviations": networks.deviations, "variances": networks.variances}


def _restore_gaussian(model: Model, parts: Parts, lead: tuple[int, ...]) -> GaussianNetworks:
    shapes = {
        "deviations": {site.name: lead + site.shape for site in model.sites},
        "variances": {
            site: {group: lead + shape for group, shape in groups.items()}
            for site, groups in model.scale_shapes.items()
        },
    }
    check_by_site(parts, shapes, "The arrays")
    for name, weight in model.weights.items():
        beside = parts["deviations"][name], *parts["variances"][name].values()
        if any(array.dtype != weight.dtype for array in beside):
            raise ValueError(f"the weights of {name!r} and their deviations differ in type.")
    return GaussianNetworks(model, **parts)


def _sampled_parts(networks: SampledNetworks) -> Parts:
    unknowns = networks.unknowns
    settings = {name: getattr(unknowns, name) for name in SAMPLED_SETTINGS}
    return {
        "positions": networks.positions,
        "bits": networks.bits,
        "probes": networks.probes,
        # Text as bytes: these are numbers and a name that must come back exactly as they were.
        "settings": np.frombuffer(json.dumps(settings).encode(), np.uint8),
    }


def _restore_sampled(model: Model, parts: Parts, lead: tuple[int, ...]) -> SampledNetworks:
    if lead or parts.keys() != {"positions", "bits", "probes", "settings"}:
        raise ValueError("the arrays are not those of sampled networks.")
    if any(isinstance(part, dict) for part in parts.values()):
        raise ValueError("the arrays are not those of sampled networks.")
    settings = json.loads(np.asarray(parts["settings"], np.uint8).tobytes().decode())
    if not isinstance(settings, dict) or settings.keys() != set(SAMPLED_SETTINGS):
        raise ValueError("the settings are not those of sampled networks.")
    if settings["parametrization"] not in get_args(Parametrization) or not all(
        type(settings[name]) in (int, float) and 0 < settings[name] < math.inf
        for name in SAMPLED_SETTINGS[1:]
    ):
        raise ValueError("the settings of sampled networks are out of range.")
    unknowns = Unknowns(model, **settings)
    size = sum(leaf.size for leaf in jax.tree.leaves(unknowns.form()))
    positions, bits = parts["positions"], parts["bits"]
    if (
        positions.ndim != 3
        or positions.shape[2] != size
        or bits.shape != (*positions.shape[:2], unknowns.num_bits)
        or 0 in positions.shape[:2]
    ):
        raise ValueError("the samples do not have the shape of the model's unknowns.")
    check_inputs(np.asarray(parts["probes"])[:1], model)
    return SampledNetworks(model, unknowns, positions, bits, parts["probes"])


# A new kind of networks is one more row.
KINDS = {
    kind.networks.__name__: kind
    for kind in (
        _alone(NoisyNetworks),
        _alone(OneNetwork),
        Kind(GaussianNetworks, _gaussian_parts, _restore_gaussian),
        Kind(SampledNetworks, _sampled_parts, _restore_sampled),
    )
}
