"""The public path of `scalemix.analysis.metrics`."""

from scalemix.analysis.metrics import *  # noqa: F403
from scalemix.analysis.metrics import __all__ as __all__
