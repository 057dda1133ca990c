"""What `bins=8` brings the default regressor, asked of training rows alone.

`python benchmarks/em_bins.py [SET ...]` takes a tenth of standard training sets out as if it were
the test, as em_trials.py does, and fits `ScaleMixRegressor(bins=8)` to the rest. The default
without bins, on the same rows, is in em_trials.json. Writes benchmarks/results/em_bins.json after
each set.
"""

import json

import numpy as np
from common import RESULTS, measure_sets, write_table
from em_trials import FILE as WITHOUT
from em_trials import inner_splits

import scalemix as sx
from scalemix.fitting.settings import MANY_ROWS
from scalemix.sklearn import ScaleMixRegressor

FILE = RESULTS / "em_bins.json"
BINS = 8
MEASURES = {"rmse": "{:.3g}", "log_likelihood": "{:.2f}", "coverage90": "{:.0%}"}


def measure(name: str) -> list[dict[str, float]]:
    """The scores on each split of a set, fewer of the large sets."""
    data = sx.data.load(name)
    rows = []
    for i, (train, apart) in enumerate(inner_splits(name, 1 if len(data.y) > MANY_ROWS else 4)):
        fitted = ScaleMixRegressor(bins=BINS, random_state=i).fit(data.x[train], data.y[train])
        prediction, y = fitted.predict_dist(data.x[apart]), data.y[apart]
        rows.append(
            {
                "rmse": sx.metrics.rmse(y, prediction.mean),
                "log_likelihood": sx.metrics.log_likelihood(prediction.log_prob(y)),
                "coverage90": sx.metrics.interval_coverage(y, prediction.interval(0.9)),
            }
        )
    return rows


def table(results: dict) -> list[tuple[str, ...]]:
    """One row a set: the default without bins and with them, on the same splits."""
    without = json.loads(WITHOUT.read_text())["sets"]
    rows = []
    for name, fits in results["sets"].items():
        plain = without[name]["short trials"][: len(fits)]
        shown = [
            ", ".join(
                form.format(np.mean([fit[measure] for fit in each]))
                for measure, form in MEASURES.items()
            )
            for each in (plain, fits)
        ]
        rows.append((name, f"{len(fits)}", *shown))
    return rows


def main() -> None:
    """Measure the sets named on the command line, or all of them; `table` only writes the table."""
    results = measure_sets(FILE, measure)
    head = ("set", "splits", "without bins", f"bins={BINS}")
    for row in (head, *table(results)):
        print("  ".join(f"{cell:>14}" for cell in row))
    write_table("em_bins", table(results), head)


if __name__ == "__main__":
    main()
