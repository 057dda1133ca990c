"""Whether predictions are less sure where there were no data: holes cut out of the seven UCI sets.

Run with `make benchmark-holes`. Of each set, the column that goes with the target most closely is
cut twice: its middle third is left out of training (a hole), or its upper third (an end). What is
predicted lies inside, near or far outside by the distance that the estimator itself reports, and
its intervals are compared with those of other rows of the same fit that lie inside, and with those
of the same rows by a fit that has seen their like. Writes benchmarks/results/holes.json after each
set, and a table into benchmarks/README.md.
"""

import json
import warnings

import equinox as eqx
import numpy as np
from common import RESULTS, machine, measure_sets, write_table
from scipy.stats import spearmanr

import scalemix as sx
from scalemix.data.ranges import FAR
from scalemix.sklearn import ScaleMixRegressor

FILE = RESULTS / "holes.json"
# Fewer members and steps than by default, so that it takes minutes. No more rows than this.
SETTINGS = {"num_members": 4, "max_steps": 3000, "temperature": 0.3, "noise_floor": 0.1}
MOST_ROWS = 1500
# Columns of few values cannot be cut into three parts of about the same size.
LEAST_CUT, MOST_CUT = 0.15, 0.5
# Fewer rows say nothing.
LEAST_ROWS = 5
MEASURES = ("width", "epistemic", "aleatoric")


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


def by_row(model: ScaleMixRegressor, x, y) -> dict[str, np.ndarray]:
    """What there is to say of each row's prediction."""
    predictive = model.predict_dist(x)
    lower, upper = predictive.interval(0.9)
    return {
        "width": upper - lower,
        "epistemic": predictive.epistemic,
        "aleatoric": predictive.aleatoric,
        "coverage": (lower <= y) & (y <= upper),
        "log_likelihood": predictive.log_prob(y),
    }


def without_ends(model: ScaleMixRegressor, x, y) -> dict[str, np.ndarray]:
    """The same where the noise is extrapolated, as it was before the ends were kept."""
    posterior = model.posterior_
    scaling = posterior.scaling._replace(x_ends=None)
    model.posterior_ = eqx.tree_at(lambda p: p.scaling, posterior, scaling)
    try:
        return by_row(model, x, y)
    finally:
        model.posterior_ = posterior


def measure(name: str) -> dict:
    """Means over the rows of a cut, by how far outside they lie, of three kinds of predictions."""
    data, rng = sx.data.load(name), np.random.default_rng(0)
    some = rng.permutation(len(data.y))[:MOST_ROWS]
    x, y = data.x[some], data.y[some]
    column = choose_column(x, y)
    # Half of the rows are tested. Fits that leave out a third leave out half of these besides, so
    # that all have as many rows, and rows inside that they have not seen.
    order = rng.permutation(len(y))
    tested, besides = order < len(y) // 2, order < len(y) // 4
    cuts = cut(x[:, column])

    def fit(rows) -> ScaleMixRegressor:
        return ScaleMixRegressor(random_state=0, **SETTINGS).fit(x[rows], y[rows])

    seen = fit(~tested)
    results: dict = {"rows": len(y), "column": data.feature_names[column], "cuts": {}}
    for part, away in cuts.items():
        model = fit(~away & ~besides)
        distance = model.outside(x).by_row
        groups = {
            "others": besides & ~away & (distance == 0),
            "inside": tested & away & (distance == 0),
            "near": tested & away & (distance > 0) & (distance <= FAR),
            "far": tested & away & (distance > FAR),
        }
        predictions = {
            "unseen": by_row(model, x, y),
            "extrapolated": without_ends(model, x, y),
            "seen": by_row(seen, x, y),
        }
        results["cuts"][part] = {
            group: {
                "rows": int(rows.sum()),
                **{
                    how: {what: float(values[rows].mean()) for what, values in says.items()}
                    for how, says in predictions.items()
                },
            }
            for group, rows in groups.items()
            if rows.sum() >= LEAST_ROWS
        }
    return results


def main() -> None:
    """Measure, and write the table."""
    warnings.simplefilter("ignore", sx.RangeWarning)
    results = measure_sets(FILE, measure)
    results.update(machine(), settings=SETTINGS)
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    rows = []
    for name, result in results["sets"].items():
        for part, groups in result["cuts"].items():
            others = groups["others"]["unseen"]
            for group in ("inside", "near", "far"):
                if group not in groups:
                    continue
                unseen, seen = groups[group]["unseen"], groups[group]["seen"]
                rows.append((
                    f"{name}, {part} in {result['column']}",
                    group,
                    f"{groups[group]['rows']}",
                    *(f"{unseen[what] / others[what]:.2f}" for what in MEASURES),
                    f"{groups[group]['extrapolated']['width'] / others['width']:.2f}",
                    f"{unseen['width'] / seen['width']:.2f}",
                    f"{unseen['coverage']:.0%}",
                    f"{seen['coverage']:.0%}",
                ))  # fmt: skip
    head = (
        "", "outside", "rows", "width, times rows inside", "epistemic", "noise",
        "width with noise extrapolated", "width, times seen", "90% covers", "the same, seen",
    )  # fmt: skip
    write_table("holes", rows, head)
    for row in rows:
        print(*row, sep=" | ")


if __name__ == "__main__":
    main()
