"""Whether Markov chains have arrived, and how much samples, or draws of noise, are worth.

The weights of a network are not identified: units can be swapped and signs turned without changing
the function, so that chains which agree about every prediction may disagree about every weight.
What counts is the function. The weights are shown because they count as well in linear models, and
for scales.
"""

from scalemix.posterior.diagnostics.convergence import Convergence
from scalemix.posterior.diagnostics.diagnose import Diagnostics, diagnose
from scalemix.posterior.diagnostics.export import to_arviz
from scalemix.posterior.diagnostics.importance import ParetoK, find_pareto_k
from scalemix.posterior.diagnostics.samples import inclusion_probabilities
from scalemix.posterior.diagnostics.warn import (
    ConvergenceWarning,
    warn_if_chains_disagree,
    warn_if_diverged,
)

__all__ = [
    "Convergence",
    "ConvergenceWarning",
    "Diagnostics",
    "ParetoK",
    "diagnose",
    "find_pareto_k",
    "inclusion_probabilities",
    "to_arviz",
    "warn_if_chains_disagree",
    "warn_if_diverged",
]
