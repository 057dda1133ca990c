"""Stacked ensembles without bins, the same for all seven UCI sets, on all twenty standard splits.

`python benchmarks/uci_default.py [SET ...]` fits stacked ensembles (`sx.fit_stacked`) of residual
networks, every split of a set in one program, and writes benchmarks/results/uci_default.json after
each set. What is chosen, temperature and noise floor, is chosen inside each training set.
"""

import time

import jax
import numpy as np
from common import RESULTS, measure_sets, write_table

import scalemix as sx
from scalemix.fitting.candidates import FLOORS, TEMPERATURES
from scalemix.fitting.recipes import Recipe
from scalemix.reproduce.published import DROPOUT

FILE = RESULTS / "uci_default.json"
NUM_SPLITS = 20
LONG, LARGE = (14_000, 17_000), ("kin8nm", "power")


def measure(name: str) -> dict:
    """Scores of every split of a set, and what was chosen."""
    data = sx.data.load(name)
    splits = sx.data.splits(len(data.y))[:NUM_SPLITS]
    keys = jax.random.split(jax.random.key(0), NUM_SPLITS)
    # What `ScaleMixRegressor(bins=None)` is, with longer fits, for all splits at once.
    recipe = Recipe(max_steps=LONG[name in LARGE])
    chosen = recipe.training(len(splits[0][0]))
    method, prior = sx.VariationalEM(**chosen), recipe.build_prior()
    networks = [recipe.build_network(data.x.shape[1], 2, key=key) for key in keys]
    start = time.perf_counter()
    fits = sx.fit_stacked_many(
        [sx.default_candidates(network, prior, method) for network in networks],
        [data.x[train] for train, _ in splits],
        [data.y[train] for train, _ in splits],
        keys=keys,
        num_trial_members=4,
        progress=False,
    )
    seconds = time.perf_counter() - start
    rows = []
    for fit, (_, test) in zip(fits, splits, strict=True):
        prediction, y = fit.posterior.predict(data.x[test]), data.y[test]
        samples = prediction.sample(jax.random.key(1), 112)
        rows.append(
            {
                "rmse": sx.metrics.rmse(y, prediction.mean),
                "log_likelihood": sx.metrics.log_likelihood(prediction.log_prob(y)),
                "crps": sx.metrics.crps(y, samples),
                "coverage90": sx.metrics.interval_coverage(y, prediction.interval(0.9)),
                "coverage90_of_quantiles": sx.metrics.interval_coverage(
                    y, (prediction.quantile(0.05), prediction.quantile(0.95))
                ),
                "score_spread": fit.posterior.score_spread,
                "weights": np.round(fit.weights, 4).tolist(),
                "held_out_scores": np.round(fit.scores, 4).tolist(),
            }
        )
    candidates = [
        {"dof": 4, "floor": floor, "temperature": temperature}
        for floor in FLOORS
        for temperature in TEMPERATURES
    ]
    return {
        "settings": chosen, "candidates": candidates, "fit_seconds": seconds, "splits": rows
    }  # fmt: skip


def mean(rows: list[dict], name: str) -> float:
    """The mean of one figure over splits."""
    return float(np.mean([row[name] for row in rows]))


def table(results: dict) -> list[tuple[str, ...]]:
    """One row a set: our figures, and those of grid-searched MC dropout."""
    rows = []
    for name, measured in sorted(results["sets"].items()):
        splits = measured["splits"]
        rows.append(
            (
                name,
                f"{mean(splits, 'rmse'):.3f}",
                f"{DROPOUT['rmse'][name][0]:g}",
                f"{mean(splits, 'log_likelihood'):.2f}",
                f"{DROPOUT['log_likelihood'][name][0]:g}",
                f"{mean(splits, 'crps'):.3f}",
                f"{mean(splits, 'coverage90'):.0%}",
            )
        )
    return rows


HEAD = (
    "set", "RMSE", "of tuned dropout", "log-likelihood", "of tuned dropout", "CRPS",
    "90% intervals cover",
)  # fmt: skip


def main() -> None:
    """Measure the sets named on the command line, or all of them; `table` only writes the table."""
    results = measure_sets(FILE, measure)
    for row in table(results):
        print("  ".join(f"{cell:>10}" for cell in row))
    write_table("uci_default", table(results), HEAD)


if __name__ == "__main__":
    main()
