"""The page of claims, made of measured numbers."""

import os
from pathlib import Path
from typing import Any

from scalemix._files import replacing
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.reproduce.claims.collection import CLAIMS, numbers_of

INTRODUCTION = """# The paper's claims, tried out

This page is generated from a file of results (`scalemix reproduce claims`, then `write_claims`). No
number and no tick on it is typed by hand.

Each section is one claim of Nalisnick, Hernández-Lobato and Smyth, *Dropout as a Structured
Shrinkage Prior*, ICML 2019: what it says, in our words, what we compute, and whether each part of
it holds there. A tick or a cross is about the sentence that follows it; further sentences say what
was found. The experiments are small: a cross says that a claim does not hold as stated in an
experiment that can be run again, and not that it never does. The tables and figures of the paper
are on [another page](reproduction.md).
"""


def judge_claims(content: dict[str, Any]) -> dict[str, list[Verdict]]:
    """The verdicts on every claim that was measured."""
    return {name: CLAIMS[name].judge(numbers_of(content, name)) for name in content["claims"]}


def write_claims(content: dict[str, Any], path: Path, figures: Path) -> None:
    """Write the page about measured claims.

    `figures` is the folder of the figures, which the page shows from where it lies.
    """
    judged = judge_claims(content)
    parts = [verdict for of_claim in judged.values() for verdict in of_claim]
    lines = [INTRODUCTION]
    lines.append(
        f"{sum(v.holds for v in parts)} of {len(parts)} parts hold. {content['hardware']}, JAX "
        f"{content['jax']}, commit `{content['commit'][:12]}`.\n"
    )
    lines += ["| claim | of the paper | parts |", "|---|---|---|"]
    for name, of_claim in judged.items():
        claim = CLAIMS[name]
        marks = " ".join(_mark(verdict) for verdict in of_claim)
        lines.append(f"| [{claim.title}](#{name}) | {claim.source} | {marks} |")
    folder = os.path.relpath(figures, path.parent)
    for name, of_claim in judged.items():
        lines.append(_section(CLAIMS[name], numbers_of(content, name), of_claim, folder))
    with replacing(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def _mark(verdict: Verdict) -> str:
    return "✓" if verdict.holds else "✗"


def _section(claim: Claim, numbers: Numbers, judged: list[Verdict], figures: str) -> str:
    parts = [
        f"\n## {claim.title} {{ #{claim.name} }}",
        f"**The paper** ({claim.source}). {claim.statement}",
        f"**Here.** {claim.method}",
        "\n".join(f"- {_mark(verdict)} {verdict.words}" for verdict in judged),
    ]
    if claim.show is not None:
        parts.append(claim.show(numbers))
    if claim.draw is not None:
        parts.append(f"![{claim.title}]({figures}/claim_{claim.name}.png)")
    return "\n\n".join(parts)
