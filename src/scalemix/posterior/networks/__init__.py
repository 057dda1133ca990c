"""Distributions over networks: what is still uncertain after a fit. One file a distribution."""

from scalemix.posterior.networks._base import (
    AnyNetworks,
    Beside,
    Drawn,
    Networks,
    WeightMoments,
)
from scalemix.posterior.networks.ensemble import Ensemble
from scalemix.posterior.networks.gaussian import GaussianNetworks
from scalemix.posterior.networks.noisy import NoisyNetworks
from scalemix.posterior.networks.one import OneNetwork
from scalemix.posterior.networks.sampled import SampledNetworks, spread_order

__all__ = [
    "AnyNetworks",
    "Beside",
    "Drawn",
    "Ensemble",
    "GaussianNetworks",
    "Networks",
    "NoisyNetworks",
    "OneNetwork",
    "SampledNetworks",
    "WeightMoments",
    "spread_order",
]
