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

import jax
import numpy as np
import sklearn
from common import RESULTS, write_table
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scalemix as sx
from scalemix.sklearn import ScaleMixRegressor

FILE = RESULTS / "estimators.json"
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


HEAD = (
    "set", "splits", "RMSE", "`MLPRegressor`", "90% intervals cover", "CPU s", "`MLPRegressor`"
)  # fmt: skip


def table(sets: dict[str, list[dict]]) -> list[tuple[str, ...]]:
    """One row a set: means over splits."""
    made = []
    for name, rows in sets.items():
        mean = {
            key: np.mean([row[key] for row in rows]) for key in ("rmse", "rmse_mlp", "coverage90")
        }
        cpu, theirs = (
            np.mean([row["seconds"][key] for row in rows]) for key in ("ours_cpu", "theirs_cpu")
        )
        made.append(
            (
                name, f"{len(rows)}", f"{mean['rmse']:.3g}", f"{mean['rmse_mlp']:.3g}",
                f"{mean['coverage90']:.1%}", f"{cpu:.0f}", f"{theirs:.1f}",
            )
        )  # fmt: skip
    return made


def main() -> None:
    """Measure the sets named on the command line, or all of them."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {"sets": {}}
    results["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    results["versions"] = {"jax": jax.__version__, "scikit-learn": sklearn.__version__}
    names = sys.argv[1:] or SETS
    for split, name in itertools.product(range(NUM_SPLITS), names):
        rows = results["sets"].setdefault(name, [])
        if any(row["split"] == split for row in rows):
            continue
        rows.append(measure(name, split))
        results["sets"] = {key: results["sets"][key] for key in SETS if key in results["sets"]}
        FILE.write_text(json.dumps(results, indent=1) + "\n")
        write_table("estimators", table(results["sets"]), HEAD)
        print(name, {key: value for key, value in rows[-1].items() if key != "trials"}, flush=True)


if __name__ == "__main__":
    main()
