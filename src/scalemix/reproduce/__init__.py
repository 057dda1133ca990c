"""The paper's tables and figures, made anew on data inside the package."""

from scalemix.reproduce.figures import FIGURES
from scalemix.reproduce.page import write_page
from scalemix.reproduce.plans import PLANS, Plan
from scalemix.reproduce.run import TARGETS, reproduce

__all__ = ["FIGURES", "PLANS", "TARGETS", "Plan", "reproduce", "write_page"]
