"""The public path of `scalemix.analysis.plots`."""

from scalemix.analysis.plots import *  # noqa: F403
from scalemix.analysis.plots import __all__ as __all__
