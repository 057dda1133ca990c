"""Conformal intervals: what they cover over many splits, and how wide they are beside MAPIE's.

Run with `make benchmark-conformal`, which gives MAPIE a venv of its own. One fit to half of each of
three sets; the other half is split 200 times into rows to calibrate by and rows to test on. MAPIE
works around the same predictions: with absolute errors, its default, and with the model's own
quantiles. `--powers` measures what the power of the predicted deviation was chosen by, on other
sets. Writes benchmarks/results/conformal.json, and tables into benchmarks/README.md.
"""

import argparse
import json
import math
import subprocess
import tempfile

import numpy as np
from common import HERE, RESULTS, machine, publish, write_table

import scalemix as sx
from scalemix.posterior.conformal import calibrate
from scalemix.sklearn import ScaleMixRegressor

FILE = RESULTS / "conformal.json"
SETS = ("concrete", "energy", "wine")
NUM_SPLITS, NUM_DRAWS = 200, 32
# Fewer members and steps than by default: coverage is the same whatever the model.
SETTINGS = {"num_members": 4, "max_steps": 4000, "temperature": 0.3, "noise_floor": 0.1}


# What the power was chosen on, and the powers: no sets of the comparison.
CHOSEN_ON, POWERS = ("boston", "yacht", "kin8nm", "power"), (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_ROWS = 2000


def measure_powers(name: str) -> dict[str, float]:
    """Widths at 90% by the power of the deviation that errors are divided by, times those of 0."""
    data, rng = sx.data.load(name), np.random.default_rng(0)
    train, rest = np.array_split(rng.permutation(len(data.y))[:MOST_ROWS], 2)
    model = ScaleMixRegressor(random_state=0, **SETTINGS).fit(data.x[train], data.y[train])
    predictive = model.posterior_.predict(model.encode(data.x[rest]), num_draws=NUM_DRAWS)
    errors, std = np.abs(data.y[rest] - predictive.mean), predictive.std
    widths = []
    for _ in range(NUM_SPLITS):
        calibrated, tested = np.array_split(rng.permutation(len(rest)), 2)
        place = math.ceil(round(0.9 * (len(calibrated) + 1), 10)) - 1
        widths.append([
            np.sort(errors[calibrated] / std[calibrated] ** power)[place]
            * np.mean(std[tested] ** power)
            for power in POWERS
        ])  # fmt: skip
    means = np.mean(widths, axis=0)
    return {
        f"{power:g}": float(value) for power, value in zip(POWERS, means / means[0], strict=True)
    }


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


def write_powers(results: dict[str, dict[str, float]]) -> None:
    """A table of the powers."""
    rows = [(name, *(f"{value:.2f}" for value in of.values())) for name, of in results.items()]
    write_table("conformal_powers", rows, ("power", *(f"{power:g}" for power in POWERS)))


def main() -> None:
    """Measure all sets, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", help="a Python that has MAPIE")
    parser.add_argument("--powers", action="store_true", help="only the powers, again")
    given = parser.parse_args()
    if given.powers:
        results = json.loads(FILE.read_text())
        results["powers"] = {name: measure_powers(name) for name in CHOSEN_ON}
        FILE.write_text(json.dumps(results, indent=2) + "\n")
        write_powers(results["powers"])
        return
    peer = given.peer_python
    powers = json.loads(FILE.read_text()).get("powers", {}) if FILE.exists() else {}
    results = {**machine(), "settings": SETTINGS, "powers": powers, "sets": {}}
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
