"""The paper's tables, figures and claims, made anew on data inside the package."""

from scalemix.reproduce.claims import CLAIMS, judge_claims, write_claims
from scalemix.reproduce.figures import FIGURES
from scalemix.reproduce.page import write_page
from scalemix.reproduce.plans import PLANS, Plan
from scalemix.reproduce.run import TARGETS, reproduce
from scalemix.reproduce.store import read_results

__all__ = [
    "CLAIMS",
    "FIGURES",
    "PLANS",
    "TARGETS",
    "Plan",
    "judge_claims",
    "read_results",
    "reproduce",
    "write_claims",
    "write_page",
]  # fmt: skip
