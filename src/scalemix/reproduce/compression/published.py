"""What others left of the same two networks, and the error that they report."""

from typing import NamedTuple

from scalemix.reproduce.compression.networks import (
    LENET_5,
    LENET_300,
    dense_weights,
    lenet5_weights,
)


class Published(NamedTuple):
    """One published point."""

    network: str
    method: str
    source: str
    units: tuple[int, ...]
    error: float
    """Test error in percent."""

    @property
    def weights(self) -> int:
        """Numbers in the weight matrices, without biases."""
        return (lenet5_weights if self.network == LENET_5 else dense_weights)(*self.units)


PUBLISHED = (
    Published(LENET_5, "Sparse VD", "Molchanov et al. 2017", (14, 19, 242, 131), 1.0),
    Published(LENET_5, "group normal-Jeffreys", "Louizos et al. 2017", (8, 13, 88, 13), 1.0),
    Published(LENET_5, "group horseshoe", "Louizos et al. 2017", (5, 10, 76, 16), 1.0),
    Published(LENET_5, "structured pruning", "Neklyudov et al. 2017", (3, 18, 284, 283), 0.86),
    Published(LENET_5, "L0, separate", "Louizos et al. 2018", (9, 18, 65, 25), 1.0),
    Published(LENET_300, "Sparse VD", "Molchanov et al. 2017", (512, 114, 72), 1.8),
    Published(LENET_300, "group normal-Jeffreys", "Louizos et al. 2017", (278, 98, 13), 1.8),
    Published(LENET_300, "group horseshoe", "Louizos et al. 2017", (311, 86, 14), 1.8),
    Published(LENET_300, "L0, separate", "Louizos et al. 2018", (266, 88, 33), 1.8),
    Published(LENET_300, "VIB", "Dai et al. 2018", (97, 71, 33), 1.6),
)  # fmt: skip
