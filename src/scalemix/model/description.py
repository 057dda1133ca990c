"""A model as a table to be printed."""

import dataclasses
import math

import equinox as eqx
import jax

from scalemix._text import text_table
from scalemix._types import PyTree
from scalemix.model.site_prior import SitePrior
from scalemix.networks.calling import with_state
from scalemix.networks.sites import path_name


@dataclasses.dataclass(frozen=True)
class SiteRow:
    """One weight matrix and its prior."""

    site: str
    layer: str
    shape: tuple[int, ...]
    structure: str
    mixture: str
    scale: str
    num_scales: int


@dataclasses.dataclass(frozen=True)
class Description:
    """The sites of a model, with what carries no prior and what is frozen. Print it."""

    rows: tuple[SiteRow, ...]
    without_prior: tuple[str, ...]
    frozen: tuple[str, ...] = ()
    one_scale: tuple[str, ...] = ()
    """Sites with a single input unit, where a scale for each unit is one scale for all."""
    one_output: tuple[str, ...] = ()
    """Sites with a single output, where a scale for each output is one scale for all."""

    def __str__(self) -> str:
        head = ("site", "layer", "shape", "structure", "mixture", "scale", "scales")
        body = [tuple(str(cell) for cell in dataclasses.astuple(row)) for row in self.rows]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        lines = text_table([head, tuple("-" * width for width in widths), *body])
        weights = sum(math.prod(row.shape) for row in self.rows)
        scales = sum(row.num_scales for row in self.rows)
        lines.append(f"{weights:,} weights under the prior, {scales:,} scales")
        if self.without_prior:
            lines.append(f"no prior: {', '.join(self.without_prior)}")
        if self.frozen:
            lines.append(f"frozen: {', '.join(self.frozen)}")
        for name in self.one_scale:
            lines.append(
                f"warning: {name!r} reads one unit or channel, so that one scale covers its whole "
                f"input: it selects nothing there, and switches all of it off or none. Give this "
                f"layer DropConnect, or no prior."
            )
        for name in self.one_output:
            lines.append(
                f"warning: {name!r} has one output, so that one scale by output covers the whole "
                f"layer, and switches all of it off or none. Give this layer by='unit', or no "
                f"prior."
            )
        return "\n".join(lines)

    __repr__ = __str__


def describe(
    network: PyTree, priors: tuple[SitePrior, ...], frozen: tuple[str, ...] = ()
) -> Description:
    """The table of sites, the parameters that carry no prior, and those that do not learn."""
    parts = [part for prior in priors for part in prior.site.parts]
    known = {path_name(part.weight_path) for part in parts} | {*frozen}
    leaves, _ = jax.tree_util.tree_flatten_with_path(with_state(network, None))
    names = [path_name(path) for path, leaf in leaves if eqx.is_inexact_array(leaf)]
    return Description(
        rows=tuple(map(_row, priors)),
        without_prior=tuple(name for name in names if name not in known),
        frozen=frozen,
        one_scale=tuple(p.name for p in priors if p.site.num_rows == 1 and "unit" in p.groups),
        one_output=tuple(
            p.name for p in priors if p.site.count("output") == 1 and "output" in p.groups
        ),
    )


def _row(prior: SitePrior) -> SiteRow:
    structure, site = prior.structure, prior.site
    mixtures = [repr(mixture) for mixture in prior.groups.values()]
    if len(set(mixtures)) > 1:
        mixtures = [f"{group}: {m}" for group, m in zip(prior.groups, mixtures, strict=True)]
    scale = structure.scale
    return SiteRow(
        site=site.name,
        layer=site.layer_type,
        shape=site.shape,
        structure=structure.title,
        mixture=", ".join(dict.fromkeys(mixtures)),
        scale=f"{scale:g}" if isinstance(scale, float) else eqx.tree_pformat(scale),
        num_scales=sum(prior.num_scales.values()),
    )
