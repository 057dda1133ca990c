"""Fits sklearn-contrib-bde to the data sets named on standard input; runs in a venv of its own.

One line in, the path of an npz file with `x`, `y`, `x_test` and `y_test`; one line out, a JSON
object with RMSE, log-likelihood and seconds. Standard output carries nothing else.
"""

import json
import sys
import time

import numpy as np
from bde import BdeRegressor
from scipy.special import logsumexp


def fit(x, y, x_test, y_test) -> dict[str, float]:
    """The peer's measures on one split, at the settings of the comparison and its own defaults."""
    start = time.perf_counter()
    x_mean, x_scale = x.mean(axis=0), x.std(axis=0)
    x_scale = np.where(x_scale > 0, x_scale, 1.0)
    y_mean, y_scale = y.mean(), y.std()
    model = BdeRegressor(hidden_layers=[16, 16], n_members=8, warmup_steps=5000, n_samples=2000)
    model.fit((x - x_mean) / x_scale, (y - y_mean) / y_scale)
    raw = np.asarray(model.predict((x_test - x_mean) / x_scale, raw=True), float)
    outputs = raw.reshape(-1, len(y_test), 2)
    mean = outputs[..., 0] * y_scale + y_mean
    # As in its own likelihood: softplus, and a floor.
    scale = (np.logaddexp(outputs[..., 1], 0) + 1e-6) * y_scale
    log_prob = -0.5 * ((y_test - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    log_prob = logsumexp(log_prob, axis=0) - np.log(len(log_prob))
    return {
        "seconds": time.perf_counter() - start,
        "rmse": float(np.sqrt(np.mean((mean.mean(axis=0) - y_test) ** 2))),
        "log_likelihood": float(log_prob.mean()),
    }


for line in sys.stdin:
    with np.load(line.strip()) as file:
        found = fit(*(file[name] for name in ("x", "y", "x_test", "y_test")))
    print(json.dumps(found), flush=True)
