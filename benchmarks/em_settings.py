"""Which noise model and temperature suit which set: what the default configuration was built on.

`python benchmarks/em_settings.py [SET ...]` fits ensembles of eight members at every setting, on
the first ten splits, and scores the settings on inner folds of each training set (four folds, two
members). Writes benchmarks/results/em_settings.json. It took 9 minutes on an H200 for five sets.
"""

import dataclasses
import json
import sys

import jax
import numpy as np
from common import RESULTS, machine, write_table

import scalemix as sx
from scalemix import Candidate
from scalemix.data.preparation import prepare
from scalemix.fitting.trials import try_out

FILE = RESULTS / "em_settings.json"
NUM_SPLITS, NUM_FOLDS, NUM_MEMBERS = 10, 4, 8
# A Student-t of a thousand degrees of freedom is Gaussian, and shares the program.
SETTINGS = [
    {"dof": dof, "floor": floor, "temperature": temperature}
    for dof in (4.0, 1000.0)
    for floor in (0.001, 0.02, 0.1)
    for temperature in (0.1, 0.3, 1.0)
]


def candidates(in_size: int, key) -> list[Candidate]:
    """A model and a method for each setting."""
    network = sx.networks.ResNet(in_size, 2, 50, 2, key=key)
    method = sx.VariationalEM(steps=15_000, batch_size=64, chunk_steps=1000)
    pairs = []
    for s in SETTINGS:
        noise = sx.likelihoods.StudentT(s["dof"], floor=s["floor"], per_input=True)
        model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), noise)
        pairs.append(Candidate(model, dataclasses.replace(method, temperature=s["temperature"])))
    return pairs


def measure(name: str) -> list[dict]:
    """Test figures and held-out log-likelihood of each setting."""
    data = sx.data.load(name)
    splits = sx.data.splits(len(data.y))[:NUM_SPLITS]
    keys = jax.random.split(jax.random.key(0), NUM_SPLITS)
    options = [candidates(data.x.shape[1], key) for key in keys]
    num = len(SETTINGS)
    posteriors = sx.fit_many(
        [c.model for each in options for c in each],
        [data.x[train] for train, _ in splits for _ in range(num)],
        [data.y[train] for train, _ in splits for _ in range(num)],
        [dataclasses.replace(c.method, num_members=NUM_MEMBERS) for each in options for c in each],
        keys=jax.random.split(jax.random.key(1), num * NUM_SPLITS),
    )
    rows = [{**s, "rmse": [], "log_likelihood": [], "held_out": []} for s in SETTINGS]
    for i, (_, test) in enumerate(splits):
        for row, posterior in zip(rows, posteriors[num * i :], strict=False):
            prediction = posterior.predict(data.x[test])
            row["rmse"].append(sx.metrics.rmse(data.y[test], prediction.mean))
            row["log_likelihood"].append(prediction.log_prob(data.y[test]).mean())
    for each, (train, _), key in zip(options, splits, keys, strict=True):
        prepared, scaling = prepare(each[0].model, data.x[train], data.y[train], None, True)
        for fold in range(NUM_FOLDS):
            key = jax.random.fold_in(key, fold)
            ((values, _, weight),) = try_out(
                [each], [prepared], 2, 1 / NUM_FOLDS, key[None], key[None]
            )
            scores = np.average(values, axis=1, weights=weight) - np.log(scaling.y_scale)
            for row, score in zip(rows, scores, strict=True):
                row["held_out"].append(score)
    return [
        {
            **{name: row[name] for name in ("dof", "floor", "temperature")},
            "rmse": round(float(np.mean(row["rmse"])), 4),
            "log_likelihood": round(float(np.mean(row["log_likelihood"])), 4),
            "held_out_log_likelihood": round(float(np.mean(row["held_out"])), 4),
        }
        for row in rows
    ]


def table(results: dict) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """One row a setting: RMSE and log-likelihood on each set."""
    names = list(results["sets"])
    rows = []
    for i, s in enumerate(SETTINGS):
        cells = [
            f"{results['sets'][n][i]['rmse']:.3f}, {results['sets'][n][i]['log_likelihood']:.2f}"
            for n in names
        ]
        noise = "Gaussian" if s["dof"] > 100 else f"Student-t({s['dof']:g})"
        rows.append((noise, f"{s['floor']:g}", f"{s['temperature']:g}", *cells))
    return rows, ("noise", "floor", "temperature", *names)


def main() -> None:
    """Measure the sets named on the command line, or five; `table` only writes the table."""
    names = sys.argv[1:] or ["boston", "yacht", "concrete", "wine", "energy"]
    results = json.loads(FILE.read_text()) if FILE.exists() else {"sets": {}}
    if names != ["table"]:
        results.update(machine())
        for name in names:
            results["sets"][name] = measure(name)
            FILE.write_text(json.dumps(results, indent=1) + "\n")
    write_table("em_settings", *table(results))


if __name__ == "__main__":
    main()
