"""The default regressor against other packages, on the seven UCI sets.

Run with `make benchmark-peers`, which gives the others a venv of their own. The first four standard
splits of each set, one of kin8nm and power; every package with the same settings for all sets.
Writes benchmarks/results/uci_peers.json after each fit, leaves out what is there already, and puts
tables into benchmarks/README.md.
"""

import argparse
import itertools
import json

import numpy as np
from common import RESULTS, Peers, machine, our_measures, write_table
from scipy.stats import rankdata

import scalemix as sx
from scalemix.sklearn import ScaleMixRegressor

FILE = RESULTS / "uci_peers.json"
SETS = ("yacht", "energy", "boston", "concrete", "wine", "kin8nm", "power")
PEERS = ("sklearn-contrib-bde", "XGBoost", "NGBoost", "random forest", "MLPRegressor")
ALL = ("scalemix", *PEERS)
MEASURES = {"rmse": "RMSE", "log_likelihood": "log-likelihood", "crps": "CRPS"}
DIGITS = {"rmse": "{:.3g}", "log_likelihood": "{:.2f}", "crps": "{:.3g}"}


def num_splits(name: str) -> int:
    """Fewer of the large sets."""
    return 1 if name in ("kin8nm", "power") else 4


def fit_ours(x, y, x_test, y_test, seed: int) -> dict[str, float]:
    """Our measures on one split, the estimator as it comes."""
    prediction = ScaleMixRegressor(random_state=seed).fit(x, y).predict_dist(x_test)
    return our_measures(prediction, y_test, seed) | {
        "coverage90_of_quantiles": sx.metrics.interval_coverage(
            y_test, (prediction.quantile(0.05), prediction.quantile(0.95))
        ),
    }


def means(results: dict, measure: str) -> tuple[list[str], np.ndarray]:
    """The sets that all packages have been fitted to, and the means: (sets, packages)."""
    names = [name for name in SETS if all(results["fits"].get(name, {}).get(who) for who in ALL)]
    values = []
    for name in names:
        columns = [results["fits"][name][who] for who in ALL]
        # The splits that all have been fitted to.
        num = min(map(len, columns))
        values.append([np.mean([fit[measure] for fit in column[:num]]) for column in columns])
    return names, np.array(values)


def mean_ranks(values: np.ndarray, higher_is_better: bool) -> list[str]:
    """The mean rank of each package over the sets."""
    ranks = rankdata(-values if higher_is_better else values, axis=1).mean(axis=0)
    return [f"{rank:.1f}" for rank in ranks]


def coverage(results: dict) -> list[tuple[str, ...]]:
    """How many test targets our 90% intervals cover."""
    rows = []
    for name in SETS:
        fits = results["fits"].get(name, {}).get("scalemix", [])
        if fits:
            rows.append(
                (
                    name,
                    f"{len(fits)}",
                    f"{np.mean([fit['coverage90'] for fit in fits]):.0%}",
                    f"{np.mean([fit['coverage90_of_quantiles'] for fit in fits]):.0%}",
                )
            )
    return rows


def write_tables(results: dict) -> None:
    """A table for each measure with the mean ranks, and one of coverage."""
    write_table(
        "uci_peers_coverage",
        coverage(results),
        ("set", "splits", "cover", "the distribution's own quantiles"),
    )
    head = ("set", *ALL)
    for measure in MEASURES:
        names, values = means(results, measure)
        if not names:
            return
        rows = [
            (name, *(DIGITS[measure].format(value) for value in row))
            for name, row in zip(names, values, strict=True)
        ]
        rows.append(("mean rank", *mean_ranks(values, measure == "log_likelihood")))
        write_table(f"uci_peers_{measure}", rows, head)
        print(MEASURES[measure])
        for row in (head, *rows):
            print("  ".join(f"{cell:>19}" for cell in row))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer-python", required=True, help="a Python that has the others")
    parser.add_argument("--only", nargs="*", help="the packages to run now; all unless given")
    given = parser.parse_args()
    peers = Peers(given.peer_python)
    results = json.loads(FILE.read_text()) if FILE.exists() else {"fits": {}}
    results = {**machine(), **results}
    for split, name in itertools.product(range(max(map(num_splits, SETS))), SETS):
        if split >= num_splits(name):
            continue
        data = sx.data.load(name)
        train, test = sx.data.splits(len(data.y))[split]
        rows = data.x[train], data.y[train], data.x[test], data.y[test]
        for who in ALL:
            done = results["fits"].setdefault(name, {}).setdefault(who, [])
            if len(done) > split or who not in (given.only or ALL):
                continue
            scores = fit_ours(*rows, split) if who == "scalemix" else peers.fit(who, *rows)
            done.append(scores)
            FILE.write_text(json.dumps(results, indent=1) + "\n")
            print(name, split, who, {k: round(v, 3) for k, v in scores.items()}, flush=True)
        write_tables(results)
    peers.close()


if __name__ == "__main__":
    main()
