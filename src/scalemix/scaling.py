"""Inputs and targets in units of their own spread, and predictions back in the user's."""

from typing import NamedTuple

import numpy as np


class Scaling(NamedTuple):
    """Means and standard deviations of the training data; zero and one where nothing is scaled."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: float
    y_scale: float

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Inputs as the network sees them."""
        if self.x_mean.size == 0:
            return x
        return ((x - self.x_mean) / self.x_scale).astype(x.dtype)

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Targets as the likelihood sees them."""
        if self.y_mean == 0 and self.y_scale == 1:
            return y
        return ((y - self.y_mean) / self.y_scale).astype(y.dtype)


def find_scaling(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, *, inputs: bool, targets: bool
) -> Scaling:
    """Weighted means and deviations; a column that does not vary keeps its unit."""

    def spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.average(values, axis=0, weights=weight)
        scale = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weight))
        return mean, np.where(scale > 1e-12 * np.maximum(np.abs(mean), 1e-300), scale, 1.0)

    nothing = np.zeros(0), np.ones(0)
    x_mean, x_scale = spread(x.astype(np.float64)) if inputs else nothing
    y_mean, y_scale = spread(y.astype(np.float64)) if targets else (0.0, 1.0)
    return Scaling(x_mean, x_scale, float(y_mean), float(y_scale))
