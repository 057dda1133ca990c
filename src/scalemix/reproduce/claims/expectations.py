"""Expectations over the noise of any proper family, by quadrature in its own coordinates."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from scalemix.mixtures import ScaleMixture

# Coordinates may be any numbers. In them every density of the package falls at least like
# exp(-|u| / 2), and the trapezoid rule is exact to rounding.
LARGEST, NUM_NODES = 60.0, 24_001


class Noise:
    """The noise of a family as values with weights that sum to one."""

    def __init__(self, mixture: ScaleMixture):
        with jax.enable_x64(True):
            if mixture.is_discrete:
                u = jnp.array([False, True])
                step = 1.0
            else:
                u = jnp.linspace(-LARGEST, LARGEST, NUM_NODES)
                step = 2 * LARGEST / (NUM_NODES - 1)
            self.values: np.ndarray = np.asarray(mixture.to_noise(u))
            weights = step * np.exp(np.asarray(mixture.coordinate_log_prob(u)))
        self.weights: np.ndarray = weights / weights.sum()

    def mean(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """`E[function(xi)]`, for an expectation that is finite."""
        return float(np.sum(self.weights * function(self.values)))

    def log_mean_exp(self, function: Callable[[np.ndarray], np.ndarray]) -> float:
        """`log E[exp(function(xi))]`."""
        logs = function(self.values)
        top = logs.max()
        return float(top + np.log(np.sum(self.weights * np.exp(logs - top))))

    def moment(self, power: int) -> float:
        """`E[xi^power]`; infinite where its integrand does not fall towards an end."""
        terms = self.weights * self.values**power
        diverges = max(terms[0], terms[-1]) > 1e-6 * terms.max() and len(terms) > 2
        return float("inf") if diverges else float(terms.sum())
