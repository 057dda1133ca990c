"""The default regressor against scikit-learn's `MLPRegressor`, on the seven UCI sets.

`python benchmarks/estimators.py [SET ...]` fits both, as they come, to the training rows of the
first standard split of each set, or the first `NUM_SPLITS` of the environment, and writes
benchmarks/results/estimators.json and the table in benchmarks/README.md after each fit; what is
there already is not fitted again. `MLPRegressor` has its inputs standardised; ours does so itself,
and the target too, which is part of what a default is.
"""

import itertools
import json
import os
import platform
import sys
import time
from pathlib import Path

import jax
import numpy as np
import sklearn
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scalemix as sx
from scalemix.sklearn import ScaleMixRegressor

RESULTS = Path(__file__).parent / "results" / "estimators.json"
SETS = ("yacht", "energy", "boston", "concrete", "wine", "kin8nm", "power")
NUM_SPLITS = int(os.environ.get("NUM_SPLITS", "1"))


def measure(name: str, split: int) -> dict:
    """Errors, coverage and seconds on one split."""
    data = sx.data.load(name)
    train, test = sx.data.splits(len(data.y))[split]
    ours = ScaleMixRegressor(random_state=split)
    theirs = make_pipeline(StandardScaler(), MLPRegressor(random_state=split))
    seconds = {}
    for label, estimator in (("ours", ours), ("theirs", theirs)):
        start, busy = time.perf_counter(), time.process_time()
        estimator.fit(data.x[train], data.y[train])
        seconds[label] = time.perf_counter() - start
        seconds[f"{label}_cpu"] = time.process_time() - busy
    prediction, y = ours.predict_dist(data.x[test]), data.y[test]
    return {
        "split": split,
        "rmse": sx.metrics.rmse(y, prediction.mean),
        "rmse_mlp": sx.metrics.rmse(y, theirs.predict(data.x[test])),
        "coverage90": sx.metrics.interval_coverage(y, prediction.interval(0.9)),
        "log_likelihood": sx.metrics.log_likelihood(prediction.log_prob(y)),
        "num_test": len(test),
        "seconds": seconds,
        "trials": [trial._asdict() for trial in ours.trials_],
    }


def write_table(sets: dict[str, list[dict]]) -> None:
    """Put the rows between the marks in benchmarks/README.md."""
    page = RESULTS.parents[1] / "README.md"
    begin, end = "<!-- begin estimators -->", "<!-- end estimators -->"
    before, rest = page.read_text().split(begin)
    after = rest.split(end)[1]
    table = [
        "| set | splits | RMSE | `MLPRegressor` | 90% intervals cover | CPU s | `MLPRegressor` |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rows in sets.items():
        mean = {
            key: np.mean([row[key] for row in rows]) for key in ("rmse", "rmse_mlp", "coverage90")
        }
        cpu, theirs = (
            np.mean([row["seconds"][key] for row in rows]) for key in ("ours_cpu", "theirs_cpu")
        )
        table.append(
            f"| {name} | {len(rows)} | {mean['rmse']:.3g} | {mean['rmse_mlp']:.3g} | "
            f"{100 * mean['coverage90']:.1f}% | {cpu:.0f} | {theirs:.1f} |"
        )
    page.write_text("\n".join([before + begin, *table, end + after]))


def main() -> None:
    """Measure the sets named on the command line, or all of them."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"sets": {}}
    results["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    results["versions"] = {"jax": jax.__version__, "scikit-learn": sklearn.__version__}
    names = sys.argv[1:] or SETS
    for split, name in itertools.product(range(NUM_SPLITS), names):
        rows = results["sets"].setdefault(name, [])
        if any(row["split"] == split for row in rows):
            continue
        rows.append(measure(name, split))
        results["sets"] = {key: results["sets"][key] for key in SETS if key in results["sets"]}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        write_table(results["sets"])
        print(name, {key: value for key, value in rows[-1].items() if key != "trials"}, flush=True)


if __name__ == "__main__":
    main()
