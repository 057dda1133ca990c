"""Fits other packages to the data sets named on standard input; runs in a venv of its own.

One line in, the name of a peer and the path of an npz file with `x`, `y`, `x_test` and `y_test`;
one line out, a JSON object with RMSE, log-likelihood, CRPS and seconds. Standard output carries
nothing else. `table_worker.py` shares its parts, and so each package is imported where it is used.
"""

import importlib
import json
import sys
import time

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import cross_val_predict
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

NUM_DRAWS = 200
# Its own defaults are a toy's: two members, ten samples.
BDE = {"hidden_layers": [16, 16], "n_members": 8, "warmup_steps": 5000, "n_samples": 2000}


def bde(x, y, x_test) -> tuple[np.ndarray, np.ndarray]:
    """Means and scales of each sample of the ensemble: (samples, rows)."""
    from bde import BdeRegressor

    scaler, target = StandardScaler().fit(x), StandardScaler().fit(y[:, None])
    model = BdeRegressor(**BDE)
    model.fit(scaler.transform(x), target.transform(y[:, None])[:, 0])
    raw = np.asarray(model.predict(scaler.transform(x_test), raw=True), float)
    outputs = raw.reshape(-1, len(x_test), 2)
    # As in its own likelihood: softplus, and a floor.
    scale = np.logaddexp(outputs[..., 1], 0) + 1e-6
    return outputs[..., 0] * target.scale_ + target.mean_, scale * target.scale_


def ngboost(x, y, x_test) -> tuple[np.ndarray, np.ndarray]:
    """A normal distribution for each row."""
    from ngboost import NGBRegressor

    predicted = NGBRegressor(verbose=False, random_state=0).fit(x, y).pred_dist(x_test)
    return predicted.params["loc"][None], predicted.params["scale"][None]


def with_residuals(build):
    """A point prediction, and around it the residuals of cross-validation on the training rows."""

    def fit(x, y, x_test) -> tuple[np.ndarray, np.ndarray]:
        residuals = y - cross_val_predict(build(), x, y, cv=5)
        mean = np.asarray(build().fit(x, y).predict(x_test), float)
        return mean[None], np.full((1, len(mean)), np.sqrt(np.mean(residuals**2)))

    return fit


def trees():
    """XGBoost's trees."""
    from xgboost import XGBRegressor

    return XGBRegressor(n_estimators=500, learning_rate=0.1, max_depth=4, random_state=0)


def network():
    """scikit-learn's network, inputs and target standardised."""
    return make_pipeline(
        StandardScaler(),
        TransformedTargetRegressor(
            MLPRegressor(max_iter=2000, random_state=0), transformer=StandardScaler()
        ),
    )


PEERS = {
    "sklearn-contrib-bde": bde,
    "XGBoost": with_residuals(trees),
    "NGBoost": ngboost,
    "random forest": with_residuals(lambda: RandomForestRegressor(random_state=0)),
    "MLPRegressor": with_residuals(network),
}


def crps(mean, scale, y) -> float:
    """From draws, for a mixture of normal distributions."""
    rng = np.random.default_rng(0)
    which = rng.integers(len(mean), size=(NUM_DRAWS, len(y)))
    rows = np.arange(len(y))
    draws = np.sort(rng.normal(mean[which, rows], scale[which, rows]), axis=0)
    weights = 2 * np.arange(1, NUM_DRAWS + 1) - NUM_DRAWS - 1
    spread = weights @ draws / (NUM_DRAWS * (NUM_DRAWS - 1))
    return float(np.mean(np.abs(draws - y).mean(axis=0) - spread))


def scores(mean, scale, y_test) -> dict[str, float]:
    """Measures of a mixture of normal distributions for each row."""
    log_prob = logsumexp(norm.logpdf(y_test, mean, scale), axis=0) - np.log(len(mean))
    return {
        "rmse": float(np.sqrt(np.mean((mean.mean(axis=0) - y_test) ** 2))),
        "log_likelihood": float(log_prob.mean()),
        "crps": crps(mean, scale, y_test),
    }


def measure(peer: str, x, y, x_test, y_test) -> dict[str, float]:
    """A peer's measures on one split."""
    start = time.perf_counter()
    mean, scale = PEERS[peer](x, y, x_test)
    return {"seconds": time.perf_counter() - start, **scores(mean, scale, y_test)}


def main() -> None:
    """Answer line by line."""
    for name in ("bde", "ngboost", "xgboost"):
        # Before any clock runs.
        importlib.import_module(name)
    for line in sys.stdin:
        peer, path = line.rstrip("\n").split("\t")
        with np.load(path) as file:
            result = measure(peer, *(file[name] for name in ("x", "y", "x_test", "y_test")))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
