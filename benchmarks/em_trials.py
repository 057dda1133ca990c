"""How long the trials of `fit_stacked` should be, asked of training rows alone.

`python benchmarks/em_trials.py [SET ...]` takes a tenth of each standard training set out as if it
were the test, and fits the default to the rest in two ways that cost the same: trials as long as
the final fits, or trials of .3 of them and longer final fits. Also says whether calibrated
intervals cover what they should. Writes benchmarks/results/em_trials.json after each set.
"""

import jax
import numpy as np
from common import RESULTS, measure_sets, write_table

import scalemix as sx
from scalemix.fitting.recipes import Recipe
from scalemix.fitting.settings import MANY_ROWS

FILE = RESULTS / "em_trials.json"
# Steps of the final fits, for few rows and for many, and the share of them in a trial.
WAYS = {"equal": ((8_000, 10_000), 1.0), "short trials": ((14_000, 17_000), 0.3)}


def inner_splits(name: str, num: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training rows of the standard splits, a tenth of them set apart."""
    data = sx.data.load(name)
    pairs = []
    for i, (train, _) in enumerate(sx.data.splits(len(data.y))[:num]):
        order = np.random.default_rng(1000 + i).permutation(train)
        tenth = len(train) // 10
        pairs.append((order[tenth:], order[:tenth]))
    return pairs


def measure(name: str, way: str) -> list[dict[str, float]]:
    """The scores of one way on each split of a set."""
    data = sx.data.load(name)
    steps, share = WAYS[way]
    many = len(data.y) > MANY_ROWS
    splits = inner_splits(name, 4 if many else 20)
    keys = jax.random.split(jax.random.key(5), len(splits))
    recipe = Recipe(max_steps=steps[many])
    method = sx.VariationalEM(**recipe.training(len(splits[0][0])))
    fits = sx.fit_stacked_many(
        [
            sx.default_candidates(
                recipe.build_network(data.x.shape[1], 2, key=key), recipe.build_prior(), method
            )
            for key in keys
        ],
        [data.x[train] for train, _ in splits],
        [data.y[train] for train, _ in splits],
        keys=keys,
        trial_share=share,
        progress=False,
    )
    rows = []
    for fit, (_, apart) in zip(fits, splits, strict=True):
        prediction, y = fit.posterior.predict(data.x[apart]), data.y[apart]
        own = prediction.quantile(0.05), prediction.quantile(0.95)
        rows.append(
            {
                "rmse": sx.metrics.rmse(y, prediction.mean),
                "log_likelihood": sx.metrics.log_likelihood(prediction.log_prob(y)),
                "coverage90_of_quantiles": sx.metrics.interval_coverage(y, own),
                "coverage90": sx.metrics.interval_coverage(y, prediction.interval(0.9)),
                "score_spread": fit.posterior.score_spread,
            }
        )
    return rows


def table(results: dict) -> list[tuple[str, ...]]:
    """One row a set, each way's means beside each other."""
    rows = []
    for name, ways in results["sets"].items():

        def mean(way: str, what: str, ways: dict = ways) -> float:
            return float(np.mean([row[what] for row in ways[way]]))

        shown = [f"{mean(w, 'rmse'):.3g}, {mean(w, 'log_likelihood'):.2f}" for w in WAYS]
        covers = [
            f"{mean('short trials', what):.0%}"
            for what in ("coverage90_of_quantiles", "coverage90")
        ]
        rows.append((name, f"{len(ways['equal'])}", *shown, *covers))
    return rows


def main() -> None:
    """Measure the sets named on the command line, or all of them; `table` only writes the table."""
    results = measure_sets(FILE, lambda name: {way: measure(name, way) for way in WAYS})
    head = ("set", "splits", *WAYS, "quantiles cover", "calibrated")
    for row in (head, *table(results)):
        print("  ".join(f"{cell:>16}" for cell in row))
    write_table("em_trials", table(results), head)


if __name__ == "__main__":
    main()
