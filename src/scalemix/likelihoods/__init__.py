"""Likelihoods: the distribution of a target given a network's output, one file each."""

from scalemix.likelihoods._base import Likelihood
from scalemix.likelihoods.bernoulli import Bernoulli
from scalemix.likelihoods.beta import Beta
from scalemix.likelihoods.categorical import Categorical
from scalemix.likelihoods.correlated import Correlated
from scalemix.likelihoods.gamma import Gamma
from scalemix.likelihoods.gaussian import Gaussian
from scalemix.likelihoods.independent import Independent
from scalemix.likelihoods.log_normal import LogNormal
from scalemix.likelihoods.negative_binomial import NegativeBinomial
from scalemix.likelihoods.poisson import Poisson
from scalemix.likelihoods.right_censored import RightCensored, censored_times
from scalemix.likelihoods.student_t import StudentT
from scalemix.likelihoods.targets import TARGETS, for_target, suggest_target
from scalemix.likelihoods.weibull import Weibull

__all__ = [
    "TARGETS",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Correlated",
    "Gamma",
    "Gaussian",
    "Independent",
    "Likelihood",
    "LogNormal",
    "NegativeBinomial",
    "Poisson",
    "RightCensored",
    "StudentT",
    "Weibull",
    "censored_times",
    "for_target",
    "suggest_target",
]
