"""The paper's tables and figures, made anew on data inside the package."""

from scalemix.reproduce.claims import CLAIMS, verdicts, write_claims
from scalemix.reproduce.figures import FIGURES
from scalemix.reproduce.page import write_page
from scalemix.reproduce.plans import PLANS, Plan
from scalemix.reproduce.run import TARGETS, reproduce

__all__ = [
    "CLAIMS", "FIGURES", "PLANS", "TARGETS", "Plan", "reproduce", "verdicts", "write_claims",
    "write_page",
]  # fmt: skip
