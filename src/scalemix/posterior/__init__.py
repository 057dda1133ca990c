"""What a fit returns, and all that can be asked of it."""

from scalemix.posterior.posterior import History, Posterior

__all__ = ["History", "Posterior"]
