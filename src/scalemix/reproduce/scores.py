"""What the cells of a results file say, and whether they reach what was published."""

from typing import Any

import numpy as np

from scalemix.reproduce.published import DROPOUT, PAPER, PRINTED_LOWER_BOUND, Number

MEASURES = {"rmse": "RMSE", "paper_rmse": "paper_rmse", "log_likelihood": "log-likelihood"}
HIGHER_IS_BETTER = {"log_likelihood"}
# Differences of more than so many standard errors are clear.
CLEAR = 2.0
LOWER_BOUND, TAIL_ADAPTIVE = "lower_bound", "tail_adaptive"
BY_BATCH, BY_EXAMPLE = "importance_weighted_by_batch", "importance_weighted_by_example"
GIVEN_ROWS = "importance_weighted_given_rows"
# Three ways of the paper's one column: the first is that which is counted.
WAYS = {
    BY_BATCH: "importance weights by batch",
    GIVEN_ROWS: "importance weights by batch and noise given the rows of training",
    BY_EXAMPLE: "importance weights by example",
}
# A title, and the methods as columns.
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "table1": (
        "Table 1: one hidden layer of 50, Bernoulli noise, three objectives",
        (LOWER_BOUND, *WAYS, TAIL_ADAPTIVE),
    ),
    "table2": (
        "Table 2: residual network of 2 x 50, variational EM, three structures",
        ("ARD", "ADD", "ARD-ADD"),
    ),
}


def values(cell: dict[str, Any], measure: str) -> np.ndarray:
    """One value for each split."""
    return np.array([row[measure] for row in cell["splits"]])


def standard_error(over_splits: np.ndarray) -> float:
    """The standard error of a mean over splits."""
    return float(over_splits.std(ddof=1) / np.sqrt(len(over_splits)))


def summary(cell: dict[str, Any], measure: str) -> tuple[float, float]:
    """Mean and standard error over splits."""
    over_splits = values(cell, measure)
    return float(over_splits.mean()), standard_error(over_splits)


def seconds_of(content: dict[str, Any]) -> float:
    """How long it took to make the results, which may have been made several at a time.

    Older files do not say. Their cells were made one after another.
    """
    return content.get("seconds", sum(cell["fit_seconds"] for cell in content["cells"].values()))


def as_published(content: dict[str, Any]) -> bool:
    """Whether results were made in the way of the paper, or in ours."""
    return content.get("plan", {}).get("name") == "as_published"


def published(method: str, measure: str, name: str, *, printed: bool = False) -> Number | None:
    """The number to compare with, if there is one.

    For the lower bound that is tuned dropout of the literature; with `printed`, what the paper has.
    """
    source: dict[str, dict[str, Number]]
    if method == LOWER_BOUND:
        source = PRINTED_LOWER_BOUND if printed else DROPOUT
    else:
        source = PAPER.get("importance_weighted" if method in WAYS else method, {})
    return source.get(measure, {}).get(name)


def reaches(
    cell: dict[str, Any], method: str, measure: str, name: str, *, printed: bool = False
) -> bool | None:
    """Whether a cell is at the published number, within its error, or better.

    The paper's errors are deviations over splits, taken once; the literature's are standard errors,
    of which two are allowed. Where no error is known it is that of the cell.
    """
    wanted = published(method, measure, name, printed=printed)
    if wanted is None:
        return None
    mean, error = summary(cell, measure)
    allowed = 2 * np.hypot(wanted[1], error) if method == LOWER_BOUND else wanted[1]
    worse = wanted[0] - mean if measure in HIGHER_IS_BETTER else mean - wanted[0]
    # Published numbers are rounded: half a unit of their last place is no difference.
    rounding = 0.005 if method == LOWER_BOUND else 0.0005
    return bool(worse <= allowed + rounding)


def sets_of(cells: dict[str, Any], table: str) -> list[str]:
    """The sets of which a table has a cell."""
    parts = [cell.split("/") for cell in cells]
    return list(dict.fromkeys(name for of_table, name, _ in parts if of_table == table))


def markdown(heads: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a Markdown table, and an empty one after it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]
