"""Noise levels of rows outside the training data: no less than at the nearest point inside.

A network that has an output for the noise says something there, too, and often that there is next
to none. No row has taught it so: the nearest point inside is the last that rows have spoken for.
Where it says that there is more, it is believed, since that was found to be right more often than
the level at the nearest point is (benchmarks/README.md).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from scalemix.data.scaling import Scaling
from scalemix.likelihoods import Likelihood


class KnownNoise(NamedTuple):
    """Where noise levels are known, and which outputs they are."""

    low: np.ndarray
    """The ends of each input, as the network sees it."""
    high: np.ndarray
    places: tuple[int, ...]

    @staticmethod
    def of(likelihood: Likelihood, scaling: Scaling, dtype: Any) -> "KnownNoise | None":
        """The same for a model; `None` if it has one level for all, or does not know the ends."""
        places = likelihood.noise_outputs
        if not places or scaling.x_ends is None:
            return None
        # Rounded as all inputs are, so that no training row lies outside.
        low, high = scaling.inputs(scaling.x_ends, dtype)
        return KnownNoise(low, high, places)

    def nearest(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that lie outside, by number, and the nearest point inside for each."""
        inside = np.clip(x, self.low, self.high)
        rows = np.flatnonzero((inside != x).any(axis=1))
        return rows, inside[rows]


@partial(jax.jit, static_argnames="places")
def with_levels(outputs: Array, rows: Array, inside: Array, places: tuple[int, ...]) -> Array:
    """Outputs `(draws, rows, outputs)` with no less noise at some rows than at points inside."""
    at = np.array(places)
    return outputs.at[:, rows[:, None], at].max(inside[:, :, at])
