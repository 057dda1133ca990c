"""How long a reproduction runs, and what is left to choose in it."""

import dataclasses
import functools
from typing import Any

import numpy as np
import optax

from scalemix import data

Split = tuple[np.ndarray, np.ndarray]

LARGE = 5000
# Units of a hidden layer.
WIDTH = 50
# The share of steps over which EM's temperature rises: see benchmarks/em_warm_up.py.
WARM_UP = 0.3


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
    drop_rates: tuple[float, ...] = (0.005, 0.01, 0.05, 0.1)
    """Rates of dropping to choose among."""
    noise_floors: tuple[float, ...] = (0.001, 0.1, 0.3)
    """What the noise of the target is at least, in its standard deviations: to choose among. A
    noise level that is only learned comes out too low where the network overfits; grid searches of
    the literature choose it on held-out rows."""
    prior_scale: float | None = 10.0
    """The prior's scale under dropout noise; without one there is no penalty on weights."""
    warm_up: float = WARM_UP
    """The share of steps over which EM's temperature rises."""
    learning_rate: float | None = None
    """A constant rate; without one it is that of the methods, which falls along a cosine."""
    shuffled: bool = False
    """Whether splits are random shuffles in place of the standard ones."""
    file: str = "results"
    """The name of its results file, without the ending."""
    figures: bool = True
    """Whether figures are made by it."""

    def to_json(self) -> dict[str, Any]:
        """What a results file holds of it."""
        values = dataclasses.asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    @classmethod
    def read(cls, values: dict[str, Any]) -> "Plan":
        """The plan of a results file. What an older file does not say was as it is by default."""
        settings: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in values.items()
        }
        return cls(**settings)

    def training(self, num_rows: int) -> dict[str, Any]:
        """Steps, batch size and learning rate for a training set of this size."""
        large = num_rows > LARGE
        rate = (
            {}
            if self.learning_rate is None
            else {"learning_rate": _constant_rate(self.learning_rate)}
        )
        return {
            "steps": self.steps_large if large else self.steps,
            "batch_size": self.batch_size_large if large else self.batch_size,
            **rate,
        }

    @property
    def choices(self) -> list[dict[str, float]]:
        """What dropout's choice is made among."""
        return [
            {"drop": drop, "noise_floor": floor}
            for drop in self.drop_rates
            for floor in self.noise_floors
        ]

    def splits(self, num_rows: int) -> list[Split]:
        """The splits of a set that comes with the package."""
        if not self.shuffled:
            return data.splits(num_rows)[: self.num_splits]
        rng = np.random.default_rng(2019)
        # The released code rounds nine tenths down.
        cut = int(0.9 * num_rows)
        orders = [rng.permutation(num_rows) for _ in range(self.num_splits)]
        return [(order[:cut], order[cut:]) for order in orders]


@functools.cache
def _constant_rate(rate: float) -> Any:
    """A constant rate. The same rate is the same function, by which methods are compared."""
    return optax.constant_schedule(rate)


# The paper's text gives neither steps nor rates. Its released code, which is for yacht alone, takes
# 4,500 epochs of eight batches of 32 with Adam at a constant rate of .001.
YACHT_STEPS = 4_500 * 8

PLANS = {
    "full": Plan("full", 20, 20_000, 40_000, 32, 256),
    # Two cores, about half an hour.
    "cpu": Plan("cpu", 5, 5_000, 4_000, 32, 128),
    "quick": Plan("quick", 2, 200, 200, 32, 128),
    "as_published": Plan(
        "as_published",
        20,
        YACHT_STEPS,
        YACHT_STEPS,
        32,
        32,
        drop_rates=(0.005,),
        noise_floors=(0.001,),
        prior_scale=None,
        warm_up=0.0,
        learning_rate=1e-3,
        shuffled=True,
        file="as_published",
        figures=False,
    ),
}
