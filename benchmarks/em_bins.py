"""What `bins=8` brings the default regressor, asked of training rows alone.

`python benchmarks/em_bins.py [SET ...]` takes a tenth of standard training sets out as if it were
the test, as em_trials.py does, and fits `ScaleMixRegressor(bins=8)` to the rest. The default
without bins, on the same rows, is in em_trials.json. Writes benchmarks/results/em_bins.json after
each fit.
"""

import json
import sys

import numpy as np
from common import RESULTS, machine, write_table
from em_trials import FILE as WITHOUT
from em_trials import inner_splits

import scalemix as sx
from scalemix.recipes import MANY_ROWS
from scalemix.sklearn import ScaleMixRegressor

FILE = RESULTS / "em_bins.json"
BINS = 8
MEASURES = ("rmse", "log_likelihood")


def measure(name: str, which: int) -> dict[str, float]:
    """The scores of one split of a set."""
    data = sx.data.load(name)
    train, apart = inner_splits(name, which + 1)[which]
    fitted = ScaleMixRegressor(bins=BINS, random_state=which).fit(data.x[train], data.y[train])
    prediction, y = fitted.predict_dist(data.x[apart]), data.y[apart]
    return {
        "rmse": sx.metrics.rmse(y, prediction.mean),
        "log_likelihood": sx.metrics.log_likelihood(prediction.log_prob(y)),
        "coverage90": sx.metrics.interval_coverage(y, prediction.interval(0.9)),
    }


def table(results: dict) -> list[tuple[str, ...]]:
    """One row a set: the default without bins and with them, on the same splits."""
    without = json.loads(WITHOUT.read_text())["sets"]
    rows = []
    for name, fits in results["sets"].items():
        plain = without[name]["short trials"][: len(fits)]
        shown = [
            ", ".join(
                form.format(np.mean([fit[measure] for fit in each]))
                for measure, form in zip(MEASURES, ("{:.3g}", "{:.2f}"), strict=True)
            )
            for each in (plain, fits)
        ]
        rows.append((name, f"{len(fits)}", *shown))
    return rows


def main() -> None:
    """Measure the sets named on the command line, or all of them; `table` only writes the table."""
    names = sys.argv[1:] or list(sx.data.NAMES)
    results = json.loads(FILE.read_text()) if FILE.exists() else {"sets": {}}
    if names != ["table"]:
        results.update(machine())
        for name in names:
            num = 1 if len(sx.data.load(name).y) > MANY_ROWS else 4
            fits = results["sets"][name] = []
            for which in range(num):
                fits.append(measure(name, which))
                FILE.write_text(json.dumps(results, indent=1) + "\n")
                print(name, which, fits[-1], flush=True)
    head = ("set", "splits", "without bins", f"bins={BINS}")
    for row in (head, *table(results)):
        print("  ".join(f"{cell:>14}" for cell in row))
    write_table("em_bins", table(results), head)


if __name__ == "__main__":
    main()
