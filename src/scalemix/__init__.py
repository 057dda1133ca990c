"""scalemix: say what you believe about a network's weights once, then choose how to infer them."""

from scalemix import likelihoods, mixtures, networks
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
from scalemix.structures import ADD, ARD, ARDADD, DropConnect

__all__ = [
    "ADD",
    "ARD",
    "ARDADD",
    "Bernoulli",
    "Beta",
    "DropConnect",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HalfCauchy",
    "InverseGamma",
    "InverseNakagami",
    "LogUniform",
    "Model",
    "Rayleigh",
    "Uniform",
    "likelihoods",
    "mixtures",
    "networks",
]
