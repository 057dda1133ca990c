"""Results as Markdown: the tables beside the published numbers, and the page about them."""

import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from scalemix._files import replacing
from scalemix.reproduce.figures import figure_words
from scalemix.reproduce.published import DROPOUT, PAPER

MEASURES = {"rmse": "RMSE", "paper_rmse": "paper_rmse", "log_likelihood": "log-likelihood"}
HIGHER_IS_BETTER = {"log_likelihood"}
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
        ("lower_bound", *WAYS, "tail_adaptive"),
    ),
    "table2": (
        "Table 2: residual network of 2 x 50, variational EM, three structures",
        ("ARD", "ADD", "ARD-ADD"),
    ),
}


def summary(cell: dict[str, Any], measure: str) -> tuple[float, float]:
    """Mean and standard error over splits."""
    values = np.array([row[measure] for row in cell["splits"]])
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def published(method: str, measure: str, name: str) -> tuple[float, float] | None:
    """The number to compare with, if there is one: for dropout that of the literature."""
    paper = PAPER.get("importance_weighted" if method in WAYS else method, {})
    source = DROPOUT if method == "lower_bound" else paper
    return source.get(measure, {}).get(name)


def reaches(cell: dict[str, Any], method: str, measure: str, name: str) -> bool | None:
    """Whether a cell is at the published number, within its error, or better.

    The paper's errors are deviations over splits, taken once; the literature's are standard errors,
    of which two are allowed. Where no error is known it is that of the cell.
    """
    wanted = published(method, measure, name)
    if wanted is None:
        return None
    mean, error = summary(cell, measure)
    allowed = 2 * np.hypot(wanted[1], error) if method == "lower_bound" else wanted[1]
    worse = wanted[0] - mean if measure in HIGHER_IS_BETTER else mean - wanted[0]
    # Published numbers are rounded: half a unit of their last place is no difference.
    rounding = 0.005 if method == "lower_bound" else 0.0005
    return bool(worse <= allowed + rounding)


def tables(content: dict[str, Any]) -> str:
    """The cells that there are, as Markdown tables with a row for each set."""
    cells = content["cells"]
    lines: list[str] = []
    for table, (title, methods) in TABLES.items():
        sets = _sets(cells, table)
        if not sets:
            continue
        for measure, label in MEASURES.items():
            lines += [f"### {title}. {label}", ""]
            lines.append("| set | " + " | ".join(methods) + " |")
            lines.append("|---" * (len(methods) + 1) + "|")
            for name in sets:
                row = [
                    _entry(cells.get(f"{table}/{name}/{method}"), method, measure, name)
                    for method in methods
                ]
                lines.append(f"| {name} | " + " | ".join(row) + " |")
            lines.append("")
    lines.append(
        "Mean (standard error over splits); after the slash the published number, where its error "
        "is known with that, and a tick if it is reached. lower_bound is compared with "
        "grid-searched MC dropout, and may be worse by two standard errors, of both numbers "
        "together; the others with the paper, and may be worse by its deviation over splits, once."
    )
    return "\n".join(lines)


def _entry(cell: dict[str, Any] | None, method: str, measure: str, name: str) -> str:
    if cell is None:
        return "not run"
    mean, error = summary(cell, measure)
    wanted = published(method, measure, name)
    text = f"{mean:.3f} ({error:.3f})"
    if wanted is None:
        return text
    tick = "✓" if reaches(cell, method, measure, name) else "✗"
    spread = f" ± {wanted[1]:g}" if wanted[1] else ""
    return f"{text} / {wanted[0]:g}{spread} {tick}"


def about(content: dict[str, Any]) -> str:
    """What the results were made with."""
    plan = content["plan"]
    seconds = sum(cell["fit_seconds"] for cell in content["cells"].values())
    return (
        f"Made by the plan `{plan['name']}`: {plan['num_splits']} splits; {plan['steps']:,} steps "
        f"of batch {plan['batch_size']}, {plan['steps_large']:,} of {plan['batch_size_large']} for "
        f"sets of over 5,000 rows; {content['hardware']}, JAX {content['jax']}, commit "
        f"`{content['commit'][:12]}`; {seconds / 60:.0f} minutes of fitting."
    )


def write_tables(content: dict[str, Any], path: Path) -> None:
    """Write the tables to a Markdown file."""
    _write(path, f"# Reproduction\n\n{about(content)}\n\n{tables(content)}\n")


def shortfalls(content: dict[str, Any]) -> str:
    """How often the published numbers are reached, every one that is not, and what is not run."""
    lines = []
    for way, words in WAYS.items():
        reached, missed, absent = _compared(content["cells"], way)
        num = reached + len(missed)
        if way == BY_BATCH:
            lines.append(f"{reached} of {num} published numbers are reached.")
            lines += ["Not reached:", "", *missed] if missed else []
            lines += [""] * bool(absent)
            lines += [f"Not run yet: {method} on {', '.join(on)}." for method, on in absent.items()]
        elif not absent and any(name.endswith(f"/{way}") for name in content["cells"]):
            mine = [line for line in missed if line.startswith(f"- {way},")]
            lines += ["", f"With {words} in that column it is {reached} of {num}."]
            lines += ["Not reached there:", "", *mine] if mine else []
    return "\n".join(lines)


def _compared(cells: dict[str, Any], way: str) -> tuple[int, list[str], dict[str, list[str]]]:
    """How many published numbers are reached if importance weights go this way, a line for each
    one that is not, and the sets on which a method is missing.
    """
    reached, missed, absent = 0, [], {}
    for table, (_, methods) in TABLES.items():
        for method in methods:
            if method in WAYS and method != way:
                continue
            for name in _sets(cells, table):
                cell = cells.get(f"{table}/{name}/{method}")
                if cell is None:
                    absent.setdefault(method, []).append(name)
                    continue
                for measure, label in MEASURES.items():
                    wanted = published(method, measure, name)
                    if wanted is None:
                        continue
                    if reaches(cell, method, measure, name):
                        reached += 1
                        continue
                    mean, error = summary(cell, measure)
                    missed.append(
                        f"- {method}, {name}: {label} {mean:.3f} ({error:.3f}), published "
                        f"{wanted[0]:g}"
                    )
    return reached, missed, absent


def _sets(cells: dict[str, Any], table: str) -> list[str]:
    """The sets of which a table has a cell."""
    parts = [cell.split("/") for cell in cells]
    return list(dict.fromkeys(name for of_table, name, _ in parts if of_table == table))


def write_page(content: dict[str, Any], path: Path, figures: Path) -> None:
    """Write the page that says what was reproduced and where we differ, numbers included.

    `figures` is the folder of the figures, which the page shows from where it lies.
    """
    text = resources.files("scalemix.reproduce").joinpath("page.md").read_text("utf-8")
    for name, value in (
        ("about", about(content)),
        ("tables", tables(content)),
        ("shortfalls", shortfalls(content)),
        ("figures", os.path.relpath(figures, path.parent)),
        *figure_words(content).items(),
    ):
        text = text.replace("{" + name + "}", value)
    _write(path, text)


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
