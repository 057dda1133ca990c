"""Likelihoods: the distribution of a target given a network's output, one file each."""

from scalemix.likelihoods._base import Likelihood
from scalemix.likelihoods.bernoulli import Bernoulli
from scalemix.likelihoods.categorical import Categorical
from scalemix.likelihoods.gaussian import Gaussian
from scalemix.likelihoods.independent import Independent
from scalemix.likelihoods.poisson import Poisson
from scalemix.likelihoods.student_t import StudentT

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Independent",
    "Likelihood",
    "Poisson",
    "StudentT",
]
