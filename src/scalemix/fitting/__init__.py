"""The front door of inference: one fit, many at once, and ensembles whose settings data choose."""

from scalemix.fitting.candidates import Candidate, default_candidates
from scalemix.fitting.front_door import fit, fit_many
from scalemix.fitting.stacking import Stacked, fit_stacked, fit_stacked_many
from scalemix.inference.training.findings import UselessFitWarning

__all__ = [
    "Candidate",
    "Stacked",
    "UselessFitWarning",
    "default_candidates",
    "fit",
    "fit_many",
    "fit_stacked",
    "fit_stacked_many",
]
