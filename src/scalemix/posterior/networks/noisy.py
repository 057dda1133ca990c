"""One set of weights under noise."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix.posterior.networks._base import Drawn, Networks, WeightMoments


class NoisyNetworks(Networks):
    """One set of weights under noise drawn from its prior."""

    method: ClassVar[str] = "noise training"
    summary: ClassVar[str] = (
        "Noise training: the network was trained with random noise on its units, as in dropout, "
        "which is the same as the prior below. Predictions average over that noise."
    )
    obstacle_to_pruning: ClassVar[str | None] = None

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return Drawn(self.model.with_scales(self.model.draw(key=key)), self.model.likelihood)

    def noise(self) -> "NoisyNetworks":
        return self

    def weight_moments(self) -> dict[str, WeightMoments]:
        """`w = xi z` under the noise. Its prior variance is `E[w^2]`: no scale was settled on."""
        moments = {}
        for name, z in self.model.weights.items():
            mean = square = jnp.ones((), z.dtype)
            for mixture in self.model.structures[name].groups.values():
                mean = mean * jnp.asarray(mixture.mean, z.dtype)
                square = square * jnp.asarray(mixture.second_moment, z.dtype)
            if not np.isfinite(square):
                raise ValueError(
                    f"The noise on {name!r} has no variance, so that its weights have no signal "
                    f"and noise to compare. Fit this prior by VariationalEM or MCMC."
                )
            moments[name] = _under_noise(z, mean, square)
        return moments


@jax.jit
def _under_noise(z: Array, mean: Array, square: Array) -> WeightMoments:
    """Moments of `xi z`, of the first two moments of the noise."""
    second = square * z**2
    return WeightMoments(mean * z, second - (mean * z) ** 2, second)
