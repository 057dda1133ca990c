"""What the prior switched off, removed for good. `Posterior.prune` is the way in."""

from scalemix.posterior.pruning.prune import Pruned, prune
from scalemix.posterior.pruning.report import Report

__all__ = ["Pruned", "Report", "prune"]
