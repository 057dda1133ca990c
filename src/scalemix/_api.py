"""All public names. `scalemix/__init__.py` imports this when one is first asked for."""

from scalemix import bases, data, likelihoods, metrics, mixtures, networks
from scalemix._programs import keep_programs
from scalemix.data.preparation import InputWarning
from scalemix.data.ranges import RangeWarning
from scalemix.fitting.candidates import Candidate, default_candidates
from scalemix.fitting.from_batches import fit_batches
from scalemix.fitting.front_door import fit, fit_many
from scalemix.fitting.stacking import Stacked, fit_stacked, fit_stacked_many
from scalemix.inference import MCMC, NoiseTraining, VariationalEM
from scalemix.inference.checkpoint import ResumeWarning
from scalemix.inference.training.engine import DivergenceError
from scalemix.inference.training.findings import UselessFitWarning
from scalemix.mixtures import (
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Gaussian,
    HalfCauchy,
    InverseGamma,
    InverseNakagami,
    LogUniform,
    Rayleigh,
    Uniform,
)
from scalemix.model.model import Model
from scalemix.model.stochastic_depth import stochastic_depth
from scalemix.networks import PathRule
from scalemix.posterior.diagnostics import ConvergenceWarning
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.storage import load
from scalemix.structures import ADD, ARD, ARDADD, DropConnect

__all__ = [
    "ADD",
    "ARD",
    "ARDADD",
    "MCMC",
    "Bernoulli",
    "Beta",
    "Candidate",
    "ConvergenceWarning",
    "DivergenceError",
    "DropConnect",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HalfCauchy",
    "InputWarning",
    "InverseGamma",
    "InverseNakagami",
    "LogUniform",
    "Model",
    "NoiseTraining",
    "PathRule",
    "Posterior",
    "Predictive",
    "RangeWarning",
    "Rayleigh",
    "ResumeWarning",
    "Stacked",
    "Uniform",
    "UselessFitWarning",
    "VariationalEM",
    "bases",
    "data",
    "default_candidates",
    "fit",
    "fit_batches",
    "fit_many",
    "fit_stacked",
    "fit_stacked_many",
    "keep_programs",
    "likelihoods",
    "load",
    "metrics",
    "mixtures",
    "networks",
    "stochastic_depth",
]
