"""Methods of inference, and the objectives of noise training."""

from scalemix.inference.chains.mcmc import MCMC
from scalemix.inference.driver import Progress
from scalemix.inference.method import Method
from scalemix.inference.training.em import VariationalEM
from scalemix.inference.training.engine import State
from scalemix.inference.training.noise import NoiseTraining
from scalemix.inference.training.objectives import (
    hierarchical,
    importance_weighted,
    lower_bound,
    pareto_smoothed,
    tail_adaptive,
    truncated,
)
from scalemix.inference.training.settings import Training

__all__ = [
    "MCMC",
    "Method",
    "NoiseTraining",
    "Progress",
    "State",
    "Training",
    "VariationalEM",
    "hierarchical",
    "importance_weighted",
    "lower_bound",
    "pareto_smoothed",
    "tail_adaptive",
    "truncated",
]
