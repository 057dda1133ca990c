"""Results as Markdown: the tables beside the published numbers, and the page about them."""

import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from scalemix._files import replacing
from scalemix.reproduce import ranks, verdicts
from scalemix.reproduce.figures import figure_words
from scalemix.reproduce.listing import listing, shortfalls
from scalemix.reproduce.plans import LARGE
from scalemix.reproduce.published import BASELINES, DROPOUT, PRINTED_LOWER_BOUND, Number
from scalemix.reproduce.scores import (
    MEASURES,
    TABLES,
    as_published,
    markdown,
    published,
    reaches,
    seconds_of,
    sets_of,
    summary,
    values,
)


def tables(content: dict[str, Any], level: str = "###") -> str:
    """The cells that there are, as Markdown tables with a row for each set.

    Beside them stand the columns that the paper takes from others. `level` is that of headings.
    """
    cells = content["cells"]
    lines: list[str] = []
    for table, (title, methods) in TABLES.items():
        sets = sets_of(cells, table)
        if not sets:
            continue
        for measure, label in MEASURES.items():
            others = {} if as_published(content) else _columns_of_others(table, measure)
            rows = [
                [name]
                + [_number(column.get(name)) for column in others.values()]
                + [_entry(content, f"{table}/{name}/{method}", measure) for method in methods]
                for name in sets
            ]
            lines += [f"{level} {title}. {label}", ""]
            lines += markdown(["set", *others, *methods], rows)
    return "\n".join([*lines, _legend(as_published(content))])


def _farthest_from_tuned() -> str:
    """The set on which the printed lower bound and tuned dropout differ most."""
    printed, tuned = PRINTED_LOWER_BOUND["rmse"], DROPOUT["rmse"]
    name = max(printed, key=lambda name: abs(np.log(printed[name][0] / tuned[name][0])))
    return f"{name}, with an RMSE of {printed[name][0]:g} as printed and {tuned[name][0]:g} tuned"


def _columns_of_others(table: str, measure: str) -> dict[str, dict[str, Number]]:
    """What the paper prints beside its own columns: all of them true RMSE, and likelihoods."""
    if table == "table1":
        column = PRINTED_LOWER_BOUND.get(measure)
        return {} if column is None else {"lower bound, as printed": column}
    return (
        {}
        if measure == "log_likelihood"
        else {f"{name}, as printed": c for name, c in BASELINES.items()}
    )


def _legend(in_the_papers_way: bool) -> str:
    if in_the_papers_way:
        return (
            "An entry is a mean ± its standard deviation over splits. After the slash stands the "
            "paper's number, with a tick if ours is no worse. lower_bound is compared with the "
            "column that the paper prints, of Gal and Ghahramani, and may be worse by two standard "
            "errors of both numbers together. The others may be worse by the paper's deviation "
            "over splits, once."
        )
    return (
        "An entry is a mean, with its standard error over splits in brackets. After the slash "
        "stands the published number, with its error where that is known, and a tick if ours is "
        "no worse. lower_bound is compared with the grid-searched MC dropout of 2018 (Mukhoti and "
        "others), and may be worse by two standard errors of both numbers together. The others are "
        "compared with the paper, and may be worse by its deviation over splits, once. Columns "
        '"as printed" are what the paper has from others. Table 1\'s lower bound there is the '
        "dropout of Gal and Ghahramani. It is farthest from the tuned dropout of 2018 on "
        f"{_farthest_from_tuned()}. All printed errors of others are true RMSE, also where they "
        "stand beside paper_rmse as in the paper."
    )


def _number(number: Number | None) -> str:
    if number is None:
        return ""
    return f"{number[0]:g}" + (f" ± {number[1]:g}" if number[1] else "")


def _entry(content: dict[str, Any], place: str, measure: str) -> str:
    cell, printed = content["cells"].get(place), as_published(content)
    _, name, method = place.split("/")
    if cell is None:
        return "not run"
    mean, error = summary(cell, measure)
    spread = f"± {values(cell, measure).std():.3f}" if printed else f"({error:.3f})"
    text = f"{mean:.3f} {spread}"
    wanted = published(method, measure, name, printed=printed)
    if wanted is None:
        return text
    tick = "✓" if reaches(cell, method, measure, name, printed=printed) else "✗"
    return f"{text} / {_number(wanted)} {tick}"


def about(content: dict[str, Any]) -> str:
    """What the results were made with."""
    plan = content["plan"]
    # Older files have the time of fits alone.
    of_what = "in all" if "seconds" in content else "of fitting"
    small, large = (
        f"{plan[f'steps{of}']:,} steps of batch {plan[f'batch_size{of}']}" for of in ("", "_large")
    )
    steps = small if small == large else f"{small}, and {large} for sets of over {LARGE:,} rows"
    return (
        f"Made by the plan `{plan['name']}`: {plan['num_splits']} splits; {steps}; "
        f"{content['hardware']}, JAX {content['jax']}, commit "
        f"`{content['commit'][:12]}`; {seconds_of(content) / 60:.0f} minutes {of_what}."
    )


def write_tables(content: dict[str, Any], path: Path) -> None:
    """Write the tables to a Markdown file."""
    _write(path, f"# Reproduction\n\n{about(content)}\n\n{tables(content)}\n")


def published_way(content: dict[str, Any] | None) -> str:
    """The section on results in the paper's way, where there are such."""
    if content is None:
        return "This has not been run yet. `scalemix reproduce all --as-published` runs it."
    claims = "\n".join([*verdicts.in_short(content), *ranks.in_short(content)])
    parts = about(content), tables(content, "####"), claims, shortfalls(content)
    return "\n\n".join(part for part in parts if part)


def write_page(
    content: dict[str, Any],
    path: Path,
    figures: Path,
    in_the_papers_way: dict[str, Any] | None = None,
) -> None:
    """Write the page that says what was reproduced and where we differ, numbers included.

    `figures` is the folder of the figures, which the page shows from where it lies;
    `in_the_papers_way` are results of the plan `as_published`, which have a section of their own.
    """
    text = resources.files("scalemix.reproduce").joinpath("page.md").read_text("utf-8")
    for name, value in (
        ("first_paragraph", ranks.first_paragraph(content)),
        ("about", about(content)),
        ("tables", tables(content)),
        ("ranks", ranks.ranks_section(content)),
        ("verdicts", verdicts.verdicts(content)),
        ("shortfalls", shortfalls(content)),
        ("listing", listing(content)),
        ("as_published", published_way(in_the_papers_way)),
        ("figures", os.path.relpath(figures, path.parent)),
        *figure_words(content).items(),
    ):
        text = text.replace("{" + name + "}", value)
    _write(path, text)


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
