"""Weights of several layers that share their scales: one site, made of theirs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.networks.rules import LayerRule
from scalemix.networks.sites import Site

JOINT = "+"
# Outputs of all parts, one after the other; rows are what they have in common.
RULE = LayerRule(row_axis=1, output_axis=0, name="tied")


@dataclasses.dataclass(frozen=True)
class TiedSite(Site):
    """The weights of several layers whose rows are the same units, such as those of a state.

    Its weight has the outputs of all parts, one part after the other. So a scale of a row covers
    all that comes out of a unit, wherever it goes.
    """

    tied: tuple[Site, ...] = ()

    @property
    def parts(self) -> tuple[Site, ...]:
        return self.tied

    def weight(self, network: PyTree) -> Array:
        weights = [part.weight(network) for part in self.tied]
        if isinstance(weights[0], jax.ShapeDtypeStruct):
            return jax.eval_shape(self._join, weights)
        return self._join(weights)

    def _join(self, weights: list[Array]) -> Array:
        turned = [_turn(part, weight) for part, weight in zip(self.tied, weights, strict=True)]
        # There may be further axes before these two, such as members of an ensemble.
        return jnp.concatenate(turned, axis=-2)

    def split(self, weight: Any) -> tuple[Any, ...]:
        start, pieces = 0, []
        for part in self.tied:
            stop = start + part.shape[1 - _row_axis(part)]
            pieces.append(_turn(part, weight[..., start:stop, :]))
            start = stop
        return tuple(pieces)


def tie(sites: Sequence[Site], names: Sequence[str]) -> TiedSite:
    """The sites of these names as one, or a `ValueError`."""
    by_name = {site.name: site for site in sites}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ValueError(
            f"A prior on {tuple(names)} ties these layers together, and {unknown[0]!r} is none "
            f"that learns. Layers: {', '.join(by_name)}."
        )
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"A tie takes two layers or more, each once; got {tuple(names)}.")
    parts = tuple(by_name[name] for name in names)
    for part in parts:
        if len(part.shape) != 2 or part.num_groups != 1:
            raise ValueError(
                f"Layers that are tied have a weight of two axes each; that of {part.name!r} has "
                f"the shape {part.shape}."
            )
    rows = {part.name: part.num_rows for part in parts}
    if len(set(rows.values())) > 1:
        told = ", ".join(f"{name!r} has {num}" for name, num in rows.items())
        raise ValueError(
            f"Layers that are tied read the same units, so they have as many rows: {told}."
        )
    outputs = sum(part.shape[1 - _row_axis(part)] for part in parts)
    return TiedSite(
        name=JOINT.join(names),
        path=parts[0].path,
        layer_type=JOINT.join(part.layer_type for part in parts),
        rule=RULE,
        shape=(outputs, parts[0].num_rows),
        tied=parts,
    )


def with_ties(sites: tuple[Site, ...], ties: Sequence[Sequence[str]]) -> tuple[Site, ...]:
    """The sites, those that are tied together in the place of their first part."""
    for names in ties:
        tied = tie(sites, names)
        first = next(site for site in sites if site.name in names)
        sites = tuple(
            tied if site is first else site
            for site in sites
            if site is first or site.name not in names
        )
    return sites


def _row_axis(part: Site) -> int:
    axis = part.axis("row")
    assert axis is not None
    return axis


def _turn(part: Site, weight: Any) -> Any:
    """The weight with outputs before rows, or one like that as the part has it."""
    return weight if _row_axis(part) == 1 else jnp.swapaxes(weight, -1, -2)
