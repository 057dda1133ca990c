"""What the paper says about its Table 1, and whether our results say so too."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scalemix.reproduce.published import PAPER, PRINTED_LOWER_BOUND, SETS, Number
from scalemix.reproduce.scores import (
    BY_BATCH,
    CLEAR,
    HIGHER_IS_BETTER,
    LOWER_BOUND,
    MEASURES,
    TAIL_ADAPTIVE,
    WAYS,
    markdown,
    sets_of,
    standard_error,
    summary,
    values,
)

# The paper's Table 1 has true RMSE for the lower bound, and paper_rmse for the two others.
MIXED = "mixed"
COLUMNS = MEASURES | {MIXED: "mixed as in the paper"}


def measure_of(method: str, measure: str) -> str:
    """The measure of one method, where those of the paper's table may be mixed."""
    if measure != MIXED:
        return measure
    return "rmse" if method == LOWER_BOUND else "paper_rmse"


class Lead(NamedTuple):
    """By how much a method is better than its strongest rival; below zero, by how much worse."""

    mean: float
    error: float
    clear: bool
    """Whether it is clearly better than each of its rivals."""


def lead(
    cells: dict[str, Any], name: str, method: str, rivals: Sequence[str], measure: str
) -> Lead:
    """The lead of a method of Table 1 on one set, by paired differences over splits."""
    sign = 1 if measure in HIGHER_IS_BETTER else -1

    def of(one: str) -> np.ndarray:
        return values(cells[f"table1/{name}/{one}"], measure_of(one, measure))

    differences = [sign * (of(method) - of(rival)) for rival in rivals]
    least = min(differences, key=np.mean)
    clear = all(np.mean(one) > CLEAR * standard_error(one) for one in differences)
    return Lead(float(np.mean(least)), standard_error(least), clear)


class Claim(NamedTuple):
    """A method that the paper finds best of three objectives on most sets, in some measure."""

    method: str
    measures: tuple[str, ...]
    """Ours that it can be put in: first that of the paper's numbers."""
    words: str
    remark: str = ""


CLAIMS = (
    Claim(
        TAIL_ADAPTIVE,
        (MIXED, "paper_rmse", "rmse"),
        "Tail-adaptive weights give the best RMSE",
        " There the lower bound has true RMSE, and the two others have paper_rmse.",
    ),
    Claim(
        "importance_weighted", ("log_likelihood",), "Importance weights give the best likelihood"
    ),
)


def _columns(measure: str) -> dict[str, dict[str, Number]]:
    """The three columns of the paper's Table 1."""
    own = {
        method: PAPER[method][measure_of(method, measure)]
        for method in ("importance_weighted", TAIL_ADAPTIVE)
    }
    return {LOWER_BOUND: PRINTED_LOWER_BOUND[measure_of(LOWER_BOUND, measure)]} | own


def count_in_the_paper(claim: Claim) -> int:
    """On how many sets the paper's own Table 1 has this method as the best."""
    sign = 1 if claim.measures[0] in HIGHER_IS_BETTER else -1
    columns = _columns(claim.measures[0])
    best = [max(columns, key=lambda method: sign * columns[method][name][0]) for name in SETS]
    return best.count(claim.method)


def verdicts(content: dict[str, Any]) -> str:
    """The paper's claims about Table 1, counted over our cells, with paired differences."""
    cells = content["cells"]
    names = _complete(cells)
    if not names:
        return "No set has all methods of Table 1 yet, so that nothing can be said of its claims."
    lines: list[str] = []
    for claim in CLAIMS:
        lines += _verdict(cells, names, claim)
    lines += [
        "The first table of a claim counts the sets on which the method is best, and those on "
        "which it is clearly best: better than each of the two others by more than two standard "
        "errors of the paired difference over splits. The second has the mean paired difference "
        "to the stronger of the two others, with its standard error; it is positive where the "
        "method is better.",
        "",
        *_about_power(cells, names),
    ]
    return "\n".join(lines).rstrip()


def in_short(content: dict[str, Any]) -> list[str]:
    """A line for each of the claims, without the tables."""
    cells = content["cells"]
    names = _complete(cells)
    return [f"- {one.words}. {_said(cells, names, one)}" for one in CLAIMS] if names else []


def _complete(cells: dict[str, Any]) -> list[str]:
    """The sets that have all methods of Table 1."""
    return [
        name
        for name in sets_of(cells, "table1")
        if all(f"table1/{name}/{m}" in cells for m in (LOWER_BOUND, *WAYS, TAIL_ADAPTIVE))
    ]


def _trio(claim: Claim, way: str) -> tuple[str, list[str]]:
    """The column that a claim is about, and its rivals, with importance weights of this way."""
    method = way if claim.method == "importance_weighted" else claim.method
    return method, [other for other in (LOWER_BOUND, way, TAIL_ADAPTIVE) if other != method]


def _leads(
    cells: dict[str, Any], names: Sequence[str], claim: Claim, way: str, measure: str
) -> list[Lead]:
    return [lead(cells, name, *_trio(claim, way), measure) for name in names]


def _count(leads: Sequence[Lead]) -> tuple[int, int]:
    return sum(one.mean > 0 for one in leads), sum(one.clear for one in leads)


def _said(cells: dict[str, Any], names: Sequence[str], claim: Claim) -> str:
    """The count of the paper and ours, in a sentence."""
    paper, num = count_in_the_paper(claim), len(names)
    said, holds = [], {}
    for measure in claim.measures:
        best, clear = _count(_leads(cells, names, claim, BY_BATCH, measure))
        # As often as in the paper, should there be fewer sets.
        holds[measure] = best * len(SETS) >= paper * num
        by = COLUMNS[measure] if measure == MIXED else f"by {COLUMNS[measure]}"
        verdict = "it holds" if holds[measure] else "it does not hold"
        said.append(f"{by} on {best} of {num}, and clearly on {clear}: **{verdict}**")
    words = f"The paper: on {paper} of {len(SETS)} sets.{claim.remark} With us, {'; '.join(said)}."
    if holds.pop(MIXED, False) and not any(holds.values()):
        words += " So it holds only where two measures are compared with each other."
    return words


def _verdict(cells: dict[str, Any], names: Sequence[str], claim: Claim) -> list[str]:
    num, rows = len(names), []
    for way, words in WAYS.items():
        counts = [_count(_leads(cells, names, claim, way, measure)) for measure in COLUMNS]
        rows.append([words, *(f"{a} of {num}, {b} clearly" for a, b in counts)])
    by_set = [
        [name]
        + [
            f"{one.mean:+.3f} ({one.error:.3f})"
            for measure in COLUMNS
            for one in _leads(cells, [name], claim, BY_BATCH, measure)
        ]
        for name in names
    ]
    method = _trio(claim, BY_BATCH)[0]
    return [
        f"#### {claim.words}",
        "",
        _said(cells, names, claim),
        "",
        *markdown([f"{claim.method} is best, with", *COLUMNS.values()], rows),
        *markdown([f"lead of {method}", *COLUMNS.values()], by_set),
    ]


def _about_power(cells: dict[str, Any], names: Sequence[str]) -> list[str]:
    """The paper's remark that tail-adaptive weights do worst on power."""
    if "power" not in names:
        return []
    printed = [_places(_columns(measure), measure) for measure in (MIXED, "log_likelihood")]
    ours = []
    for measure, label in COLUMNS.items():
        means = {
            method: {"power": summary(cells[f"table1/power/{method}"], measure_of(method, measure))}
            for method in (LOWER_BOUND, BY_BATCH, TAIL_ADAPTIVE)
        }
        place = _places(means, measure)
        holds = "it holds" if place == len(means) else "it does not hold"
        measured = f"RMSE {label}" if measure == MIXED else label
        ours.append(f"place {place} in {measured} (**{holds}**)")
    return [
        "#### Tail-adaptive weights do worst on power",
        "",
        f"The paper says so of its largest set. Of the three objectives they have place "
        f"{printed[0]} in RMSE there and place {printed[1]} in log-likelihood, by its own table. "
        f"With us they have {', '.join(ours)}.",
        "",
    ]


def _places(columns: dict[str, dict[str, Number]], measure: str) -> int:
    """The place of tail-adaptive weights on power; the best has place one."""
    sign = 1 if measure in HIGHER_IS_BETTER else -1
    mine = sign * columns[TAIL_ADAPTIVE]["power"][0]
    return 1 + sum(sign * column["power"][0] > mine for column in columns.values())
