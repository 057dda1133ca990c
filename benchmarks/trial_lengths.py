"""How long trials of classifiers should last, and how quickly many rows should be learned.

`python benchmarks/trial_lengths.py [TABLE ...]` fits `ScaleMixClassifier()` with three plans of
training. Small tables are those of `default_plan.py`, four fifths of up to 4,000 rows against the
others; so are two of those in the middle, with all rows. Of the tables of `raw_tables.py` these are
training rows alone, four fifths against the others. Writes benchmarks/results/trial_lengths.json
after each fit, leaves out what is there already, and puts a table into benchmarks/README.md.
"""

import json
import sys
import time

import numpy as np
from common import RESULTS, machine, write_table
from raw_tables import TABLES as RAW
from raw_tables import rows_to_test
from sklearn.model_selection import train_test_split
from table_data import Table, keel
from table_worker import of_classes

from scalemix.fitting import settings
from scalemix.sklearn import ScaleMixClassifier

FILE = RESULTS / "trial_lengths.json"
SMALL = (
    "sonar", "heart", "ionosphere", "saheart", "australian", "pima", "vehicle", "vowel", "segment",
    "contraceptive", "spambase", "phoneme",
)  # fmt: skip
# With more than 5,000 rows to fit to.
MIDDLE = ("marketing", "ring", "health_insurance")
LARGE = ("adult", "flights", "census_income")
MOST_ROWS = 4000
# The share of the steps that trials take, 2,500 steps at least; the steps of those in the middle;
# and the rate of Adam.
PLANS = {
    "short trials": (0.3, 10_000, 1e-2),
    "long trials": (1.0, 5_000, 1e-2),
    "long trials, rate .003": (1.0, 5_000, 3e-3),
}


def rows_of(name: str) -> tuple[Table, np.ndarray, np.ndarray]:
    """A table, the rows to fit to, and those to score."""
    if name not in RAW:
        table = keel(name)
        order = np.random.default_rng(0).permutation(len(table.y))
        order = order[:MOST_ROWS] if name in SMALL else order
        num = int(0.8 * len(order))
        return table, order[:num], order[num:]
    table = RAW[name]()
    train = np.setdiff1d(np.arange(len(table.y)), rows_to_test(name, table))
    parts = train_test_split(train, test_size=0.2, random_state=1, stratify=table.y[train])
    return table, *map(np.sort, parts)


def fit(name: str, plan: str) -> dict:
    """How a plan fares on one table."""
    table, train, apart = rows_of(name)
    share, steps, rate = PLANS[plan]
    settings.PLANS["em of classes"] = {
        most: one._replace(
            trial_share=share, learning_rate=rate,
            steps=steps if most == settings.MANY_ROWS else one.steps,
        )
        for most, one in settings.CLASS_PLANS.items()
    }  # fmt: skip
    start = time.process_time()
    fitted = ScaleMixClassifier(random_state=0).fit(table.x.iloc[train], table.y[train])
    scores = of_classes(fitted.predict_proba(table.x.iloc[apart]), table.y[apart])
    return {**scores, "cpu_seconds": time.process_time() - start, **machine()}


def write_page(results: dict) -> None:
    """Log-loss and processor seconds of each plan."""
    rows = []
    for name in (*SMALL, *MIDDLE, *LARGE):
        fits = results["fits"].get(name, {})
        cells = [
            f"{-one['log_likelihood']:.4f}, {one['cpu_seconds']:.0f}" if one else ""
            for one in map(fits.get, PLANS)
        ]
        rows.append((name, *cells))
    write_table("trial_lengths", rows, ("table", *PLANS))


def main() -> None:
    """Measure the tables named on the command line, or all of them, then write the page."""
    results = {"fits": {}}
    if FILE.exists():
        results |= json.loads(FILE.read_text())
    for name in sys.argv[1:] or (*SMALL, *MIDDLE, *LARGE):
        done = results["fits"].setdefault(name, {})
        for plan in PLANS:
            if plan not in done:
                done[plan] = fit(name, plan)
                print(name, plan, done[plan], flush=True)
                FILE.write_text(json.dumps(results, indent=1) + "\n")
    write_page(results)


if __name__ == "__main__":
    main()
