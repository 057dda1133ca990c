"""Conformal intervals: what they cover over many splits, and how wide they are beside MAPIE's.

Run with `make benchmark-conformal`, which gives MAPIE a venv of its own. One fit to half of each of
three sets; the other half is split 200 times into rows to calibrate by and rows to test on. MAPIE
works around the same predictions: with absolute errors, its default, and with the model's own
quantiles. Writes benchmarks/results/conformal.json, and a table into benchmarks/README.md.
"""

import argparse
import json
import subprocess
import tempfile

import numpy as np
from common import HERE, machine, publish

import scalemix as sx
from scalemix.posterior.conformal import calibrate
from scalemix.sklearn import ScaleMixRegressor

SETS = ("concrete", "energy", "wine")
NUM_SPLITS, NUM_DRAWS = 200, 32
# Fewer members and steps than by default: coverage is the same whatever the model.
SETTINGS = {"num_members": 4, "max_steps": 4000, "temperature": 0.3, "noise_floor": 0.1}


def measure(name: str, peer: str) -> dict:
    """Coverage and mean width over the splits, ours and MAPIE's, and of the posterior itself."""
    data, rng = sx.data.load(name), np.random.default_rng(0)
    order = rng.permutation(len(data.y))
    train, rest = np.split(order, [len(order) // 2])
    model = ScaleMixRegressor(random_state=0, **SETTINGS).fit(data.x[train], data.y[train])
    x, y = model.encode(data.x[rest]), data.y[rest]

    def predicted(rows):
        return model.posterior_.predict(x[rows], num_draws=NUM_DRAWS)

    predictive = predicted(np.arange(len(y)))
    splits = [np.split(rng.permutation(len(y)), [len(y) // 2]) for _ in range(NUM_SPLITS)]
    ours = []
    for calibrated, tested in splits:
        conformal = calibrate(predicted(calibrated), y[calibrated])
        lower, upper = conformal.interval(predicted(tested), 0.9)
        ours.append((np.mean((lower <= y[tested]) & (y[tested] <= upper)), np.mean(upper - lower)))
    coverage, width = np.mean(ours, axis=0)
    lower, median, upper = predictive.quantile([0.05, 0.5, 0.95])
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(
            file, y=y, mean=predictive.mean, lower=lower, median=median, upper=upper,
            calibrated=[one for one, _ in splits], tested=[one for _, one in splits],
        )  # fmt: skip
        file.flush()
        command = [peer, str(HERE / "mapie_worker.py"), file.name]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return {
        "rows": {"trained": len(train), "calibrated": len(splits[0][0])},
        "scalemix": {
            "coverage": float(coverage),
            "standard_error": float(np.std(ours, axis=0)[0] / np.sqrt(NUM_SPLITS)),
            "width": float(width),
        },
        "posterior": {
            "coverage": float(np.mean((lower <= y) & (y <= upper))),
            "width": float(np.mean(upper - lower)),
        },
        "mapie": json.loads(ran.stdout.splitlines()[-1]),
    }


def main() -> None:
    """Measure all sets, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", required=True, help="a Python that has MAPIE")
    peer = parser.parse_args().peer_python
    results = {**machine(), "settings": SETTINGS, "sets": {}}
    rows = []
    for name in SETS:
        figures = results["sets"][name] = measure(name, peer)
        ours, mapie = figures["scalemix"], figures["mapie"]
        rows += [
            (f"{name}: 90% intervals cover", f"{ours['coverage']:.1%}", "89% to 91%"),
            (f"{name}: the posterior's own cover", f"{figures['posterior']['coverage']:.1%}", ""),
            (
                f"{name}: width, times MAPIE's with absolute errors",
                f"{ours['width'] / mapie['absolute']['width']:.2f}",
                "at most 1",
            ),
            (
                f"{name}: width, times MAPIE's with the model's quantiles",
                f"{ours['width'] / mapie['quantiles']['width']:.2f}",
                "at most 1",
            ),
        ]
        print(name, "done", flush=True)
    publish("conformal", rows, results)


if __name__ == "__main__":
    main()
