"""What a network turned out to need: its inputs, its hidden units, its layers.

`relevance_rule` has the measures, and the rule of what is off.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from scalemix._text import text_table
from scalemix.model.inputs import find_input
from scalemix.model.model import Model
from scalemix.networks.lookups import find_lookups
from scalemix.networks.readers import input_sites, output_sites, rows_read
from scalemix.networks.sites import Site, find_sites
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.relevance_rule import LISTED, layers_of, measure_layers

__all__ = [
    "Measure",
    "Relevance",
]


class Measure(NamedTuple):
    """One measure of all inputs, hidden units and layers.

    Units of different members, or chains, have nothing to do with one another; inputs and layers
    have. So the former are listed for each member and the latter are averaged.

    Attributes
    ----------
    inputs : numpy.ndarray
        One number for each input; empty where it cannot be told which weights read the inputs.
    units : dict of str to numpy.ndarray
        One number for each hidden unit, by the site that holds its outgoing weights. Of an
        ensemble, or of several chains, there is a leading axis of members or chains.
    layers : dict of str to float
        One number for each layer, by site.
    groups : dict of str to dict of str to numpy.ndarray
        One number for each output, head or token, by group (`output`, `head`, `token`) and by site,
        where there are such scales; laid out as `units`.
    outputs : dict of str to numpy.ndarray
        Those of output units, or of filters of a convolution: `groups["output"]`.

    Examples
    --------
    >>> post.relevance().signal_to_noise.inputs.shape
    (3,)
    """

    inputs: np.ndarray
    units: dict[str, np.ndarray]
    layers: dict[str, float]
    groups: dict[str, dict[str, np.ndarray]]

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """One number for each output of the sites whose scales are by output."""
        return self.groups.get("output", {})


@dataclasses.dataclass(frozen=True)
class Relevance:
    """How much inputs, hidden units and layers matter. `Posterior.relevance` makes it.

    Attributes
    ----------
    inputs : numpy.ndarray
        Each input's share of the prior variance of the layers that read the inputs.
    units : dict of str to numpy.ndarray
        Each hidden unit's share of the prior variance of the layer that reads it, by site. Layers
        that are stacked in one site have their numbers after its name: `blocks.0`, `blocks.1`.
    layers : dict of str to float
        Each layer's share of the prior variance, per weight.
    outputs : dict of str to numpy.ndarray
        Each output's share of the prior variance of its layer, by site, where scales are by output.
    groups : dict of str to dict of str to numpy.ndarray
        The same by group (`output`, `head`, `token`) and by site, where there are such scales.
    share : Measure
        All of the above, as one.
    signal_to_noise : Measure
        What is known of the weights against what is not, for all of them.
    units_on : dict of str to numpy.ndarray
        Which units are on, by the site that holds their outgoing weights; laid out as `units`.
    layers_on : dict of str to numpy.ndarray
        Which layers are on: one entry for each member of an ensemble, or each chain.
    groups_on : dict of str to dict of str to numpy.ndarray
        Which outputs, heads or tokens are on, by group (`output`, `head`, `token`) and by site,
        where there are such scales; laid out as `units`.
    outputs_on : dict of str to numpy.ndarray
        Which outputs are on: `groups_on["output"]`.
    effective_width : dict of str to float
        How many hidden units are on, by the site that holds their outgoing weights.
    effective_depth : float
        How many of `hidden_layers` are on; NaN where these cannot be told.
    threshold : float
        The signal to noise below which a unit or a layer counts as off.
    hidden_layers : tuple of str
        The layers under the prior, without those that the output is read from.
    remarks : tuple of str
        What could not be told, and why.

    Examples
    --------
    >>> relevance = post.relevance()
    >>> round(float(relevance.inputs.sum()), 3)
    1.0
    >>> relevance.units["layers.1"].shape
    (8,)
    >>> relevance.hidden_layers
    ('layers.0', 'layers.1')
    """

    share: Measure
    signal_to_noise: Measure
    units_on: dict[str, np.ndarray]
    layers_on: dict[str, np.ndarray]
    groups_on: dict[str, dict[str, np.ndarray]]
    effective_width: dict[str, float]
    effective_depth: float
    threshold: float
    hidden_layers: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def inputs(self) -> np.ndarray:
        """Each input's share of the prior variance of the layers that read the inputs."""
        return self.share.inputs

    @property
    def outputs_on(self) -> dict[str, np.ndarray]:
        """Which outputs are on, of the sites whose scales are by output; laid out as `units`."""
        return self.groups_on.get("output", {})

    @property
    def units(self) -> dict[str, np.ndarray]:
        """Each hidden unit's share of the prior variance of the layer that reads it, by site."""
        return self.share.units

    @property
    def layers(self) -> dict[str, float]:
        """Each layer's share of the prior variance, per weight."""
        return self.share.layers

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """Each output's share of the prior variance of its layer, where scales are by output."""
        return self.share.outputs

    @property
    def groups(self) -> dict[str, dict[str, np.ndarray]]:
        """Each output's, head's or token's share of the prior variance of its layer."""
        return self.share.groups

    def table(self, names: Sequence[str] | None = None, *, top: int = 20) -> str:
        """A text table of the leading inputs, the most relevant first, and of all layers.

        Where it cannot be told which weights read the inputs, the table says so.

        Parameters
        ----------
        names : sequence of str, optional
            What to call the inputs; by default they are numbered.
        top : int, default 20
            How many inputs to show.

        Returns
        -------
        str
            The table.

        Examples
        --------
        >>> table = post.relevance().table(["a", "b", "c"], top=1)
        >>> table.splitlines()[2]
        '... and 2 inputs more'
        """
        if names is None or not len(self.inputs):
            names = [f"input {i}" for i in range(len(self.inputs))]
        if len(names) != len(self.inputs):
            raise ValueError(f"There are {len(self.inputs)} inputs and {len(names)} names.")
        order = np.argsort(-self.inputs, kind="stable")
        rows: list[tuple[str, ...]] = [("", "share", "signal/noise")]
        for i in order[:top]:
            noise = self.signal_to_noise.inputs[i]
            rows.append((str(names[i]), f"{self.inputs[i]:.3f}", f"{noise:.3g}"))
        num_above = len(rows)
        for name, share in self.layers.items():
            on, num_parts = self.units_on[name], len(self.layers_on[name])
            units = f"{_count(on, num_parts)} of {on.shape[-1]} units on"
            for group, by_layer in self.groups_on.items():
                if name in by_layer:
                    on = by_layer[name]
                    units += f", {_count(on, num_parts)} of {on.shape[-1]} {group}s on"
            off = "" if self.layers_on[name].any() else ", off"
            noise = self.signal_to_noise.layers[name]
            rows.append((name, f"{share:.3f}", f"{noise:.3g}", f"{units}{off}"))
        lines = text_table(rows, "<>>")
        if len(order) > top:
            lines.insert(num_above, f"... and {len(order) - top} inputs more")
        if not np.isnan(self.effective_depth):
            lines.append(f"effective depth {self.effective_depth:g}")
        return "\n".join([*lines, *self.remarks])

    def __repr__(self) -> str:
        return self.table()


def find_relevance(posterior: Posterior, threshold: float) -> Relevance:
    """The relevance of a posterior's inputs, units and layers; see `Posterior.relevance`."""
    if not threshold >= 0:
        raise ValueError(f"threshold must not be negative, got {threshold}.")
    parts = posterior.networks.parts
    model = parts[0].model
    measured = [measure_layers(part, threshold) for part in parts]
    reading, hidden, remarks = _places(model)
    readers = reading.rows

    # The rows of all other sites are hidden units.
    units_of = [name for name in measured[0] if name not in readers | reading.tables]

    def lines(group: str, what: str) -> dict[str, np.ndarray]:
        return {
            name: np.stack([getattr(m[name].lines[group], what) for m in measured])
            for name in measured[0]
            if group in measured[0][name].lines
        }

    def laid_out(lines: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: value if len(measured) > 1 else value[0] for name, value in lines.items()}

    def collect(what: str, share: bool) -> Measure:
        rows, *listed = (lines(group, what) for group in ("unit", *LISTED))
        layers = {
            name: np.array([getattr(m[name], what) for m in measured]) for name in measured[0]
        }
        inputs = np.zeros((len(measured), reading.num_inputs))
        for name, places in readers.items():
            inputs[:, places] += rows[name]
        for name, places in reading.tables.items():
            # All weights of a table together are those that read each of its inputs.
            inputs[:, places] += layers[name][:, None]
        if share:
            total = sum(layers.values())
            layers = {name: _share(value, total) for name, value in layers.items()}
            rows, *listed = (
                {n: _share(value, value.sum(1, keepdims=True)) for n, value in each.items()}
                for each in (rows, *listed)
            )
            inputs = _share(inputs, inputs.sum(1, keepdims=True))
        units = {name: value for name, value in rows.items() if name in units_of}
        return Measure(
            inputs.mean(axis=0),
            laid_out(units),
            {name: float(value.mean()) for name, value in layers.items()},
            {group: laid_out(each) for group, each in zip(LISTED, listed, strict=True) if each},
        )

    rows_on, share = lines("unit", "on"), collect("variance", True)
    told_apart = any(_tells_rows_apart(model, name) for name in readers)
    alone = readers and not reading.tables
    if alone and not told_apart and np.allclose(share.inputs, share.inputs[0], rtol=1e-5):
        remarks += (
            f"inputs: they share all scales of {', '.join(readers)}, and so have equal shares; "
            f"compare their signal to noise",
        )
    layers_on = {name: np.array([m[name].on for m in measured]) for name in measured[0]}
    return Relevance(
        share=share,
        signal_to_noise=collect("ratio", False),
        units_on=laid_out(rows_on),
        layers_on=layers_on,
        groups_on={group: on for group in LISTED if (on := laid_out(lines(group, "on")))},
        effective_width={
            name: float(on.sum(axis=1).mean()) for name, on in rows_on.items() if name in units_of
        },
        effective_depth=float(
            np.nan if hidden is None else sum(layers_on[name].mean() for name in hidden)
        ),
        threshold=threshold,
        hidden_layers=hidden or (),
        remarks=remarks,
    )


class Reading(NamedTuple):
    """Which weights read the inputs."""

    rows: dict[str, np.ndarray]
    """The sites whose rows are inputs, and which input each row is."""
    tables: dict[str, list[int]]
    """The tables that single inputs are looked up in, and which inputs."""
    num_inputs: int


def _find_reading(model: Model, parts: tuple[Site, ...], example: Any) -> Reading:
    """The weights that read the inputs, as far as it can be told."""
    by_part = input_sites(model.network, parts, example)
    # Of layers that share their scales, all must read the inputs, and along the same axes.
    met = {
        site: by_part[site.parts[0]]
        for site in model.sites
        if site.parts[0] in by_part
        and all(by_part.get(part) == by_part[site.parts[0]] for part in site.parts)
    }
    # Rows that lie along another axis of the input are those of something else.
    along = {site: (axes, site.num_rows) for site, axes in met.items()}
    readers = [site for site in along if along[site] == next(iter(along.values()))]
    if readers:
        num = readers[0].num_rows
        return Reading({site.name: np.arange(num) for site in readers}, {}, num)
    # What remains are tables of real numbers, some of which are positions that are looked up.
    if not hasattr(example, "dtype") or not jnp.issubdtype(example.dtype, jnp.floating):
        return Reading({}, {}, 0)
    tables: dict[str, list[int]] = {}
    for each in find_lookups(model.network, parts, example):
        if len(each.places[0]) != 1:
            return Reading({}, {}, 0)
        tables[each.site] = sorted({*tables.get(each.site, []), int(each.places[0][0])})
    alone = {site.name for site in model.sites if len(site.parts) == 1}
    if not tables or not tables.keys() <= alone:
        return Reading({}, {}, 0)
    rows = {
        site.name: places
        for site, places in rows_read(model.network, parts, example).items()
        if site.name in alone
    }
    return Reading(rows, tables, example.shape[0])


def _places(model: Model) -> tuple[Reading, tuple[str, ...] | None, tuple[str, ...]]:
    """What reads the inputs, the sites that the output is not read from, and remarks.

    Where it cannot be told, there are no readers, and `None` in place of the others.
    """
    network, sites, remarks = model.network, find_sites(model.network), []
    example = find_input(network, sites, model.example)
    parts = tuple(part for site in model.sites for part in site.parts)
    reading = _find_reading(model, parts, example)
    outputs = output_sites(network, sites, example)
    unknown = "the shape of an input is not known: Model(..., example=x[0])"
    if not reading.num_inputs:
        why = unknown if example is None else "no layer under the prior multiplies x as it is"
        remarks.append(f"inputs: it cannot be told which weights read them, because {why}")
    if not outputs:
        why = unknown if example is None else "the output depends on no weight that has a rule"
        remarks.append(f"effective depth: the output layer cannot be told, because {why}")
    # What is looked up is added to what the layer beside it gives: together they are one.
    beside = [*reading.tables] if reading.rows else [*reading.tables][1:]
    last = {*(site.name for site in outputs), *beside}
    return (
        reading,
        tuple(
            name
            for site in model.sites
            if not all(part.name in last for part in site.parts)
            for name in layers_of(site).values()
        )
        if outputs
        else None,
        tuple(remarks),
    )


def _tells_rows_apart(model: Model, name: str) -> bool:
    """Whether rows of a site may differ in their scales."""
    return any(group in ("unit", "weight") for group in model.structures[name].groups)


def span(counts: Iterable[int]) -> str:
    """Whole numbers in a line of text: one if they are all the same, else from the least on."""
    ordered = sorted(int(count) for count in counts)
    least, most = ordered[0], ordered[-1]
    return f"{least}" if least == most else f"{least} to {most}"


def _count(on: np.ndarray, num_parts: int) -> str:
    """How many are on in each member or chain."""
    return span(on.reshape(num_parts, -1).sum(axis=1))


def _share(values: np.ndarray, total: Any) -> np.ndarray:
    # A pruned layer has no variance at all, and nothing has a share of it.
    return values / np.where(total == 0, 1.0, total)
