"""Engines of inference and the one loop they share."""

from scalemix.inference.em import VariationalEM
from scalemix.inference.mcmc import MCMC
from scalemix.inference.noise import NoiseTraining
from scalemix.inference.objectives import (
    hierarchical,
    importance_weighted,
    lower_bound,
    tail_adaptive,
)

__all__ = [
    "MCMC",
    "NoiseTraining",
    "VariationalEM",
    "hierarchical",
    "importance_weighted",
    "lower_bound",
    "tail_adaptive",
]
