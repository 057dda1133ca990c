"""The public path of `scalemix.fitting.recipes`."""

from scalemix.fitting.recipes import *  # noqa: F403
from scalemix.fitting.recipes import __all__ as __all__
