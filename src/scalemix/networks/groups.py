"""Kinds of groups: which weights of a site share one scale.

A structure names the groups that it has. What a name means for a weight matrix is said here and
nowhere else: a new kind of group is one `Group` and one entry in `GROUPS`.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

from scalemix.networks.deferred import spread
from scalemix.networks.sites import Along, Site


@dataclasses.dataclass(frozen=True)
class Group:
    """Which weights of a site share one scale, and so how the scales act on the weight.

    Layers that are stacked in one weight have scales of their own, along leading axes.
    """

    shape: Callable[[Site], tuple[int, ...]]
    """site -> the shape of the scales of one layer."""
    along: Along | None
    """What has one scale. `None` where each weight has one."""
    spread: Callable[[Site, Array], Array] = lambda site, scales: scales
    """(site, scales of one layer) -> a scale for each of what lies along that axis."""

    @property
    def by_row(self) -> bool:
        """Whether all weights of a row share their scale."""
        return self.along == "row"

    @property
    def by_output(self) -> bool:
        """Whether all weights of an output share their scale, and others need not."""
        return self.along == "output"

    def full_shape(self, site: Site) -> tuple[int, ...]:
        """The shape of the scales of a site, layers that are stacked included."""
        return site.stack + self.shape(site)

    def vector(self, site: Site, scales: Array) -> Array:
        """A scale for each of what lies along the group's axis, layer by layer."""

        def one(scales: Array) -> Array:
            assert self.along is not None
            return jnp.broadcast_to(self.spread(site, scales), (count_along(site, self.along),))

        for _ in site.stack:
            one = jax.vmap(one)
        return one(scales)

    def expand(self, site: Site, scales: Array) -> Array:
        """The scales, broadcastable against the weight."""
        if self.along is None:
            return scales
        axis, outputs = site.axis(self.along), site.axis("output")
        assert axis is not None

        def one(vector: Array) -> Array:
            return spread(vector, axis, site.layer_shape, outputs)

        for _ in site.stack:
            one = jax.vmap(one)
        return one(self.vector(site, scales))

    def sum_weights(self, site: Site, values: Array) -> Array:
        """The sum, over the weights that share each scale, of a value for each weight."""
        return self._sum(site, lambda scales: self.expand(site, scales), values)

    def sum_rows(self, site: Site, values: Array) -> Array:
        """The sum, over the rows that share each scale, of a value for each row."""
        return self._sum(site, lambda scales: self.vector(site, scales), values)

    def _sum(self, site: Site, spread: Callable[[Array], Array], values: Array) -> Array:
        # Summing over what shares a scale is the transpose of giving each its scale.
        scales = jax.ShapeDtypeStruct(self.full_shape(site), values.dtype)
        whole = jax.linear_transpose(lambda s: jnp.broadcast_to(spread(s), values.shape), scales)
        return whole(values)[0]


def count_along(site: Site, along: Along) -> int:
    """How many rows, outputs or tokens one layer has; `ValueError` if it has none."""
    count = site.count(along)
    if count is None:
        raise ValueError(
            f"Scales by {along} on {site.name!r}: a {site.layer_type} has none, or its rule does "
            f"not say along which axis of the weight they lie ({along}_axis=)."
        )
    return count


def _num_heads(site: Site) -> int:
    if site.num_heads is None:
        raise ValueError(
            f"Scales by head on {site.name!r}: its rows are not those of attention's heads. Only "
            f"the output projection of eqx.nn.MultiheadAttention has them."
        )
    return site.num_heads


def _known(site: Site, what: Literal["columns", "column_parts"]) -> tuple[int, ...]:
    numbers = getattr(site, what)
    if numbers is None:
        raise ValueError(
            f"Scales by column or part of one on {site.name!r}: it does not say which column of a "
            f"table each of its inputs was made of. Only ColumnLinear and LevelTable of "
            f"scalemix.networks do."
        )
    return numbers


def _spread_over(numbers: tuple[int, ...], scales: Array) -> Array:
    # One scale goes everywhere by itself: a table may have tens of thousands of rows.
    return scales if len(scales) == 1 else scales[jnp.asarray(numbers)]


UNIT = Group(
    shape=lambda site: (site.num_rows,),
    along="row",
)
OUTPUT = Group(
    shape=lambda site: (count_along(site, "output"),),
    along="output",
)
TOKEN = Group(
    shape=lambda site: (count_along(site, "token"),),
    along="token",
)
HEAD = Group(
    shape=lambda site: (_num_heads(site),),
    along="row",
    spread=lambda site, scales: jnp.repeat(scales, site.num_rows // len(scales)),
)
COLUMN = Group(
    shape=lambda site: (max(_known(site, "columns")) + 1,),
    along="row",
    spread=lambda site, scales: _spread_over(_known(site, "columns"), scales),
)
PART = Group(
    shape=lambda site: (max(_known(site, "column_parts")) + 1,),
    along="row",
    spread=lambda site, scales: _spread_over(_known(site, "column_parts"), scales),
)
LAYER = Group(shape=lambda site: (), along="row")
WEIGHT = Group(
    shape=lambda site: site.layer_shape,
    along=None,
)

GROUPS: dict[str, Group] = {
    "unit": UNIT,
    "weight": WEIGHT,
    "output": OUTPUT,
    "token": TOKEN,
    "head": HEAD,
    "column": COLUMN,
    "part": PART,
    "layer": LAYER,
}
"""What each name means that structures give their groups."""
