"""How long a reproduction runs."""

import dataclasses
from typing import Any

LARGE = 5000
# Units of a hidden layer.
WIDTH = 50


@dataclasses.dataclass(frozen=True)
class Plan:
    """How many splits, how many steps, on which batches; `large` is for sets of over 5,000 rows."""

    name: str
    num_splits: int
    steps: int
    steps_large: int
    batch_size: int
    batch_size_large: int
    held_out: float = 0.2
    """The part of a training set on which dropout rate and noise floor are chosen."""

    def training(self, num_rows: int) -> dict[str, Any]:
        """Steps and batch size for a training set of this size."""
        large = num_rows > LARGE
        return {
            "steps": self.steps_large if large else self.steps,
            "batch_size": self.batch_size_large if large else self.batch_size,
        }


PLANS = {
    "full": Plan("full", 20, 20_000, 40_000, 32, 256),
    # Two cores, about half an hour.
    "cpu": Plan("cpu", 5, 5_000, 4_000, 32, 128),
    "quick": Plan("quick", 2, 200, 200, 32, 128),
}
