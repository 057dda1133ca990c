"""Claims of the paper that have no table or figure, one small experiment each."""

from scalemix.reproduce.claims.claim import Claim, Verdict
from scalemix.reproduce.claims.collection import CLAIMS, run_claims
from scalemix.reproduce.claims.page import judge_claims, write_claims

__all__ = ["CLAIMS", "Claim", "Verdict", "judge_claims", "run_claims", "write_claims"]
