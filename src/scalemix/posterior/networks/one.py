"""A single network."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix.networks.demands import is_random
from scalemix.posterior.networks._base import Drawn, Networks, WeightMoments


class OneNetwork(Networks):
    """One set of weights and no noise."""

    method: ClassVar[str] = "training without noise"
    summary: ClassVar[str] = (
        "Trained to one set of weights: predictions know no doubt about the network."
    )
    obstacle_to_pruning: ClassVar[str | None] = None

    @property
    def default_draws(self) -> int:
        # A network with noise of its own differs from draw to draw.
        return super().default_draws if is_random(self.model.network) else 1

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return Drawn(self.model.network, self.model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        return {
            name: WeightMoments(weight, jnp.zeros_like(weight), weight**2)
            for name, weight in self.model.weights.items()
        }
