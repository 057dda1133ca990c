"""All claims, and the run that decides them."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scalemix._files import replacing
from scalemix.reproduce.claims.claim import Claim, Numbers
from scalemix.reproduce.claims.contraction import CONTRACTION
from scalemix.reproduce.claims.depth import DEPTH
from scalemix.reproduce.claims.diffuse import DIFFUSE
from scalemix.reproduce.claims.equivalence import EQUIVALENCE
from scalemix.reproduce.claims.gap import GAP
from scalemix.reproduce.claims.importance import IMPORTANCE
from scalemix.reproduce.claims.improper import IMPROPER
from scalemix.reproduce.claims.inclusion import INCLUSION
from scalemix.reproduce.claims.priors import PRIORS
from scalemix.reproduce.claims.ranks import RANKS
from scalemix.reproduce.claims.selection import SELECTION
from scalemix.reproduce.claims.width import WIDTH
from scalemix.reproduce.claims.zeros import ZEROS
from scalemix.reproduce.figures.drawing import save
from scalemix.reproduce.store import surroundings

# In the order of the paper.
CLAIMS: dict[str, Claim] = {
    claim.name: claim
    for claim in (
        EQUIVALENCE, DIFFUSE, PRIORS, INCLUSION, SELECTION, DEPTH, GAP, IMPORTANCE, RANKS, WIDTH,
        ZEROS, CONTRACTION, IMPROPER,
    )
}  # fmt: skip


def run_claims(
    folder: Path, effort: float = 1.0, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Measure every claim, and write claims.json and the figures to the folder.

    An effort of one is the full size; less is for a look at whether everything runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    measured = {}
    for name, claim in CLAIMS.items():
        say(f"claim: {name}")
        measured[name] = claim.measure(effort)
        if claim.draw is not None:
            save(claim.draw(measured[name]), folder, f"claim_{name}")
    content = {"effort": effort, **surroundings(), "claims": _as_json(measured)}
    with replacing(folder / "claims.json") as file:
        file.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    return content


def numbers_of(content: dict[str, Any], name: str) -> Numbers:
    """What was measured for a claim, out of the content of a claims.json."""
    return _mapped(content["claims"][name], lambda v: math.inf if v == "inf" else v)


def _as_json(value: Any) -> Any:
    """JSON has no infinity."""
    return _mapped(value, lambda v: "inf" if isinstance(v, float) and math.isinf(v) else v)


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _mapped(of, function) for name, of in value.items()}
    if isinstance(value, list):
        return [_mapped(of, function) for of in value]
    return function(value)
