"""Kinds of groups: which weights of a site share one scale.

A structure names the groups that it has. What a name means for a weight matrix is said here and
nowhere else: a new kind of group is one `Group` and one entry in `GROUPS`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from scalemix.networks.sites import Site


@dataclasses.dataclass(frozen=True)
class Group:
    """Which weights of a site share one scale, and so how the scales act on the weight."""

    shape: Callable[[Site], tuple[int, ...]]
    """site -> the shape of its scales."""
    take: Callable[[Any, Any, Any], Any]
    """(scales, rows, outputs) -> the scales of a dense layer that keeps these rows and outputs."""
    to_rows: Callable[[Site, Array], Array] | None = None
    """(site, scales) -> the scale of each row, or one number for all of them. `None` where the
    weights of a row have different scales."""
    to_outputs: Callable[[Site, Array], Array] | None = None
    """(site, scales) -> the scale of each output. `None` where the weights of an output have
    different scales."""
    to_weight: Callable[[Site, Any, Array], Array] | None = None
    """(site, layer, scales) -> the scales, broadcastable against the weight. Needed only where both
    others are `None`: scales of rows and of outputs reach the weight by the layer's rule."""

    @property
    def by_row(self) -> bool:
        """Whether all weights of a row share their scale."""
        return self.to_rows is not None

    @property
    def by_output(self) -> bool:
        """Whether all weights of an output share their scale, and others need not."""
        return self.to_outputs is not None

    def expand(self, site: Site, layer: Any, scales: Array) -> Array:
        """The scales, broadcastable against the weight."""
        if self.to_weight is not None:
            return self.to_weight(site, layer, scales)
        if self.by_output:
            assert site.rule.expand_outputs is not None
            return site.rule.expand_outputs(layer, self.outputs(site, scales))
        rows = self.rows(site, scales)
        return rows if rows.ndim == 0 else site.rule.expand(layer, rows)

    def rows(self, site: Site, scales: Array) -> Array:
        """The scale of each row, or one number for all rows; for groups `by_row`."""
        assert self.to_rows is not None
        return self.to_rows(site, scales)

    def outputs(self, site: Site, scales: Array) -> Array:
        """The scale of each output; for groups `by_output`."""
        assert self.to_outputs is not None
        return self.to_outputs(site, scales)

    def scale_input(self, site: Site, scales: Array, x: Array) -> Array:
        """The layer's input with each unit multiplied by the scale of its row."""
        assert site.rule.scale_input is not None
        rows = self.rows(site, scales)
        return x * rows if rows.ndim == 0 else site.rule.scale_input(rows, x)

    def sum_weights(self, site: Site, layer: Any, values: Array) -> Array:
        """The sum, over the weights that share each scale, of a value for each weight."""
        return self._sum(site, lambda scales: self.expand(site, layer, scales), values)

    def sum_rows(self, site: Site, values: Array) -> Array:
        """The sum, over the rows that share each scale, of a value for each row."""
        return self._sum(site, lambda scales: self.rows(site, scales), values)

    def _sum(self, site: Site, spread: Callable[[Array], Array], values: Array) -> Array:
        # Summing over what shares a scale is the transpose of giving each its scale.
        scales = jax.ShapeDtypeStruct(self.shape(site), values.dtype)
        whole = jax.linear_transpose(lambda s: jnp.broadcast_to(spread(s), values.shape), scales)
        return whole(values)[0]


def _num_outputs(site: Site) -> int:
    if site.num_outputs is None:
        raise ValueError(
            f"Scales by output on {site.name!r}: the rule for {site.layer_type} does not say which "
            f"weights belong to which output. Give its LayerRule num_outputs and expand_outputs, "
            f"or use by='unit'."
        )
    return site.num_outputs


UNIT = Group(
    shape=lambda site: (site.num_rows,),
    to_rows=lambda site, scales: scales,
    take=lambda scales, rows, outputs: scales[rows],
)
WEIGHT = Group(
    shape=lambda site: site.shape,
    take=lambda scales, rows, outputs: scales[outputs][:, rows],
    to_weight=lambda site, layer, scales: scales,
)
OUTPUT = Group(
    shape=lambda site: (_num_outputs(site),),
    to_outputs=lambda site, scales: scales,
    take=lambda scales, rows, outputs: scales[outputs],
)
LAYER = Group(
    shape=lambda site: (),
    to_rows=lambda site, scales: scales,
    take=lambda scales, rows, outputs: scales,
)

GROUPS: dict[str, Group] = {
    "unit": UNIT,
    "weight": WEIGHT,
    "output": OUTPUT,
    "layer": LAYER,
}
"""What each name means that structures give their groups."""
