"""The front door of inference: one fit, many at once, and ensembles whose settings data choose."""

from scalemix.fitting.front_door import fit, fit_many

__all__ = ["fit", "fit_many"]
