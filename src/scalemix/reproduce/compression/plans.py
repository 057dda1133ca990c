"""The settings of the benchmark, for a GPU, for a CPU and for a glance.

They were chosen on the last 10,000 training rows by fits to the first 50,000. The temperatures of
the full plan are a fifth higher than those that did well there, since it has a fifth more rows. In
as few steps as a CPU takes, the prior has not yet switched off all that it would: that plan takes
what is left as it is.
"""

import dataclasses
import types
from collections.abc import Mapping

from scalemix.reproduce.compression.networks import LENET_5, LENET_300

# Equinox draws weights from a range that is 1/sqrt(6) of He's. Pixels, with a standard deviation of
# a third, take three times as much.
HE = (3 * 6**0.5, 6**0.5)


@dataclasses.dataclass(frozen=True)
class Teaching:
    """Whole networks, trained under noise, that the small ones are refitted to."""

    noise: Mapping[str, float]
    """The standard deviation of the noise on the rows of each weight of a teacher."""
    steps: int
    softness: float = 3.0
    """What outputs are divided by before teacher and pupil are compared."""
    num: int = 5
    start: tuple[float, float] = HE
    """As in `Course`."""
    batch_size: int = 256
    learning_rate: float = 2e-3


@dataclasses.dataclass(frozen=True)
class Course:
    """How one network is compressed: what is selected at which temperatures, and the refit."""

    temperatures: Mapping[float, int | None]
    """The temperatures, and the most weights of the small networks; `None` for as many as stay."""
    steps: int
    """Steps of the fit that selects."""
    refit_steps: int
    warm_up: float
    """The share of the steps over which the temperature rises."""
    start: tuple[float, float]
    """Factors on the weights that Equinox starts with: those of the first layer, and the others."""
    noise: Mapping[str, float]
    """The standard deviation of the refit's noise on the rows of each weight."""
    batch_size: int = 256
    learning_rate: float = 2e-3
    decay: float = 0.0
    """What a step of the refit takes off weights and biases, as a share of them and of the rate."""
    rounds: int = 5
    """The number of cuts by which networks with a limit come down to it."""
    round_steps: int = 10_000
    """Steps of the refit before each of these cuts."""
    teachers: str | None = None
    """The kind of network that teaches the refit; without any, it learns the digits themselves."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much is done."""

    name: str
    courses: Mapping[str, Course]
    num_seeds: int
    teaching: Mapping[str, Teaching] = dataclasses.field(default_factory=dict)
    """The teachers, by their kind of network."""
    num_train: int | None = None
    """Training rows in use; all if `None`."""
    num_test: int | None = None
    num_draws: int = 30
    """Draws of the posterior whose predictions are averaged."""


CONV_NOISE = types.MappingProxyType({"conv2": 0.05, "dense1": 0.4, "dense2": 0.05})
DENSE_NOISE = types.MappingProxyType({"dense1": 0.5, "dense2": 0.05, "dense3": 0.05})

# With teachers, less noise does better.
TAUGHT_CONV_NOISE = types.MappingProxyType({"dense1": 0.2, "dense2": 0.02})
TAUGHT_DENSE_NOISE = types.MappingProxyType({"dense1": 0.3, "dense2": 0.02, "dense3": 0.02})
CONV_TEACHERS = types.MappingProxyType({"conv2": 0.3, "dense1": 0.5, "dense2": 0.5})
DENSE_TEACHERS = types.MappingProxyType({"dense1": 0.5, "dense2": 0.5, "dense3": 0.3})

PLANS = {
    "full": Plan(
        "full",
        {
            LENET_300: Course(
                {0.35: None, 0.5: 9560, 0.6: None}, 30_000, 60_000, 0.3, HE, TAUGHT_DENSE_NOISE,
                decay=0.03, teachers=LENET_5,
            ),
            LENET_5: Course(
                {1.5: None, 2.2: 4074, 2.5: 2750}, 12_000, 30_000, 0.6, (1.0, 1.0),
                TAUGHT_CONV_NOISE, decay=0.06, rounds=4, round_steps=5_000, teachers=LENET_5,
            ),
        },
        num_seeds=5,
        teaching={LENET_5: Teaching(CONV_TEACHERS, 8_000)},
    ),
    "cpu": Plan(
        "cpu",
        {
            LENET_300: Course({0.6: None}, 15_000, 8_000, 0.3, HE, DENSE_NOISE, 128),
            LENET_5: Course({1.2: None}, 3_000, 2_000, 0.6, (1.0, 1.0), CONV_NOISE, 64),
        },
        num_seeds=1,
        num_draws=10,
    ),
    "quick": Plan(
        "quick",
        {
            LENET_300: Course(
                {0.01: None}, 40, 20, 0.3, HE, DENSE_NOISE, 32, teachers=LENET_300
            ),
            LENET_5: Course({0.01: None}, 10, 5, 0.6, HE, CONV_NOISE, 16),
        },
        num_seeds=1,
        teaching={LENET_300: Teaching(DENSE_TEACHERS, 20, num=2, batch_size=32)},
        num_train=1000,
        num_test=500,
        num_draws=2,
    ),
}  # fmt: skip
