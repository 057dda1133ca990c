"""The default estimators against other packages, on forty-one tables.

Run with `make benchmark-tables`, which gives the others a venv of their own. Five folds of each
table, the smallest tables first, and all tables before the next fold. Each fit has a process of its
own (`table_worker.py` says how packages are set and what they read) and is written to
benchmarks/results/tables.json when it ends, with the machine that it ran on; what is there is not
fitted again, so a run may end at any time and go on later. Puts tables into benchmarks/README.md.

On another machine, several fits at a time, where nothing can be downloaded:

    python benchmarks/tables.py --folder FOLDER --prepare                         # here
    python benchmarks/tables.py --folder FOLDER --results FILE --workers 8        # there
    python benchmarks/tables.py --merge FILE                                      # here

Test rows are looked at: no default may be chosen by these results.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from common import HERE, RESULTS, write_table
from scipy.stats import rankdata
from table_data import CLASSIFICATION, NUM_FOLDS, REGRESSION, TABLES, Table

FILE = RESULTS / "tables.json"
OURS = "scalemix"
ALL = (
    OURS, "XGBoost", "LightGBM", "CatBoost", "NGBoost", "random forest", "linear", "RealMLP",
    "TabM", "bde",
)  # fmt: skip
# In each measure, whether more is better. Coverage counts by its distance from 90%: that of all
# rows which the folds test; and fold by fold, though of some dozen rows it says little.
MEASURES = {
    "regression": {
        "rmse": False,
        "log_likelihood": True,
        "crps": False,
        "coverage": False,
        "coverage_by_fold": False,
        "seconds": False,
    },
    "classification": {"accuracy": True, "log_likelihood": True, "brier": False, "seconds": False},
}
# Seconds are ranked over fits on this alone: those of other machines cannot be compared with them.
TIMED_ON = {"machine": "x86_64, 2 cores", "device": "cpu"}
# Processor time counts, and threads that wait for each other on a busy machine spend it; LightGBM
# asks for as many as there are cores, and heeds the second alone. Fits that share a GPU take of its
# memory what they need.
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OMP_THREAD_LIMIT": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # Modules are kept as bytecode, as they are where people install packages with pip.
    "PYTHONDONTWRITEBYTECODE": "",
}
TASKS = {"regression": REGRESSION, "classification": CLASSIFICATION}
LABELS = {
    "rmse": "RMSE",
    "log_likelihood": "log-likelihood",
    "crps": "CRPS",
    "coverage": "coverage",
    "coverage_by_fold": "coverage by fold",
    "seconds": "seconds",
    "accuracy": "accuracy",
    "brier": "Brier",
}


def write_rows(path: Path, table: Table, tests: Sequence[np.ndarray]) -> None:
    """A table in a form that any version of pandas reads, with the fold that each row tests.

    `tests` are the rows of each fold. A column of text is its levels, of which a gap is the empty
    one, and their positions.
    """
    fold_of = np.full(len(table.y), -1, np.int8)
    for fold, test in enumerate(tests):
        fold_of[test] = fold
    arrays = {"names": list(table.x.columns), "y": table.y, "fold": fold_of}
    for name, column in table.x.items():
        if column.dtype.kind in "iufb":
            arrays[f"x_{name}"] = column.to_numpy()
        else:
            text = column.fillna("").to_numpy().astype(str)
            arrays[f"levels_{name}"], positions = np.unique(text, return_inverse=True)
            arrays[f"x_{name}"] = positions.astype(np.int32)
    np.savez_compressed(path, **arrays)


def prepare(names: Sequence[str], folder: Path) -> dict[str, dict[str, int]]:
    """The shape of each table, smallest first; those that are not in the folder are written."""
    shapes = {}
    for name in names:
        path = folder / f"{name}.npz"
        if not path.exists():
            table = TABLES[name]()
            write_rows(path, table, [test for _, test in table.folds()])
        with np.load(path) as file:
            shapes[name] = {"rows": len(file["y"]), "columns": len(file["names"])}
    return dict(sorted(shapes.items(), key=lambda item: item[1]["rows"]))


def run_fit(
    python: str, package: str, table: Path, fold: int, limit: int, wall_limit: float
) -> dict | None:
    """The measures of one fit or why there are none.

    `limit` is of processor seconds, which do not depend on what else the machine does; a fit that
    the wall clock ended has no result, `None`.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        process = subprocess.Popen(
            [python, HERE / "table_worker.py", package, table, str(fold), result, str(limit)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | SETTINGS,
        )
        try:
            _, error = process.communicate(timeout=wall_limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
        if -process.returncode in (signal.SIGXCPU, signal.SIGKILL):
            return {"failed": f"killed; it had {limit} processor seconds"}
        if not result.exists():
            lines = error.strip().splitlines()
            return {"failed": lines[-1][:300] if lines else f"exit status {process.returncode}"}
        return json.loads(result.read_text())


def run_fits(
    todo: Sequence[tuple[int, str, str]], folder: Path, left_out: dict, given: argparse.Namespace
) -> Iterator[tuple[int, str, str, dict]]:
    """Fold, table and package of what is to be fitted, with the measures, as they come."""
    deadline = time.monotonic() + given.limit
    # Not resolved: a link into a venv would lead out of it.
    peer_python = os.path.abspath(given.peer_python)

    def run(fold: int, name: str, package: str) -> dict | None:
        left = min(deadline - time.monotonic(), given.wall_limit)
        if left <= 0 or package in left_out:
            return None
        python = sys.executable if package == OURS else peer_python
        table = folder / f"{name}.npz"
        scores = run_fit(python, package, table, fold, given.fit_limit, left)
        if scores is None:
            print(name, fold, package, f"had {left:.0f} seconds", flush=True)
        return scores

    with ThreadPoolExecutor(given.workers) as pool:
        running = {pool.submit(run, *what): what for what in todo}
        try:
            for future in as_completed(running):
                scores = future.result()
                if scores is not None:
                    yield *running[future], scores
        finally:
            pool.shutdown(cancel_futures=True)


def value(fit: dict, measure: str) -> float:
    """A measure as it is ranked.

    Seconds are of the processor, for the whole process, but for what predicted numbers do not need.
    """
    if measure == "seconds":
        return fit["cpu_seconds"] - fit.get("extra_seconds", 0)
    return abs(fit["coverage90"] - 0.9) if measure == "coverage_by_fold" else fit[measure]


def miscovered(folds: list[list[dict]]) -> np.ndarray:
    """By how much each package's intervals cover more or less than 90% of all rows of the folds."""
    covered = np.mean([[fit["coverage90"] for fit in fold] for fold in folds], axis=0)
    return np.abs(covered - 0.9)


def rank_folds(folds: list[list[dict]], measure: str, sign: int) -> np.ndarray:
    """The mean rank of each package on one table, of which each fold has a fit of each package."""
    if measure == "coverage":
        return rankdata(miscovered(folds))
    each = [rankdata([sign * value(fit, measure) for fit in fold]) for fold in folds]
    return np.mean(each, axis=0)


def complete(fits: dict, names: Sequence[str], packages: Sequence[str]) -> list[tuple[str, str]]:
    """The tables and folds that all of the packages have measures of."""
    return [
        (name, fold)
        for name in names
        for fold, done in sorted(fits.get(name, {}).items())
        if all("cpu_seconds" in done.get(package, {}) for package in packages)
    ]


def timed(fits: dict, which: Sequence[tuple[str, str]], packages: Sequence[str]) -> list:
    """Those tables and folds on which the seconds of all packages may be compared."""
    return [
        (name, fold)
        for name, fold in which
        if all(TIMED_ON.items() <= fits[name][fold][package].items() for package in packages)
    ]


def by_table(
    fits: dict, which: Sequence[tuple[str, str]], packages: Sequence[str]
) -> dict[str, list[list[dict]]]:
    """The fits of each table: fold by fold, one of each package."""
    tables: dict[str, list[list[dict]]] = {}
    for name, fold in which:
        tables.setdefault(name, []).append([fits[name][fold][package] for package in packages])
    return tables


def ranks(
    fits: dict, which: list[tuple[str, str]], packages: Sequence[str], task: str, measure: str
) -> list[str]:
    """The mean rank of each package over these tables."""
    if measure == "seconds":
        which = timed(fits, which, packages)
    sign = -1 if MEASURES[task][measure] else 1
    tables = by_table(fits, which, packages)
    if not tables:
        return [""] * len(packages)
    each = [rank_folds(folds, measure, sign) for folds in tables.values()]
    return [f"{rank:.1f}" for rank in np.mean(each, axis=0)]


def write_tables(results: dict) -> None:
    """Mean ranks of all, and our ranks on each table, for what has been run."""
    fits = results["fits"]
    packages = [package for package in ALL if package not in results["left_out"]]
    for task, names in TASKS.items():
        measures = MEASURES[task]
        which = complete(fits, list(names), packages)
        if not which:
            continue
        columns = [ranks(fits, which, packages, task, measure) for measure in measures]
        seconds = f"seconds, {len(timed(fits, which, packages))} folds"
        labels = [(LABELS | {"seconds": seconds})[measure] for measure in measures]
        write_table(
            f"tables_{task}",
            list(zip(packages, *columns, strict=True)),
            (f"{len(which)} of {NUM_FOLDS * len(names)} folds", *labels),
        )
        rows = []
        for name in dict.fromkeys(name for name, _ in which):
            here = [pair for pair in which if pair[0] == name]
            own = [ranks(fits, here, packages, task, m)[packages.index(OURS)] for m in measures]
            shape = results["tables"][name]
            rows.append((name, f"{shape['rows']}", f"{shape['columns']}", f"{len(here)}", *own))
        write_table(f"tables_{task}_ours", rows, ("table", "rows", "columns", "folds", *labels))


def write_coverage(results: dict) -> None:
    """How far intervals are from covering 90% of the rows of tables that were tested to the end."""
    packages = [package for package in ALL if package not in results["left_out"]]
    which = complete(results["fits"], list(REGRESSION), packages)
    tables = by_table(results["fits"], which, packages).values()
    off = [miscovered(folds) for folds in tables if len(folds) == NUM_FOLDS]
    if off:
        cells = [f"{share:.1%}" for share in np.mean(off, axis=0)]
        rows = list(zip(packages, cells, strict=True))
        write_table("tables_coverage", rows, (f"{len(off)} tables", "off 90% by"))


def merge(results: dict, other: dict) -> None:
    """Add fits of another file to these; one that is in both stays as it is, unless it failed."""
    results["tables"] |= other["tables"]
    for name, folds in other["fits"].items():
        for fold, fits in folds.items():
            done = results["fits"].setdefault(name, {}).setdefault(fold, {})
            for package, scores in fits.items():
                if "failed" in done.get(package, {"failed": "not run"}):
                    done[package] = scores


def fit_missing(results: dict, given: argparse.Namespace, folder: Path) -> None:
    """Fit what is missing, write after each fit."""
    fits, left_out = results["fits"], results["left_out"]
    shapes = prepare(given.tables, folder)
    if given.prepare:
        return
    for package in given.peers:
        # It may have been installed since.
        left_out.pop(package, None)

    def is_missing(fold: int, name: str, package: str) -> bool:
        done = fits.get(name, {}).get(str(fold), {})
        return package not in done or (given.again and "failed" in done[package])

    todo = [(f, n, p) for f in sorted(given.folds) for n in shapes for p in given.peers]
    todo = [what for what in todo if is_missing(*what)]
    for fold, name, package, scores in run_fits(todo, folder, left_out, given):
        if scores.get("failed", "").startswith("ModuleNotFoundError"):
            left_out[package] = scores["failed"]
        else:
            fits.setdefault(name, {}).setdefault(str(fold), {})[package] = scores
            results["tables"][name] = shapes[name]
        given.results.write_text(json.dumps(results, indent=1) + "\n")
        print(name, fold, package, scores, flush=True)


def main() -> None:
    """Fit or merge, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", default=".venv-peer/bin/python")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES), metavar="NAME")
    parser.add_argument("--peers", nargs="*", choices=ALL, default=list(ALL), metavar="NAME")
    folds = range(NUM_FOLDS)
    parser.add_argument("--folds", nargs="*", type=int, choices=folds, default=list(folds))
    parser.add_argument("--workers", type=int, default=1, help="fits at a time")
    parser.add_argument("--limit", type=float, default=1e6, help="seconds in all")
    parser.add_argument("--fit-limit", type=int, default=7200, help="processor seconds for a fit")
    parser.add_argument("--wall-limit", type=float, default=1e6, help="seconds for a fit")
    parser.add_argument("--again", action="store_true", help="fit again what failed")
    parser.add_argument("--folder", type=Path, help="holds the tables; what is missing is written")
    parser.add_argument("--prepare", action="store_true", help="write the folder, fit nothing")
    parser.add_argument("--results", type=Path, default=FILE, help="another file: no page changes")
    parser.add_argument("--merge", type=Path, nargs="*", help="add these files, fit nothing")
    given = parser.parse_args()
    results = {"tables": {}, "fits": {}, "left_out": {}}
    if given.results.exists():
        results |= json.loads(given.results.read_text())
    if given.merge:
        for path in given.merge:
            merge(results, json.loads(path.read_text()))
        given.results.write_text(json.dumps(results, indent=1) + "\n")
    elif given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        fit_missing(results, given, given.folder.absolute())
    else:
        with tempfile.TemporaryDirectory() as folder:
            fit_missing(results, given, Path(folder))
    if given.results == FILE:
        write_tables(results)
        write_coverage(results)


if __name__ == "__main__":
    main()
