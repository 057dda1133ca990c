"""All public names. `scalemix/__init__.py` looks here when one is first asked for."""

from scalemix import data, likelihoods, metrics, mixtures, networks
from scalemix.fitting import fit, fit_many
from scalemix.inference import MCMC, NoiseTraining, VariationalEM
from scalemix.inference.engine import DivergenceError
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
from scalemix.model import Model
from scalemix.posterior import Posterior
from scalemix.predictive import Predictive
from scalemix.stacking import default_candidates, fit_stacked, fit_stacked_many
from scalemix.storage import load
from scalemix.structures import ADD, ARD, ARDADD, DropConnect

__all__ = [
    "ADD",
    "ARD",
    "ARDADD",
    "MCMC",
    "Bernoulli",
    "Beta",
    "DivergenceError",
    "DropConnect",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HalfCauchy",
    "InverseGamma",
    "InverseNakagami",
    "LogUniform",
    "Model",
    "NoiseTraining",
    "Posterior",
    "Predictive",
    "Rayleigh",
    "Uniform",
    "VariationalEM",
    "data",
    "default_candidates",
    "fit",
    "fit_many",
    "fit_stacked",
    "fit_stacked_many",
    "likelihoods",
    "load",
    "metrics",
    "mixtures",
    "networks",
]
