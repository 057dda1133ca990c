"""Samples of Markov chains."""

import dataclasses
import json
import math
from typing import Any, ClassVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix.data.checks import check_inputs
from scalemix.data.rows import are_several, row_like, take_rows
from scalemix.model.model import Model
from scalemix.model.site_prior import Parametrization
from scalemix.model.unknowns import Sample, Unknowns
from scalemix.posterior.history import History
from scalemix.posterior.networks._base import Arrays, Drawn, Networks, WeightMoments

# The settings of `Unknowns`, as a file holds them.
SETTINGS = ("parametrization", "free_scale", "likelihood_scale")


class SampledNetworks(Networks):
    """Samples from several Markov chains, kept in the coordinates that they were drawn in.

    The model is that of the sample of highest density.
    """

    unknowns: Unknowns
    positions: Array
    """`(chains, samples, unknowns)`"""
    bits: Array
    """The inclusion variables beside the positions, `(chains, samples, bits)`."""
    probes: Any
    """A few training inputs, as the network sees them, to compare the chains at."""

    method: ClassVar[str] = "MCMC"
    summary: ClassVar[str] = (
        "Sampled by Markov chains: predictions average over networks drawn from the posterior "
        "itself."
    )

    @property
    def example(self) -> Any:
        # Where the model was not told, the inputs that are kept tell it.
        known = super().example
        return row_like(self.probes) if known is None else known

    @property
    def num_samples(self) -> int:
        """All samples of all chains."""
        return self.positions.shape[0] * self.positions.shape[1]

    @property
    def num_places(self) -> int:
        return self.num_samples

    @property
    def default_draws(self) -> int:
        return min(self.num_samples, 1000)

    def chains(self) -> "SampledNetworks":
        return self

    def sample(self, chain: int | Array, index: int | Array) -> Sample:
        """The model and the scales of one sample of one chain."""
        return self.unknowns.place(self.positions[chain, index], self.bits[chain, index])

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        num_chains, num_samples = self.positions.shape[:2]
        # Chain by chain, and along each so that any number of draws is spread over all of it.
        place = jnp.asarray(spread_order(num_samples))[index // num_chains % num_samples]
        model = self.sample(index % num_chains, place).model
        return Drawn(model.network, model.likelihood)

    @property
    def parts(self) -> tuple[Networks, ...]:
        """The chains, each with its own samples."""
        return tuple(
            dataclasses.replace(
                self, positions=self.positions[i : i + 1], bits=self.bits[i : i + 1]
            )
            for i in range(len(self.positions))
        )

    def weight_moments(self) -> dict[str, WeightMoments]:
        """Moments over all samples; the prior's variance is that of the scales sampled.

        Weights of different chains do not correspond: of several chains, ask each of `parts`.
        """
        for prior in self.model.site_priors:
            prior.check_variance()
        return eqx.filter_jit(_moments)(self)

    def to_arrays(self) -> Arrays:
        settings = {name: getattr(self.unknowns, name) for name in SETTINGS}
        return {
            "positions": self.positions,
            "bits": self.bits,
            "probes": _by_number(self.probes),
            # Text as bytes: these are numbers and a name that must come back exactly as they were.
            "settings": np.frombuffer(json.dumps(settings).encode(), np.uint8),
        }

    @classmethod
    def from_arrays(cls, model: Model, arrays: Arrays, lead: tuple[int, ...]) -> "SampledNetworks":
        if lead or arrays.keys() != {"positions", "bits", "probes", "settings"}:
            raise ValueError("the arrays are not those of sampled networks.")
        if any(isinstance(array, dict) for name, array in arrays.items() if name != "probes"):
            raise ValueError("the arrays are not those of sampled networks.")
        unknowns = Unknowns(model, **_parse_settings(arrays["settings"]))
        size = sum(leaf.size for leaf in jax.tree.leaves(unknowns.form()))
        positions, bits, probes = (arrays[name] for name in ("positions", "bits", "probes"))
        if (
            positions.ndim != 3
            or positions.shape[2] != size
            or bits.shape != (*positions.shape[:2], unknowns.num_bits)
            or 0 in positions.shape[:2]
        ):
            raise ValueError("the samples do not have the shape of the model's unknowns.")
        probes = _by_place(probes, model)
        check_inputs(take_rows(jax.tree.map(np.asarray, probes), slice(1)), model)
        return cls(model, unknowns, positions, bits, probes)

    def check_history(self, history: History, lead: tuple[int, ...]) -> None:
        # One objective for each step of each chain.
        if history.objective.ndim != len(lead) + 2:
            raise ValueError("its history has not one objective for each step.")
        if history.score.ndim != len(lead) + 1:
            raise ValueError("its history has not one score for each chunk.")
        num_chains = self.positions.shape[0]
        for series in (history.objective, *history.recorded.values()):
            if series.ndim != 2 or len(series) != num_chains:
                raise ValueError(f"its history is not that of {num_chains} chains.")


def _by_number(probes: Any) -> Any:
    """Several inputs by their order, for a file; one stays as it is."""
    if not are_several(probes):
        return probes
    return {str(i): part for i, part in enumerate(jax.tree.leaves(probes))}


def _by_place(probes: Any, model: Model) -> Any:
    """Those inputs in the dicts and tuples that the model takes them in."""
    if not isinstance(probes, dict):
        return probes
    form = jax.tree.structure(model.example)
    if probes.keys() != {str(i) for i in range(form.num_leaves)}:
        raise ValueError("its inputs are not those that the model takes.")
    return jax.tree.unflatten(form, [probes[str(i)] for i in range(form.num_leaves)])


def _parse_settings(text: Any) -> dict[str, Any]:
    settings = json.loads(np.asarray(text, np.uint8).tobytes().decode())
    if not isinstance(settings, dict) or settings.keys() != set(SETTINGS):
        raise ValueError("the settings are not those of sampled networks.")
    if settings["parametrization"] not in get_args(Parametrization) or not all(
        type(settings[name]) in (int, float) and 0 < settings[name] < math.inf
        for name in SETTINGS[1:]
    ):
        raise ValueError("the settings of sampled networks are out of range.")
    return settings


def _moments(networks: SampledNetworks) -> dict[str, WeightMoments]:
    num_chains, num_samples = networks.positions.shape[:2]

    def terms(place: Array) -> dict[str, tuple[Array, Array, Array]]:
        """What one sample adds to the sums."""
        model, scales = networks.sample(place // num_samples, place % num_samples)
        by_site = {}
        for prior in model.site_priors:
            weight, xi = prior.weight, prior.expand(scales[prior.name])
            by_site[prior.name] = weight, weight**2, prior.weight_variance(xi**2)
        return by_site

    def add(total: Any, place: Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, terms(place)), None

    shapes = jax.eval_shape(terms, jnp.int32(0))
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    num = num_chains * num_samples
    total, _ = jax.lax.scan(add, zero, jnp.arange(num, dtype=jnp.int32))
    moments = {}
    for name, sums in total.items():
        mean, square, prior = (value / num for value in sums)
        moments[name] = WeightMoments(mean, jnp.maximum(square - mean**2, 0.0), prior)
    return moments


def spread_order(num: int) -> np.ndarray:
    """Each number below `num` once, in an order whose every beginning is spread over all of them.

    That is the order of their binary digits reversed (van der Corput).
    """
    width = max(num - 1, 1).bit_length()
    reversed_digits = [int(f"{i:0{width}b}"[::-1], 2) for i in range(2**width)]
    return np.array([i for i in reversed_digits if i < num], np.int32)
