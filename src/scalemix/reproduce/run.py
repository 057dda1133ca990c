"""Runs what is asked for, cells and figures, and leaves out cells that are there already."""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import jax

from scalemix import data
from scalemix.data import Dataset
from scalemix.reproduce.cells import TABLES, measure
from scalemix.reproduce.claims import run_claims
from scalemix.reproduce.figures import FIGURES
from scalemix.reproduce.page import write_tables
from scalemix.reproduce.plans import Plan, Split
from scalemix.reproduce.published import SETS
from scalemix.reproduce.store import Store

TARGETS = (*TABLES, *FIGURES, "all", "claims")
# Programs under way at a time on an accelerator. Networks this small leave it idle most of the
# time, and compiling them takes about as long as running them.
AT_ONCE = 4
# Steps from which on claims are tried in full.
CLAIM_STEPS = 5000


class Made(NamedTuple):
    """Finished cells of tables, and what was measured on figures."""

    cells: dict[str, Any]
    figures: dict[str, Any]


def reproduce(
    target: str,
    plan: Plan,
    folder: str | Path,
    *,
    sets: Sequence[str] = SETS,
    data_dir: str | Path | None = None,
    at_once: int | None = None,
    say: Callable[[str], None] = print,
    progress: bool | None = None,
) -> dict[str, Any]:
    """The results, after making what `target` names and is not in the folder yet.

    `folder` gets results.json, results.md and the figures; results of the plan `as_published` go
    into files of that name. "claims" are no part of "all": they need neither sets nor a GPU, and
    give claims.json with figures of their own. `data_dir` is a folder of sets in the public layout,
    for names that the package does not hold.

    `at_once` is the number of programs that are under way at a time: four on an accelerator, which
    then works for some while others compile, and one on a CPU, which has no time to spare. Results
    do not depend on it.
    """
    if target not in TARGETS:
        raise ValueError(f"There is no {target!r} to reproduce. There are: {', '.join(TARGETS)}.")
    if target in FIGURES and not plan.figures:
        raise ValueError(
            f"Figures are not made by the plan {plan.name!r}: ask for a table, or take another."
        )
    if at_once is None:
        at_once = 1 if jax.default_backend() == "cpu" else AT_ONCE
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}.")
    folder = Path(folder)
    if target == "claims":
        return run_claims(folder, min(1.0, plan.steps / CLAIM_STEPS), say)
    loaded = {name: _load(name, plan, data_dir) for name in sets}
    store = Store(folder, plan)
    # Several bars would write over one another.
    shown = progress if at_once == 1 else False

    def draw(figures: Sequence[str]) -> Made:
        measured = {}
        for figure in figures:
            say(figure)
            folder.mkdir(parents=True, exist_ok=True)
            measured[figure] = FIGURES[figure].draw(folder, plan, shown)
        return Made({}, measured)

    def make(table: str, name: str, methods: Sequence[str]) -> Made:
        say(f"{table}, {name}, {', '.join(methods)}: {plan.num_splits} splits")
        measured = measure(methods, *loaded[name], plan, shown)
        return Made({f"{table}/{name}/{method}": cell for method, cell in measured.items()}, {})

    figures = [figure for figure in FIGURES if target in (figure, "all") and plan.figures]
    # One task for all figures: matplotlib is not made for several threads.
    tasks = [functools.partial(draw, figures)] if figures else []
    tasks += [
        functools.partial(make, table, name, methods)
        for table, groups in TABLES.items()
        if target in (table, "all")
        for name in sets
        for methods in groups
        if not all(store.holds(f"{table}/{name}/{method}") for method in methods)
    ]
    start = time.perf_counter()
    for made in _done(tasks, at_once):
        now = time.perf_counter()
        # A figure that is drawn again by itself adds nothing to the time of the tables.
        store.put(made.cells, made.figures, 0.0 if target in FIGURES else now - start)
        start = now
    if store.content["cells"]:
        write_tables(store.content, folder / f"{plan.file}.md")
    return store.content


def _done(tasks: Sequence[Callable[[], Made]], at_once: int) -> Iterator[Made]:
    """What each task gives, as it is finished."""
    if at_once == 1:
        # In this thread, which Ctrl-C stops at once.
        yield from (task() for task in tasks)
        return
    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            # Without this, an error would wait for all that has not begun yet.
            pool.shutdown(wait=False, cancel_futures=True)


def _load(name: str, plan: Plan, data_dir: str | Path | None) -> tuple[Dataset, Sequence[Split]]:
    if name in data.NAMES:
        dataset = data.load(name)
        return dataset, plan.splits(len(dataset.y))
    if data_dir is None:
        raise ValueError(
            f"There is no data set {name!r} in the package (there are: {', '.join(data.NAMES)}). "
            f"For one of your own give the folder that holds it as data_dir."
        )
    dataset, splits = data.read_public(Path(data_dir) / name)
    return dataset, plan.splits(len(dataset.y)) if plan.shuffled else splits
