"""One fit of one package to one fold of a table, in a process of its own.

    python table_worker.py PACKAGE TABLE.npz FOLD RESULT.json PROCESSOR_SECONDS

The fold is the seed too. Writes the measures; `wall_seconds` until predictions for the test rows
are there, before they are measured; the processor time of the whole process, and `extra_seconds`,
which went into what its point predictions do not need; and what it ran on. Each package is imported
where it is used, and has its defaults, but bde (see `peers_worker.py`) and
logistic regression, which may take 1,000 steps. Packages read text as they can:

- scalemix and CatBoost: the frame as it is;
- XGBoost, LightGBM, RealMLP and TabM: columns of the type `category`, and medians in gaps of
  numbers for the two networks, which take none;
- random forest and NGBoost: the position of each level, medians in gaps;
- ridge, logistic regression and bde: an input for each level, medians in gaps, all standardised.

XGBoost, LightGBM, random forest, ridge, RealMLP and TabM predict a number alone. Its distribution
is taken to be normal, with the deviation of residuals in five-fold cross-validation on the training
rows, or of one held-out fifth where there are more than 2,000 of them, and always for RealMLP and
TabM, whose fits are slow.
"""

import json
import os
import platform
import resource
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
from peers_worker import BDE, bde, ngboost, scores
from scipy.special import ndtr
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

MANY_ROWS = 2000
SLOW = ("RealMLP", "TabM")
# Settings of our estimators; chains are compared in `estimator_peers.py`.
OURS = {"scalemix": {}, "scalemix, chains": {"inference": "mcmc"}}
# By package, what to look up the version of; scikit-learn for the rest.
DISTRIBUTIONS = {
    "XGBoost": "xgboost-cpu",
    "LightGBM": "lightgbm",
    "CatBoost": "catboost",
    "NGBoost": "ngboost",
    "RealMLP": "pytabkit",
    "TabM": "pytabkit",
    "bde": "sklearn-contrib-bde",
}
# When predictions were there.
PREDICTED: list[float] = []
# Where a forest finds a class impossible that then occurs.
LEAST_PROBABILITY = 1e-15


def read(path: str, fold: int) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Both parts of a fold."""

    def column(name: str) -> np.ndarray:
        values = file[f"x_{name}"]
        if f"levels_{name}" not in file:
            return values
        levels = file[f"levels_{name}"].astype(object)
        return np.where(levels == "", None, levels)[values]

    with np.load(path) as file:
        frame = pd.DataFrame({name: column(name) for name in file["names"].tolist()})
        is_test, y = file["fold"] == fold, file["y"]
    first, second = (frame[rows].reset_index(drop=True) for rows in (~is_test, is_test))
    return first, y[~is_test], second, y[is_test]


def words_of(x: pd.DataFrame) -> list[str]:
    """The columns of text."""
    return [name for name in x if not pd.api.types.is_numeric_dtype(x[name])]


class AsText:
    """Text in place of gaps in text, as CatBoost wants it."""

    def fit(self, x: pd.DataFrame) -> "AsText":
        """Remember the columns."""
        self.words = words_of(x)
        return self

    def transform(self, x: pd.DataFrame) -> pd.DataFrame:
        """The frame, with no gaps in text."""
        return x.assign(**{name: x[name].fillna("?").astype(str) for name in self.words})


class AsCategories:
    """Text as categories with the levels of the training rows; others become gaps."""

    def __init__(self, fill: bool):
        self.fill = fill

    def fit(self, x: pd.DataFrame) -> "AsCategories":
        """Find levels and medians."""
        self.levels = {name: sorted(x[name].dropna().unique()) for name in words_of(x)}
        self.medians = x.drop(columns=list(self.levels)).median().fillna(0)
        return self

    def transform(self, x: pd.DataFrame) -> pd.DataFrame:
        """The frame with types."""
        x = x.assign(**{name: pd.Categorical(x[name], lev) for name, lev in self.levels.items()})
        return x.fillna(self.medians) if self.fill else x


def as_numbers(x: pd.DataFrame, one_hot: bool):
    """An encoder to arrays of numbers."""
    words = words_of(x)
    rest = [name for name in x if name not in words]
    median = SimpleImputer(strategy="median", keep_empty_features=True)
    if one_hot:
        levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        return make_pipeline(
            make_column_transformer((levels, words), (median, rest)), StandardScaler()
        )
    levels = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1
    )
    return make_column_transformer((levels, words), (median, rest))


def estimator(package: str, classes: int, seed: int, words: list[str]):
    """A package's estimator; `classes` is zero for regression."""
    match package:
        case "XGBoost":
            from xgboost import XGBClassifier, XGBRegressor

            kind = XGBClassifier if classes else XGBRegressor
            return kind(random_state=seed, enable_categorical=True)
        case "LightGBM":
            from lightgbm import LGBMClassifier, LGBMRegressor

            return (LGBMClassifier if classes else LGBMRegressor)(random_state=seed, verbose=-1)
        case "CatBoost":
            from catboost import CatBoostClassifier, CatBoostRegressor

            kind = CatBoostClassifier if classes else CatBoostRegressor
            return kind(random_seed=seed, verbose=0, cat_features=words)
        case "random forest":
            from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

            kind = RandomForestClassifier if classes else RandomForestRegressor
            return kind(random_state=seed)
        case "linear":
            from sklearn.linear_model import LogisticRegression, Ridge

            return LogisticRegression(max_iter=1000) if classes else Ridge()
        case "RealMLP":
            from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

            kind = RealMLP_TD_Classifier if classes else RealMLP_TD_Regressor
            return kind(random_state=seed, n_threads=1)
        case "TabM":
            from pytabkit import TabM_D_Classifier, TabM_D_Regressor

            kind = TabM_D_Classifier if classes else TabM_D_Regressor
            return kind(random_state=seed, n_threads=1)
        case "NGBoost":
            from ngboost import NGBClassifier
            from ngboost.distns import k_categorical

            return NGBClassifier(k_categorical(classes), verbose=False, random_state=seed)
        case "bde":
            from bde import BdeClassifier

            return BdeClassifier(seed=seed, **BDE)
    raise ValueError(f"No package is called {package!r}.")


def encoder(package: str, x: pd.DataFrame):
    """What makes of a frame what a package reads."""
    match package:
        case "CatBoost":
            return AsText()
        case "XGBoost" | "LightGBM":
            return AsCategories(fill=False)
        case "RealMLP" | "TabM":
            return AsCategories(fill=True)
    return as_numbers(x, one_hot=package in ("linear", "bde"))


def predicted(*values):
    """The same predictions, which are there by now: what comes next is their measures."""
    values = tuple(np.asarray(value) for value in values)
    PREDICTED.append(time.perf_counter())
    return values if len(values) > 1 else values[0]


def ours(x, y, x_test, y_test, seed: int, settings: dict) -> dict[str, float]:
    """Our measures, the estimator as it comes but for these settings."""
    if y.dtype.kind == "i":
        from scalemix.sklearn import ScaleMixClassifier

        fitted = ScaleMixClassifier(random_state=seed, **settings).fit(x, y)
        return of_classes(predicted(fitted.predict_proba(x_test)), y_test)
    from common import our_measures

    from scalemix.sklearn import ScaleMixRegressor

    prediction = ScaleMixRegressor(random_state=seed, **settings).fit(x, y).predict_dist(x_test)
    predicted(prediction.mean, prediction.std)
    return our_measures(prediction, y_test, seed)


def of_classes(probability, y_test) -> dict[str, float]:
    """Measures of probabilities of classes; Brier's summed over classes."""
    probability = np.asarray(probability, float)
    right = probability[np.arange(len(y_test)), y_test]
    return {
        "accuracy": float(np.mean(probability.argmax(axis=1) == y_test)),
        "log_likelihood": float(np.log(np.clip(right, LEAST_PROBABILITY, 1)).mean()),
        "brier": float(np.mean((probability**2).sum(axis=1) - 2 * right + 1)),
    }


def of_numbers(mean, scale, y_test) -> dict[str, float]:
    """Measures of mixtures of normal distributions."""
    share_below = ndtr((y_test - mean) / scale).mean(axis=0)
    covered = np.abs(share_below - 0.5) <= 0.45
    return {**scores(mean, scale, y_test), "coverage90": float(covered.mean())}


def residual_deviation(fit, x: pd.DataFrame, y: np.ndarray, one_fifth: bool) -> float:
    """The deviation of held-out training rows from what `fit(x, y, x_test)` predicts.

    All rows are held out in turn, or one fifth of them.
    """
    squares = []
    for train, held_out in KFold(5, shuffle=True, random_state=0).split(x):
        predicted = fit(x.iloc[train], y[train], x.iloc[held_out])
        squares.append((predicted - y[held_out]) ** 2)
        if one_fifth:
            break
    return float(np.sqrt(np.mean(np.concatenate(squares))))


def regression(package: str, x, y, x_test, y_test, seed: int) -> dict[str, float]:
    """A peer's measures on a table of numbers."""
    words = words_of(x)

    def encoded(x, x_test):
        fitted = encoder(package, x).fit(x)
        return fitted.transform(x), fitted.transform(x_test)

    def fit(x, y, x_test):
        x, x_test = encoded(x, x_test)
        model = estimator(package, 0, seed, words).fit(x, y)
        return np.asarray(model.predict(x_test), float).reshape(len(x_test))

    if package in ("bde", "NGBoost"):
        inputs, inputs_test = encoded(x, x_test)
        mean, scale = predicted(*(bde if package == "bde" else ngboost)(inputs, y, inputs_test))
        return of_numbers(mean, scale, y_test)
    mean = predicted(fit(x, y, x_test))
    start = time.process_time()
    if package == "CatBoost":
        inputs, inputs_test = encoded(x, x_test)
        model = estimator(package, 0, seed, words).set_params(loss_function="RMSEWithUncertainty")
        certain = np.asarray(model.fit(inputs, y).predict(inputs_test))
        result = of_numbers(certain[None, :, 0], np.sqrt(certain[None, :, 1]), y_test)
        # Of the default, which trains for it.
        result["rmse"] = float(np.sqrt(np.mean((mean - y_test) ** 2)))
    else:
        one_fifth = package in SLOW or len(y) > MANY_ROWS
        deviation = residual_deviation(fit, x, y, one_fifth)
        result = of_numbers(mean[None], np.full((1, len(mean)), deviation), y_test)
    return result | {"extra_seconds": time.process_time() - start}


def classification(package: str, x, y, x_test, y_test, seed: int) -> dict[str, float]:
    """A peer's measures on a table of classes."""
    inputs = encoder(package, x).fit(x)
    model = estimator(package, len(np.unique(y)), seed, words_of(x))
    model.fit(inputs.transform(x), y)
    return of_classes(predicted(model.predict_proba(inputs.transform(x_test))), y_test)


def ran_on(package: str) -> dict[str, str]:
    """The machine, the device and the versions that count."""
    device, also = "cpu", []
    if package in (*OURS, "bde"):
        import jax

        device, also = jax.devices()[0].device_kind, ["jax"]
    elif package in SLOW:
        import torch

        also = ["torch"]
        if torch.cuda.is_available():
            device = torch.cuda.get_device_name()
    names = dict.fromkeys([DISTRIBUTIONS.get(package, "scikit-learn"), *also, "numpy"])
    versions = [f"{name} {metadata.version(name)}" for name in names]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "device": device,
        "versions": ", ".join([*versions, f"Python {platform.python_version()}"]),
    }


def main() -> None:
    """Fit and write."""
    package, table, fold, file, limit = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
    x, y, x_test, y_test = read(table, int(fold))
    start = time.perf_counter()
    if package in OURS:
        result = ours(x, y, x_test, y_test, int(fold), OURS[package])
    else:
        kind = classification if y.dtype.kind == "i" else regression
        result = kind(package, x, y, x_test, y_test, int(fold))
    result["wall_seconds"] = PREDICTED[0] - start
    result["cpu_seconds"] = sum(os.times()[:4])
    numbers = {name: float(value) for name, value in result.items()}
    if not np.isfinite(list(numbers.values())).all():
        raise ValueError("predictions that are not numbers")
    Path(file).write_text(json.dumps(numbers | ran_on(package)))


if __name__ == "__main__":
    main()
