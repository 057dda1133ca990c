"""What a network turned out to need: its inputs, its hidden units, its layers.

Two measures, for a row of weights (all that one unit sends out) or for a whole layer:

    share            its part of the prior variance, `v_r / sum_r v_r`; of a posterior without
                     scales of its own, of `E[w^2]`
    signal to noise  `sum mu^2 / sum sigma^2`: what is known of the weights against what is not

The rule: a unit is **off** if its signal to noise is below a threshold, 0.01 unless said otherwise,
or if its weights are all but zero beside those of the others. A layer whose units have scales is
off if all its units are; any other layer if it is so as a whole.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from scalemix.model.inputs import find_input
from scalemix.model.model import Model
from scalemix.model.site_prior import SitePrior
from scalemix.networks.readers import input_sites, output_sites
from scalemix.networks.sites import find_sites
from scalemix.posterior.networks import Networks, WeightMoments
from scalemix.posterior.posterior import Posterior

__all__ = [
    "Measure",
    "Relevance",
]

# Beside the mean of a layer: a row with less than this of E[w^2] carries nothing.
NEGLIGIBLE = 1e-6


class Measure(NamedTuple):
    """One number for each input; by site, for each unit whose weights the site holds and for the
    layer. In an ensemble, and of several chains, inputs and layers are averages over members or
    chains; units, which have nothing to do with those of other members or chains, have a leading
    axis. Where it cannot be told which weights read the inputs, there are no inputs here.
    """

    inputs: np.ndarray
    units: dict[str, np.ndarray]
    layers: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Relevance:
    """How much inputs, hidden units and layers matter. `inputs`, `units`, `layers` are shares."""

    share: Measure
    signal_to_noise: Measure
    units_on: dict[str, np.ndarray]
    """Which units are on, by the site that holds their outgoing weights; laid out as `units`."""
    layers_on: dict[str, np.ndarray]
    """Which layers are on; one entry a member of an ensemble, or a chain."""
    effective_width: dict[str, float]
    """How many hidden units are on, by the site that holds their outgoing weights."""
    effective_depth: float
    """How many layers are on, of `hidden_layers`; not a number where these cannot be told."""
    threshold: float
    hidden_layers: tuple[str, ...] = ()
    """The layers under the prior but for those that the output is read from."""
    remarks: tuple[str, ...] = ()
    """What could not be told, and why."""

    @property
    def inputs(self) -> np.ndarray:
        """Each input's share of the prior variance of the layers that read it."""
        return self.share.inputs

    @property
    def units(self) -> dict[str, np.ndarray]:
        """Each hidden unit's share of the prior variance of the layer that reads it."""
        return self.share.units

    @property
    def layers(self) -> dict[str, float]:
        """Each layer's share of the prior variance, per weight."""
        return self.share.layers

    def table(self, names: Sequence[str] | None = None, *, top: int = 20) -> str:
        """The leading inputs, with these names, most relevant first; and all layers.

        Where it cannot be told which weights read the inputs, the table says so.
        """
        if names is None or not len(self.inputs):
            names = [f"input {i}" for i in range(len(self.inputs))]
        if len(names) != len(self.inputs):
            raise ValueError(f"There are {len(self.inputs)} inputs and {len(names)} names.")
        order = np.argsort(-self.inputs, kind="stable")
        width = max(map(len, [*names, *self.layers]))
        lines = [f"{'':{width}}  share  signal/noise"]
        for i in order[:top]:
            noise = self.signal_to_noise.inputs[i]
            lines.append(f"{names[i]:{width}}  {self.inputs[i]:5.3f}  {noise:12.3g}")
        if len(order) > top:
            lines.append(f"... and {len(order) - top} inputs more")
        for name, share in self.layers.items():
            on = self.units_on[name]
            shape = f"{np.sum(on) / len(self.layers_on[name]):g} of {on.shape[-1]} units on"
            off = "" if self.layers_on[name].any() else ", off"
            noise = self.signal_to_noise.layers[name]
            lines.append(f"{name:{width}}  {share:5.3f}  {noise:12.3g}  {shape}{off}")
        if not np.isnan(self.effective_depth):
            lines.append(f"effective depth {self.effective_depth:g}")
        return "\n".join([*lines, *self.remarks])

    def __repr__(self) -> str:
        return self.table()


class SiteRelevance(NamedTuple):
    """A site of one part of the networks: by row, and for all of it."""

    row_variance: np.ndarray
    row_ratio: np.ndarray
    rows_on: np.ndarray
    variance: float
    ratio: float
    on: bool


def find_relevance(posterior: Posterior, threshold: float) -> Relevance:
    """The relevance of what a posterior's networks are made of."""
    if not threshold >= 0:
        raise ValueError(f"threshold must not be negative, got {threshold}.")
    parts = posterior.networks.parts
    model = parts[0].model
    found = [measure_sites(part, threshold) for part in parts]
    readers, hidden, remarks = _places(model)

    def collect(by_row: str, whole: str, share: bool) -> Measure:
        rows = {s.name: np.stack([getattr(m[s.name], by_row) for m in found]) for s in model.sites}
        layers = {s.name: np.array([getattr(m[s.name], whole) for m in found]) for s in model.sites}
        inputs = np.sum([rows[name] for name in readers] or np.zeros((1, len(found), 0)), axis=0)
        if share:
            total = sum(layers.values())
            layers = {name: _share(value, total) for name, value in layers.items()}
            rows = {n: _share(value, value.sum(1, keepdims=True)) for n, value in rows.items()}
            inputs = _share(inputs, inputs.sum(1, keepdims=True))
        units = {name: value for name, value in rows.items() if name not in readers}
        return Measure(
            inputs.mean(axis=0),
            {name: value if len(found) > 1 else value[0] for name, value in units.items()},
            {name: float(value.mean()) for name, value in layers.items()},
        )

    rows_on = {s.name: np.stack([m[s.name].rows_on for m in found]) for s in model.sites}
    layers_on = {s.name: np.array([m[s.name].on for m in found]) for s in model.sites}
    return Relevance(
        share=collect("row_variance", "variance", True),
        signal_to_noise=collect("row_ratio", "ratio", False),
        units_on={n: on if len(found) > 1 else on[0] for n, on in rows_on.items()},
        layers_on=layers_on,
        effective_width={
            name: float(on.sum(axis=1).mean())
            for name, on in rows_on.items()
            if name not in readers
        },
        effective_depth=float(
            np.nan if hidden is None else sum(layers_on[name].mean() for name in hidden)
        ),
        threshold=threshold,
        hidden_layers=hidden or (),
        remarks=remarks,
    )


def _places(model: Model) -> tuple[list[str], tuple[str, ...] | None, tuple[str, ...]]:
    """The sites that read the inputs, those that the output is not read from, and remarks.

    No readers, and `None`, where it cannot be told.
    """
    network, sites, remarks = model.network, find_sites(model.network), []
    example = find_input(network, sites, model.example)
    readers = input_sites(network, model.sites, example)
    outputs = output_sites(network, sites, example)
    unknown = "the shape of an input is not known: Model(..., example=x[0])"
    if not readers:
        why = unknown if example is None else "no layer under the prior is called on x as it is"
        remarks.append(f"inputs: it cannot be told which weights read them, because {why}")
    if not outputs:
        why = unknown if example is None else "the network uses a layer's weight without calling it"
        remarks.append(f"effective depth: the output layer cannot be told, because {why}")
    num_inputs = readers[0].num_rows if readers else 0
    last = {site.name for site in outputs}
    return (
        [site.name for site in readers if site.num_rows == num_inputs],
        tuple(site.name for site in model.sites if site.name not in last) if outputs else None,
        tuple(remarks),
    )


def measure_sites(networks: Networks, threshold: float) -> dict[str, SiteRelevance]:
    """What the rule says of each site of one part of the networks."""
    model, moments = networks.model, networks.weight_moments()
    return {p.name: _measure_site(p, moments[p.name], threshold) for p in model.site_priors}


def _measure_site(site_prior: SitePrior, moments: WeightMoments, threshold: float) -> SiteRelevance:
    signal, noise, prior = (
        _rows(site_prior, values)
        for values in (moments.mean**2, moments.variance, moments.prior_variance)
    )
    counts = _rows(site_prior, np.ones(site_prior.site.shape))
    per_weight = (signal + noise) / counts
    typical = np.average(per_weight, weights=counts)
    rows_on = (_ratio(signal, noise) >= threshold) & (per_weight > NEGLIGIBLE * typical)
    ratio = float(_ratio(signal.sum(), noise.sum()))
    by_unit = "unit" in site_prior.groups
    return SiteRelevance(
        row_variance=prior / counts,
        row_ratio=_ratio(signal, noise),
        rows_on=rows_on,
        variance=float(prior.sum() / counts.sum()),
        ratio=ratio,
        on=bool(rows_on.any() if by_unit else ratio >= threshold and typical > 0),
    )


def _rows(site_prior: SitePrior, values: Array | np.ndarray) -> np.ndarray:
    return np.asarray(site_prior.sum_rows(jax.numpy.asarray(values, float)), np.float64)


def _share(values: np.ndarray, total: Any) -> np.ndarray:
    # Of nothing, as a pruned layer is, nothing has a share.
    return values / np.where(total == 0, 1.0, total)


def _ratio(signal: Any, noise: Any) -> np.ndarray:
    # No noise at all is certainty; nothing at all is no signal.
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(signal) > 0, np.divide(signal, noise), 0.0)
