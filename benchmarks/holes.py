"""Whether predictions are less sure where there were no data: holes cut out of the seven UCI sets.

Run with `make benchmark-holes`. Of each set, the column that goes with the target most closely is
cut three times: its middle third is left out of training (a hole), its upper third is (an end), and
as many rows at random are. Rows of the hole and of the end should get wider intervals from the fits
that have not seen their like. Writes benchmarks/results/holes.json after each set, and a table into
benchmarks/README.md.
"""

import json
import warnings

import numpy as np
from common import RESULTS, machine, measure_sets, write_table
from scipy.stats import spearmanr

import scalemix as sx
from scalemix.sklearn import ScaleMixRegressor

FILE = RESULTS / "holes.json"
# Fewer members and steps than by default, so that it takes minutes. No more rows than this.
SETTINGS = {"num_members": 4, "max_steps": 3000, "temperature": 0.3, "noise_floor": 0.1}
MOST_ROWS = 1500
# Columns of few values cannot be cut into three parts of about the same size.
LEAST_CUT, MOST_CUT = 0.15, 0.5


def cut(column) -> dict[str, np.ndarray]:
    """The rows in the middle third and in the upper third, as far as ties allow."""
    first, second = np.quantile(column, [1 / 3, 2 / 3])
    return {"hole": (column > first) & (column <= second), "end": column > second}


def choose_column(x, y) -> int:
    """The column that goes with the target most closely, of those that can be cut in three."""
    strength = [
        abs(spearmanr(column, y).statistic)
        if all(LEAST_CUT < rows.mean() < MOST_CUT for rows in cut(column).values())
        else 0.0
        for column in x.T
    ]
    return int(np.argmax(strength))


def measure(name: str) -> dict:
    """Mean spreads, widths and coverage of cut rows, by fits with and without their like."""
    data, rng = sx.data.load(name), np.random.default_rng(0)
    some = rng.permutation(len(data.y))[:MOST_ROWS]
    x, y = data.x[some], data.y[some]
    column = choose_column(x, y)
    cuts = cut(x[:, column]) | {"random": rng.permutation(len(y)) < len(y) // 3}
    models = {
        part: ScaleMixRegressor(random_state=0, **SETTINGS).fit(x[~rows], y[~rows])
        for part, rows in cuts.items()
    }
    results: dict = {"rows": len(y), "column": data.feature_names[column]}
    for part in ("hole", "end"):
        # The random fit left these out too, and has seen others like them.
        rows = np.flatnonzero(cuts[part] & cuts["random"])
        by_fit = {}
        for fit in (part, "random"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sx.RangeWarning)
                predictive = models[fit].predict_dist(x[rows])
            lower, upper = predictive.interval(0.9)
            by_fit[fit] = {
                "epistemic": float(predictive.epistemic.mean()),
                "width": float(np.mean(upper - lower)),
                "coverage": float(np.mean((lower <= y[rows]) & (y[rows] <= upper))),
            }
        outside = models[part].ranges_.outside(x[rows]).by_row
        spread = models[part].posterior_.predict(models[part]._encode(x[rows])).epistemic
        rank = float(spearmanr(outside, spread).statistic) if np.ptp(outside) else None
        results[part] = {"unseen": by_fit[part], "seen": by_fit["random"], "rank_correlation": rank}
    return results


def main() -> None:
    """Measure, and write the table."""
    results = measure_sets(FILE, measure)
    results.update(machine(), settings=SETTINGS)
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    rows = []
    for name, result in results["sets"].items():
        for part in ("hole", "end"):
            unseen, seen = result[part]["unseen"], result[part]["seen"]
            rank = result[part]["rank_correlation"]
            rows.append((
                f"{name}, {part} in {result['column']}",
                f"{unseen['epistemic'] / seen['epistemic']:.2f}",
                f"{unseen['width'] / seen['width']:.2f}",
                f"{unseen['coverage']:.0%}",
                f"{seen['coverage']:.0%}",
                "" if rank is None else f"{rank:.2f}",
            ))  # fmt: skip
    head = (
        "", "epistemic spread, times seen", "width, times seen", "90% covers", "the same, seen",
        "outside and spread, rank correlation",
    )  # fmt: skip
    write_table("holes", rows, head)
    for row in rows:
        print(*row, sep=" | ")


if __name__ == "__main__":
    main()
