"""What a fit returns, and all that can be asked of it."""

from scalemix.posterior.history import History
from scalemix.posterior.posterior import Posterior

__all__ = ["History", "Posterior"]
