"""One rule for each primitive of JAX that can be followed, and the table of them."""

from scalemix.networks.cutting.primitives import (
    control,
    elementwise,
    parts,
    products,
    reductions,
    shapes,
)
from scalemix.networks.cutting.primitives._rule import Primitive

__all__ = ["PRIMITIVES", "Primitive"]

PRIMITIVES: dict[str, Primitive] = {
    **elementwise.PRIMITIVES,
    **shapes.PRIMITIVES,
    **parts.PRIMITIVES,
    **products.PRIMITIVES,
    **reductions.PRIMITIVES,
    **control.PRIMITIVES,
}
