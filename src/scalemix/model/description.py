"""A model as a table for people."""

import dataclasses
import math

import equinox as eqx
import jax
from jaxtyping import PyTree

from scalemix._text import text_table
from scalemix.networks.sites import Site, path_name
from scalemix.structures import Structure, group_shape


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
    """The sites of a model; print it."""

    rows: tuple[SiteRow, ...]
    without_prior: tuple[str, ...]
    frozen: tuple[str, ...] = ()
    one_scale: tuple[str, ...] = ()
    """Sites where a scale for each unit is one scale for all, since there is one input unit."""

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
        return "\n".join(lines)

    __repr__ = __str__


def describe(
    network: PyTree,
    structures: dict[str, Structure],
    sites: tuple[Site, ...],
    frozen: tuple[str, ...] = (),
) -> Description:
    """The table of sites, the parameters that carry no prior, and those that do not learn."""
    rows = []
    for site in sites:
        structure = structures[site.name]
        groups = structure.groups
        mixtures = [repr(mixture) for mixture in groups.values()]
        if len(set(mixtures)) > 1:
            mixtures = [f"{group}: {m}" for group, m in zip(groups, mixtures, strict=True)]
        shapes = [group_shape(group, site.shape, site.num_rows) for group in groups]
        rows.append(
            SiteRow(
                site=site.name,
                layer=site.layer_type,
                shape=site.shape,
                structure=type(structure).__name__,
                mixture=", ".join(dict.fromkeys(mixtures)),
                scale=f"{structure.scale:g}"
                if isinstance(structure.scale, float)
                else eqx.tree_pformat(structure.scale),
                num_scales=sum(math.prod(shape) for shape in shapes),
            )
        )
    known = {path_name(site.weight_path) for site in sites} | {*frozen}
    leaves, _ = jax.tree_util.tree_flatten_with_path(network)
    names = [path_name(path) for path, leaf in leaves if eqx.is_inexact_array(leaf)]
    rest = tuple(name for name in names if name not in known)
    one_scale = tuple(
        site.name for site in sites if site.num_rows == 1 and "unit" in structures[site.name].groups
    )
    return Description(tuple(rows), rest, frozen, one_scale)
