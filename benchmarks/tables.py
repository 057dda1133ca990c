"""The default estimators against other packages, on forty-one tables.

Run with `make benchmark-tables`, which gives the others a venv of their own. Five folds of each
table, the smallest tables first, and all tables before the next fold. Each fit has a process of its
own (`table_worker.py` says how packages are set and what they read) and is written to
benchmarks/results/tables.json when it ends; what is there is not fitted again, so a run may end at
any time and go on later. Puts tables into benchmarks/README.md.

Test rows are looked at: no default may be chosen by these results.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from common import HERE, RESULTS, machine, write_table
from table_data import CLASSIFICATION, NUM_FOLDS, REGRESSION, TABLES, Table
from uci_peers import mean_ranks

FILE = RESULTS / "tables.json"
OURS = "scalemix"
# By name, what to look up the version of.
PACKAGES = {
    "XGBoost": "xgboost-cpu",
    "LightGBM": "lightgbm",
    "CatBoost": "catboost",
    "NGBoost": "ngboost",
    "random forest": "scikit-learn",
    "linear": "scikit-learn",
    "RealMLP": "pytabkit",
    "TabM": "pytabkit",
    "bde": "sklearn-contrib-bde",
}
ALL = (OURS, *PACKAGES)
# In each measure, whether more is better. Coverage counts by its distance from 90%.
MEASURES = {
    "regression": {
        "rmse": False,
        "log_likelihood": True,
        "crps": False,
        "coverage90": False,
        "seconds": False,
    },
    "classification": {"accuracy": True, "log_likelihood": True, "brier": False, "seconds": False},
}
# Processor time counts, and threads that wait for each other on a busy machine spend it.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
TASKS = {"regression": REGRESSION, "classification": CLASSIFICATION}
LABELS = {
    "rmse": "RMSE",
    "log_likelihood": "log-likelihood",
    "crps": "CRPS",
    "coverage90": "coverage",
    "seconds": "seconds",
    "accuracy": "accuracy",
    "brier": "Brier",
}


def write_fold(path: Path, table: Table, fold: int) -> None:
    """A fold in a form that any version of pandas reads; gaps in text are empty."""
    train, test = table.folds()[fold]
    columns = {
        f"x_{name}": column.to_numpy()
        if column.dtype.kind in "iufb"
        else column.fillna("").to_numpy().astype(str)
        for name, column in table.x.items()
    }
    np.savez(path, names=list(table.x.columns), y=table.y, train=train, test=test, **columns)


def run_fit(
    python: str, package: str, fold: Path, seed: int, limit: int, wall_limit: float
) -> dict | None:
    """The measures of one fit or why there are none, with its processor time.

    `limit` is of processor seconds, which do not depend on what else the machine does; a fit that
    the wall clock ended has no result, `None`.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        process = subprocess.Popen(
            [python, HERE / "table_worker.py", package, fold, str(seed), result, str(limit)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | ONE_THREAD,
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
        scores = json.loads(result.read_text())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return scores | {"cpu_seconds": used}


def versions(python: str) -> dict[str, str]:
    """The versions of the others, without those that are not there."""
    ask = (
        "import json, importlib.metadata as m\n"
        "print(json.dumps({d.name: d.version for d in m.distributions()}))"
    )
    answer = subprocess.run([python, "-c", ask], capture_output=True, check=True)
    installed = json.loads(answer.stdout)
    return {name: installed[name] for name in sorted({*PACKAGES.values()}) if name in installed}


def value(fit: dict, measure: str) -> float:
    """A measure as it is ranked.

    Seconds are of the processor, for the whole process, but for what predicted numbers do not need.
    """
    if measure == "seconds":
        return fit["cpu_seconds"] - fit.get("extra_seconds", 0)
    return abs(fit["coverage90"] - 0.9) if measure == "coverage90" else fit[measure]


def complete(fits: dict, names: Sequence[str], packages: Sequence[str]) -> list[tuple[str, str]]:
    """The tables and folds that all of the packages have measures of."""
    return [
        (name, fold)
        for name in names
        for fold, done in sorted(fits.get(name, {}).items())
        if all("cpu_seconds" in done.get(package, {}) for package in packages)
    ]


def ranks(
    fits: dict, which: list[tuple[str, str]], packages: Sequence[str], task: str, measure: str
) -> list[str]:
    """The mean rank of each package over these tables and folds."""
    rows = [[value(fits[name][fold][p], measure) for p in packages] for name, fold in which]
    return mean_ranks(np.array(rows), MEASURES[task][measure])


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
        labels = [LABELS[measure] for measure in measures]
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


def main() -> None:
    """Fit what is missing, write after each fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", default=".venv-peer/bin/python")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES), metavar="NAME")
    parser.add_argument("--peers", nargs="*", choices=ALL, default=list(ALL), metavar="NAME")
    parser.add_argument("--folds", type=int, default=NUM_FOLDS, help="how many of the five")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds in all")
    parser.add_argument("--fit-limit", type=int, default=7200, help="processor seconds for a fit")
    parser.add_argument("--again", action="store_true", help="fit again what failed")
    given = parser.parse_args()
    deadline = time.monotonic() + given.limit
    results = {"tables": {}, "fits": {}, "left_out": {}}
    if FILE.exists():
        results |= json.loads(FILE.read_text())
    results |= machine() | {"versions": versions(given.peer_python)}
    for package in given.peers:
        # It may have been installed since.
        results["left_out"].pop(package, None)
    tables = {name: TABLES[name]() for name in given.tables}
    order = sorted(tables, key=lambda name: len(tables[name].y))
    # Not resolved: a link into a venv would lead out of it.
    peer_python = os.path.abspath(given.peer_python)
    python = dict.fromkeys(PACKAGES, peer_python) | {OURS: sys.executable}
    todo = [(f, n, p) for f in range(given.folds) for n in order for p in given.peers]
    with tempfile.TemporaryDirectory() as folder:
        for fold, name, package in todo:
            done = results["fits"].setdefault(name, {}).setdefault(str(fold), {})
            fitted = package in done and not (given.again and "failed" in done[package])
            if fitted or package in results["left_out"]:
                continue
            path = Path(folder) / f"{name}-{fold}.npz"
            if not path.exists():
                write_fold(path, tables[name], fold)
            left = deadline - time.monotonic()
            if left <= 0:
                break
            scores = run_fit(python[package], package, path, fold, given.fit_limit, left)
            if scores is None:
                break
            if scores.get("failed", "").startswith("ModuleNotFoundError"):
                results["left_out"][package] = scores["failed"]
            else:
                done[package] = scores
                rows, columns = tables[name].x.shape
                results["tables"][name] = {"rows": rows, "columns": columns}
            FILE.write_text(json.dumps(results, indent=1) + "\n")
            print(name, fold, package, scores, flush=True)
    write_tables(results)


if __name__ == "__main__":
    main()
