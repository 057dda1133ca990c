"""Bayesian compression on MNIST: the units that two networks need, and what they err by then."""

from scalemix.reproduce.compression.plans import PLANS, Plan
from scalemix.reproduce.compression.run import compress

__all__ = ["PLANS", "Plan", "compress"]
