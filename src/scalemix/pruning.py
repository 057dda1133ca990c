"""The public path of `scalemix.posterior.pruning`."""

from scalemix.posterior.pruning import *  # noqa: F403
from scalemix.posterior.pruning import __all__ as __all__
