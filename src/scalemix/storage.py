"""The public path of `scalemix.posterior.storage`."""

from scalemix.posterior.storage import *  # noqa: F403
from scalemix.posterior.storage import __all__ as __all__
