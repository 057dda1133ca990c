"""Which places of which dimensions stay.

Every dimension of every array has a mask, empty at first, and each place in it a reason to stay.
Masks only grow, by what each operation asks for, until no operation asks for more.
"""

from collections.abc import Iterable

import numpy as np

from scalemix.networks.cutting.flow import Flows
from scalemix.networks.cutting.graph import Node, Trace

Dimension = tuple[int, int]
"""(array, axis)."""
ONE_STAYS, OTHERS = "one must stay", "another member of the ensemble needs as many"
READ = "something that is not zero reads it"
# Places that stay for one of these reasons are read by nothing: their values do not matter.
FILLING = ("", ONE_STAYS, OTHERS)


class Keep:
    """The masks of all dimensions, and what ties them together.

    With `tied`, the equal parts that an operation splits an array into lose the same places. With
    `whole_sums`, products of two arrays that vary, as in attention, sum over all places.
    """

    trace: Trace
    flows: Flows
    tied: bool
    whole_sums: bool
    reasons: list[str]

    def __init__(self, trace: Trace, flows: Flows, *, tied: bool = False, whole_sums: bool = False):
        self.trace, self.flows, self.tied, self.whole_sums = trace, flows, tied, whole_sums
        # The number of a reason; none is zero. Of two reasons the later one says more.
        self._why = [[np.zeros(size, np.int32) for size in shape] for shape in trace.shapes]
        self.reasons = [*FILLING, READ]
        self.touched: set[int] = set()
        self._same: dict[Dimension, Dimension] = {}
        self._together: dict[Dimension, Dimension] = {}

    def why(self, array: int, axis: int) -> np.ndarray:
        """The number of the reason to stay of each place."""
        return self._why[array][axis]

    def mask(self, array: int, axis: int) -> np.ndarray:
        """Which places stay."""
        return self._why[array][axis] > 0

    def masks(self, array: int) -> list[np.ndarray]:
        """Which places stay, axis by axis."""
        return [why > 0 for why in self._why[array]]

    def shape(self, array: int) -> tuple[int, ...]:
        """The shape that is left."""
        return tuple(int((why > 0).sum()) for why in self._why[array])

    def is_whole(self, array: int, axis: int) -> bool:
        return bool(self._why[array][axis].all())

    def is_read(self, array: int, axis: int) -> np.ndarray:
        """Which places stay because their values matter."""
        return self._why[array][axis] >= len(FILLING)

    def grow(self, array: int, axis: int, why: np.ndarray) -> None:
        """Let these places stay, for these reasons."""
        mine, filling = self._why[array][axis], len(FILLING)
        new = ((mine == 0) & (why > 0)) | ((mine < filling) & (why >= filling))
        if new.any():
            self._why[array][axis] = np.where(new, why, mine)
            self.touched.add(array)

    def need(self, array: int, axis: int, mask: np.ndarray) -> None:
        """Let these places stay, because something reads them."""
        self.grow_for(array, axis, mask, READ)

    def pin(self, array: int, axis: int | None, reason: str) -> None:
        """Let everything along an axis stay, or along all of them."""
        axes = range(self.trace.ndim(array)) if axis is None else [axis]
        for one in axes:
            if not self.is_read(array, one).all():
                why = np.full(self.trace.shapes[array][one], self._number(reason), np.int32)
                self.grow(array, one, why)

    def grow_for(self, array: int, axis: int, mask: np.ndarray, reason: str) -> None:
        """Let these places stay, for one reason."""
        self.grow(array, axis, mask * np.int32(self._number(reason)))

    def pin_first(self, array: int, axis: int, reason: str) -> None:
        """Let the first place along an axis stay."""
        first = np.arange(self.trace.shapes[array][axis]) == 0
        self.grow_for(array, axis, first, reason)

    def pin_for(self, node: Node, array: int, axis: int | None = None) -> None:
        """Let everything stay for the sake of an operation."""
        if axis is None or not self.is_read(array, axis).all():
            self.pin(array, axis, f"{node.name} at {node.line}")

    def is_live(self, node: Node) -> bool:
        """Whether the values of what an operation makes matter."""
        return any(number in self.flows.live for number in node.outputs)

    def link(self, *dimensions: Dimension) -> None:
        """These dimensions lose the same places."""
        _unite(self._same, dimensions)
        self.together(dimensions)
        first, *rest = (self._why[array][axis] for array, axis in dimensions)
        why = first
        for other in rest:
            why = np.maximum(why, other)
        for array, axis in dimensions:
            self.grow(array, axis, why)

    def together(self, dimensions: Iterable[Dimension]) -> None:
        """These dimensions are cut together or not at all."""
        _unite(self._together, tuple(dimensions))

    def class_of(self, dimension: Dimension) -> Dimension:
        """One dimension for all that lose the same places."""
        return _find(self._same, dimension)

    def component_of(self, dimension: Dimension) -> Dimension:
        """One dimension for all that are cut together."""
        return _find(self._together, dimension)

    def _number(self, reason: str) -> int:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason)


def _find(up: dict[Dimension, Dimension], dimension: Dimension) -> Dimension:
    root = dimension
    while up.get(root, root) != root:
        root = up[root]
    while up.get(dimension, dimension) != root:
        up[dimension], dimension = root, up[dimension]
    return root


def _unite(up: dict[Dimension, Dimension], dimensions: tuple[Dimension, ...]) -> None:
    roots = {_find(up, dimension) for dimension in dimensions}
    # The lowest number stands for all, so that leaves, which come first, stand for the rest.
    first = min(roots, default=None)
    for root in roots:
        if root != first and first is not None:
            up[root] = first
