"""The public path of `scalemix.posterior.relevance`."""

from scalemix.posterior.relevance import *  # noqa: F403
from scalemix.posterior.relevance import __all__ as __all__
