"""Scale mixtures: one file for each family, with its noise, variance and marginal views."""

from scalemix.mixtures._base import ScaleMixture
from scalemix.mixtures.bernoulli import Bernoulli
from scalemix.mixtures.beta import Beta
from scalemix.mixtures.gamma import Exponential, Gamma, Rayleigh
from scalemix.mixtures.gaussian import Gaussian
from scalemix.mixtures.half_cauchy import HalfCauchy
from scalemix.mixtures.inverse_gamma import InverseGamma, InverseNakagami
from scalemix.mixtures.uniform import LogUniform, Uniform

__all__ = [
    "Bernoulli",
    "Beta",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HalfCauchy",
    "InverseGamma",
    "InverseNakagami",
    "LogUniform",
    "Rayleigh",
    "ScaleMixture",
    "Uniform",
]
