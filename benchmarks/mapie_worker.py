"""MAPIE's intervals around predictions that a file holds; runs in a venv of its own.

One argument, the path of an npz file with the targets, the means and the quantiles of some rows,
and splits of them into rows to calibrate by and rows to test on. One line out, a JSON object.
"""

import json
import sys

import numpy as np
from mapie.regression import ConformalizedQuantileRegressor, SplitConformalRegressor
from sklearn.base import BaseEstimator, RegressorMixin


class Stored(RegressorMixin, BaseEstimator):
    """Predictions that were made before: `X` has the numbers of the rows."""

    def __init__(self, values=None):
        self.values = values

    def fit(self, X, y):
        """Nothing is left to fit."""
        return self

    def predict(self, X):
        """The stored predictions of these rows."""
        return self.values[np.asarray(X)[:, 0].astype(int)]

    def __sklearn_is_fitted__(self):
        return True


def main() -> None:
    """Coverage and mean width over the splits, by each of two scores."""
    data = np.load(sys.argv[1])
    rows, y = np.arange(len(data["y"]))[:, None], data["y"]
    quantiles = [Stored(data[name]) for name in ("lower", "upper", "median")]
    results = {}
    for name, build in {
        "absolute": lambda: SplitConformalRegressor(Stored(data["mean"]), confidence_level=0.9),
        "quantiles": lambda: ConformalizedQuantileRegressor(quantiles, 0.9, prefit=True),
    }.items():
        measured = []
        for calibrated, tested in zip(data["calibrated"], data["tested"], strict=True):
            model = build().conformalize(rows[calibrated], y[calibrated])
            _, ends = model.predict_interval(rows[tested])
            lower, upper = ends[:, 0, 0], ends[:, 1, 0]
            inside = (lower <= y[tested]) & (y[tested] <= upper)
            measured.append((inside.mean(), (upper - lower).mean()))
        coverage, width = np.mean(measured, axis=0)
        results[name] = {"coverage": coverage, "width": width}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
