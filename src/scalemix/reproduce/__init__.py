"""The paper's tables and figures, made anew on data inside the package."""

from scalemix.reproduce.figures import FIGURES
from scalemix.reproduce.page import write_page
from scalemix.reproduce.plans import PLANS, Plan
from scalemix.reproduce.run import TARGETS, reproduce
from scalemix.reproduce.store import read_results

__all__ = ["FIGURES", "PLANS", "TARGETS", "Plan", "read_results", "reproduce", "write_page"]
