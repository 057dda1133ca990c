"""A made table with a column of 3,000 categories: all looked up, and only the 500 most frequent.

    python benchmarks/levels.py fit     # both ways
    python benchmarks/levels.py peer    # CatBoost, in a venv of its own, with pandas
    python benchmarks/levels.py speed   # a step, by the number of levels
    python benchmarks/levels.py table   # docs/tutorials/frames.md

Each writes its part of results/levels.json.
"""

import json
import sys
import time
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
FILE = HERE / "results" / "levels.json"
PAGE = HERE.parent / "docs" / "tutorials" / "frames.md"
NUM_ROWS, NUM_TEST, NUM_LEVELS, NOISE = 20_000, 5_000, 3_000, 0.5
# Rows of the test by how many rows of training have their category.
SEEN = {"all": (0, NUM_ROWS), "never": (0, 0), "1 or 2": (1, 2), "3 to 10": (3, 10),
        "more": (11, NUM_ROWS)}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "max_steps": 2000, "num_members": 4, "temperature": 0.3, "noise_floor": 0.1, "random_state": 0,
}  # fmt: skip
NAMES = {"looked up": "scalemix", "most frequent": "scalemix, the 500 most frequent alone"}


def table() -> tuple[pd.DataFrame, np.ndarray, dict[str, np.ndarray]]:
    """Columns, targets, and which rows of the test are of each kind."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, NUM_LEVELS + 1) ** 0.9
    num = NUM_ROWS + NUM_TEST
    level = rng.choice(NUM_LEVELS, num, p=shares / shares.sum())
    effects = rng.normal(size=NUM_LEVELS)
    a, b = rng.normal(size=(2, num))
    y = effects[level] + np.sin(1.5 * a) + 0.4 * b**2 + NOISE * rng.normal(size=num)
    frame = pd.DataFrame({"a": a, "level": [f"l{i}" for i in level], "b": b})
    seen = np.bincount(level[:NUM_ROWS], minlength=NUM_LEVELS)[level[NUM_ROWS:]]
    return frame, y, {kind: (seen >= low) & (seen <= high) for kind, (low, high) in SEEN.items()}


def scores(
    mean: np.ndarray,
    log_prob: np.ndarray,
    interval: tuple[np.ndarray, np.ndarray],
    kinds: dict[str, np.ndarray],
) -> dict[str, Any]:
    """Errors, log-likelihoods, and what 90% intervals cover, by kind of row."""
    y = table()[1][NUM_ROWS:]
    covered = (interval[0] <= y) & (y <= interval[1])
    return {
        kind: {
            "rmse": float(np.sqrt(np.mean((mean - y)[rows] ** 2))),
            "log_likelihood": float(log_prob[rows].mean()),
            "coverage90": float(covered[rows].mean()),
        }
        for kind, rows in kinds.items()
    }


def keep(name: str, result: Any) -> None:
    """Put a part into the file."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps(results | {name: result}, indent=1) + "\n")
    print(name, result, flush=True)


def fit() -> None:
    """Ours, both ways."""
    from scalemix.sklearn import ScaleMixRegressor
    from scalemix.tables import learning

    frame, y, kinds = table()
    for name, few in (("looked up", learning.FEW_LEVELS), ("most frequent", NUM_LEVELS)):
        learning.FEW_LEVELS = few
        start = time.process_time()
        model = ScaleMixRegressor(**SETTINGS).fit(frame[:NUM_ROWS], y[:NUM_ROWS])
        # The time of the processor, which other work on the machine does not lengthen.
        seconds = time.process_time() - start
        there = model.predict_dist(frame[NUM_ROWS:])
        log_prob, interval = there.log_prob(y[NUM_ROWS:]), there.interval(0.9)
        result = scores(there.mean, log_prob, interval, kinds)
        keep(name, {"by_kind": result, "cpu_seconds": seconds})


def peer() -> None:
    """CatBoost, once for the error and once with a spread of its own for each row."""
    from catboost import CatBoostRegressor

    frame, y, kinds = table()
    given: dict[str, Any] = {"verbose": 0, "cat_features": ["level"], "random_seed": 0}
    start = time.process_time()
    mean = CatBoostRegressor(**given).fit(frame[:NUM_ROWS], y[:NUM_ROWS]).predict(frame[NUM_ROWS:])
    seconds = time.process_time() - start
    unsure = CatBoostRegressor(loss_function="RMSEWithUncertainty", **given)
    middle, variance = unsure.fit(frame[:NUM_ROWS], y[:NUM_ROWS]).predict(frame[NUM_ROWS:]).T
    log_prob = -0.5 * (np.log(2 * np.pi * variance) + (y[NUM_ROWS:] - middle) ** 2 / variance)
    half = NormalDist().inv_cdf(0.95) * np.sqrt(variance)
    by_kind = scores(mean, log_prob, (middle - half, middle + half), kinds)
    keep("catboost", {"by_kind": by_kind, "cpu_seconds": seconds})


def speed() -> None:
    """Milliseconds of the processor in a step of four members, by the number of levels."""
    from scalemix.sklearn import ScaleMixRegressor
    from scalemix.tables import learning

    rng, num, results = np.random.default_rng(0), 4000, {}
    for num_levels in (32, 64, 128, 256, 500):
        level = np.concatenate([np.arange(num_levels), rng.integers(num_levels, size=num)])[:num]
        a = rng.normal(size=num)
        frame = pd.DataFrame({"a": a, "level": [f"l{i}" for i in level]})
        y = rng.normal(size=num_levels)[level] + a + NOISE * rng.normal(size=num)
        for name, few in (("inputs", num_levels), ("looked up", 0)):
            learning.FEW_LEVELS = few

            def seconds(steps: int, frame: pd.DataFrame = frame, y: np.ndarray = y) -> float:
                start = time.process_time()
                ScaleMixRegressor(**SETTINGS | {"max_steps": steps}).fit(frame, y)
                return time.process_time() - start

            # The first one compiles; the difference of the others is 2,000 steps.
            seconds(500)
            short, long = seconds(500), seconds(2500)
            results[f"{num_levels}, {name}"] = (long - short) / 2
    keep("milliseconds", results)


def write_page() -> None:
    """The table of the page."""
    results = json.loads(FILE.read_text())
    lines = [
        f"| | {' | '.join(SEEN)} | log-likelihood of all | 90% covers, of all and of never "
        f"| processor seconds |",
        f"|---|{'---|' * len(SEEN)}---|---|---|",
    ]
    for name in (*NAMES, "catboost"):
        kinds = results[name]["by_kind"]
        errors = " | ".join(f"{kinds[kind]['rmse']:.2f}" for kind in SEEN)
        likely, seconds = kinds["all"]["log_likelihood"], results[name]["cpu_seconds"]
        covers = ", ".join(f"{kinds[kind]['coverage90']:.0%}" for kind in ("all", "never"))
        lines.append(
            f"| {NAMES.get(name, name)} | {errors} | {likely:.2f} | {covers} | {seconds:.0f} |"
        )
    begin, end = "<!-- begin levels -->", "<!-- end levels -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text("\n".join([before + begin, *lines, end + rest.split(end)[1]]))


def main() -> None:
    """Measure, or write the page."""
    parts = {"fit": fit, "peer": peer, "speed": speed, "table": write_page}
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(__doc__)
    parts[sys.argv[1]]()


if __name__ == "__main__":
    main()
