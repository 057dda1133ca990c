"""Runs what is asked for, cell by cell, and leaves out what is there already."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scalemix import data
from scalemix.data import Dataset
from scalemix.reproduce.cells import TABLES, measure
from scalemix.reproduce.claims import run_claims
from scalemix.reproduce.dropout import Split
from scalemix.reproduce.figures import FIGURES
from scalemix.reproduce.page import write_tables
from scalemix.reproduce.plans import Plan
from scalemix.reproduce.published import SETS
from scalemix.reproduce.store import Store

TARGETS = (*TABLES, *FIGURES, "all", "claims")
# Steps from which on claims are tried in full.
CLAIM_STEPS = 5000


def reproduce(
    target: str,
    plan: Plan,
    folder: str | Path,
    *,
    sets: Sequence[str] = SETS,
    data_dir: str | Path | None = None,
    say: Callable[[str], None] = print,
    progress: bool | None = None,
) -> dict[str, Any]:
    """The results, after making what `target` names and is not in the folder yet.

    `folder` gets results.json, results.md and the figures. "claims" are no part of "all": they need
    neither sets nor a GPU, and give claims.json with figures of their own. `data_dir` is a folder
    of sets in the public layout, for names that the package does not hold.
    """
    if target not in TARGETS:
        raise ValueError(f"There is no {target!r} to reproduce. There are: {', '.join(TARGETS)}.")
    folder = Path(folder)
    if target == "claims":
        return run_claims(folder, min(1.0, plan.steps / CLAIM_STEPS), say)
    loaded = {name: _load(name, data_dir) for name in sets}
    store = Store(folder, plan)
    for table, groups in TABLES.items():
        if target not in (table, "all"):
            continue
        for name in sets:
            for methods in groups:
                cells = {method: f"{table}/{name}/{method}" for method in methods}
                if all(store.holds(cell) for cell in cells.values()):
                    continue
                say(f"{table}, {name}, {', '.join(methods)}: {plan.num_splits} splits")
                measured = measure(methods, *loaded[name], plan, progress)
                store.put({cells[method]: cell for method, cell in measured.items()})
    for name, figure in FIGURES.items():
        if target in (name, "all"):
            say(name)
            folder.mkdir(parents=True, exist_ok=True)
            store.put_figure(name, figure.draw(folder, plan, progress))
    if store.content["cells"]:
        write_tables(store.content, folder / "results.md")
    return store.content


def _load(name: str, data_dir: str | Path | None) -> tuple[Dataset, Sequence[Split]]:
    if name in data.NAMES:
        dataset = data.load(name)
        return dataset, data.splits(len(dataset.y))
    if data_dir is None:
        raise ValueError(
            f"There is no data set {name!r} in the package (there are: {', '.join(data.NAMES)}). "
            f"For one of your own give the folder that holds it as data_dir."
        )
    return data.read_public(Path(data_dir) / name)
