"""How long a prediction takes from a model that was saved, and how much of it is compiled anew.

Run with `make benchmark-latency`. Fits an ensemble of the default's size to yacht, in fewer steps,
saves it, and loads it in a process of its own, which predicts means and intervals of 1 to 1,000
rows. A random forest and boosted trees of
scikit-learn, fitted to the same rows, take turns with it. Writes benchmarks/results/latency.json,
and a table into benchmarks/README.md.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import jax
import joblib
from common import alternate, clock, machine, publish
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import scalemix as sx
from scalemix.sklearn import ScaleMixRegressor

# How many rows are asked for, in this order.
SIZES = (1, 1, 2, 5, 17, 64, 65, 300, 1000, 1)
REPETITIONS = 21


def serve(folder: Path) -> dict:
    """Predictions in a new process, as a server would make them."""
    start = time.perf_counter()
    models = {path.stem: joblib.load(path) for path in sorted(folder.glob("*.joblib"))}
    ours, x = models["scalemix"], sx.data.load("yacht").x
    rows = {num: x.repeat(-(-num // len(x)), axis=0)[:num] for num in set(SIZES)}
    loaded = time.perf_counter() - start
    num_compiled = [0]

    def count(event: str, _seconds: float, **_: object) -> None:
        num_compiled[0] += event.endswith("backend_compile_duration")

    jax.monitoring.register_event_duration_secs_listener(count)
    calls = []
    for num in SIZES:
        before, start = num_compiled[0], time.perf_counter()
        ours.predict_interval(rows[num], 0.9)
        calls.append({
            "rows": num, "seconds": time.perf_counter() - start,
            "programs": num_compiled[0] - before,
        })  # fmt: skip

    seconds = {num: in_turn(models, rows[num]) for num in (1, 1000)}
    return {"load_seconds": loaded, "calls": calls, "seconds": seconds}


def in_turn(models: dict, x) -> dict[str, float]:
    """The seconds of each model's predictions, and of our intervals."""
    runs = {name: partial(clock, partial(model.predict, x)) for name, model in models.items()}
    runs["scalemix, interval"] = partial(clock, partial(models["scalemix"].predict_interval, x))
    alternate(runs, 2)
    return alternate(runs, REPETITIONS)


def main() -> None:
    """Fit, save, and let another process predict."""
    if sys.argv[1:]:
        print(json.dumps(serve(Path(sys.argv[1]))))
        return
    data = sx.data.load("yacht")
    with tempfile.TemporaryDirectory() as folder:
        models = {
            "scalemix": ScaleMixRegressor(max_steps=500, random_state=0),
            "random forest": RandomForestRegressor(random_state=0),
            "boosted trees": HistGradientBoostingRegressor(random_state=0),
        }
        for name, model in models.items():
            joblib.dump(model.fit(data.x, data.y), Path(folder) / f"{name}.joblib")
        # Programs that this process left behind would hide what a new one compiles.
        env = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
        ran = subprocess.run(
            [sys.executable, __file__, folder], check=True, capture_output=True, text=True, env=env
        )
    results = {**machine(), **json.loads(ran.stdout.splitlines()[-1])}
    first, again, *others = results["calls"]
    rows = [
        ("first prediction of a process, one row: seconds", f"{first['seconds']:.1f}", ""),
        ("second: milliseconds", f"{1e3 * again['seconds']:.1f}", "a few"),
    ]
    compiled = ", ".join(f"{call['rows']:,}: {call['programs']}" for call in others)
    rows.append(("programs compiled later, by number of rows", compiled, ""))
    for num, seconds in results["seconds"].items():
        rows += [
            (f"{name}, {num} row{'s' * (num != '1')}: milliseconds", f"{1e3 * value:.1f}", "")
            for name, value in seconds.items()
        ]
    publish("latency", rows, results)


if __name__ == "__main__":
    main()
