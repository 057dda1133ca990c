"""Bayesian compression on MNIST: the units that two networks need, and what they err by then."""

from scalemix.reproduce.compression.figures import draw
from scalemix.reproduce.compression.plans import PLANS, Course, Plan, Teaching
from scalemix.reproduce.compression.run import compress
from scalemix.reproduce.compression.tables import HEAD, results_table

__all__ = ["HEAD", "PLANS", "Course", "Plan", "Teaching", "compress", "draw", "results_table"]
