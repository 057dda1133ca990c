"""A network, the prior of its weights and the likelihood of its targets, together."""

from scalemix.model.model import Model

__all__ = ["Model"]
