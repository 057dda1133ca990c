"""How good predictions are on rows that were not trained on: the figures, and what each means."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix.analysis import metrics
from scalemix.analysis.times import fit_constant
from scalemix.posterior.conformal import Conformal
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.streaming import too_far

LEAST_SAMPLES = 100
PROBABILITY = 0.9


@dataclasses.dataclass(frozen=True)
class Figure:
    """How to present one figure of an evaluation to someone who has not met it."""

    label: str
    form: str
    """How its value is formatted."""
    meaning: str
    averaged: bool = True
    """Whether a mean over several targets says something. What is in a target's own unit has none,
    and one interval that covers too much hides another that covers too little."""

    def show(self, value: float) -> str:
        """The value as it stands in a table."""
        # A price of 250,000 is easier to read than 2.5e+05.
        thousands = self.form.endswith("g") and 1e3 <= abs(value) < 1e9
        return format(value, ",.0f" if thousands else self.form)


MEASURES = {
    "rmse": Figure(
        "RMSE",
        ".4g",
        "root-mean-square error of the prediction, in the target's unit; large errors count most; "
        "lower is better",
        averaged=False,
    ),
    "mae": Figure(
        "mean absolute error",
        ".4g",
        "how far off a prediction is on average, in the target's unit; lower is better",
        averaged=False,
    ),
    "r2": Figure(
        "variance explained",
        ".1%",
        "100% is perfect; 0% is no better than always saying the mean",
    ),
    "deviance": Figure(
        "mean deviance",
        ".4g",
        "how far predictions are from what happened, where errors may be as large as the numbers "
        "are (counts, and numbers above zero); lower is better",
    ),
    "accuracy": Figure(
        "accuracy",
        ".1%",
        "share of rows whose most probable class is theirs; higher is better",
    ),
    "baseline_accuracy": Figure(
        "accuracy of no model",
        ".1%",
        "what always saying the most common class of the training rows would get",
    ),
    "commonest_share": Figure(
        "share of the commonest class",
        ".1%",
        "in these rows: what always saying it would get, if one knew beforehand which class it is; "
        "the classes of the training rows are not known here",
    ),
    "auc": Figure(
        "AUC",
        ".3f",
        "how often a row of a class is given a larger probability of it than a row of another; "
        "0.5 is chance, 1 is perfect",
    ),
    "log_likelihood": Figure(
        "log-likelihood",
        ".4g",
        "mean log probability (density) that was given to what happened; higher is better; only "
        "comparable between models of the same target",
    ),
    "baseline_log_likelihood": Figure(
        "log-likelihood of no model",
        ".4g",
        "that of one distribution (Weibull) of times for all rows, as found in the training rows",
    ),
    "concordance": Figure(
        "concordance",
        ".3f",
        "how often the longer of two times has the larger prediction, where it is known which is "
        "the longer; 0.5 is chance, 1 is perfect",
    ),
    "crps": Figure(
        "CRPS",
        ".4g",
        "distance between the predicted distribution and what happened, in the target's unit; "
        "lower is better; for a prediction without doubt it is the absolute error",
        averaged=False,
    ),
    "coverage": Figure(
        "90% interval covers",
        ".1%",
        "share of rows whose target lies in its 90% interval; best near 90%",
        averaged=False,
    ),
    "width": Figure(
        "width of 90% interval",
        ".4g",
        "mean width of these intervals, in the target's unit; narrow is good if they still cover",
        averaged=False,
    ),
    "conformal_coverage": Figure(
        "90% conformal interval covers",
        ".1%",
        "the same of conformal intervals (`predict --conformal`), which cover at least 90% on "
        "average, whatever the model, if rows are drawn like those that calibrated them",
        averaged=False,
    ),
    "conformal_width": Figure(
        "width of 90% conformal interval",
        ".4g",
        "mean width of conformal intervals, in the target's unit",
        averaged=False,
    ),
    "set_coverage": Figure(
        "90% conformal set holds",
        ".1%",
        "share of rows whose class is in its conformal set (`predict --conformal`), which is at "
        "least 90% on average, whatever the model, if rows are drawn like those that calibrated it",
    ),
    "set_size": Figure(
        "classes in a conformal set",
        ".2f",
        "mean number of classes in these sets; few are good, as long as the sets hold enough",
    ),
    "calibration_error": Figure(
        "calibration error",
        ".3f",
        "mean gap between predicted and observed shares; 0 is perfect",
    ),
    "brier": Figure(
        "Brier score",
        ".4f",
        "squared distance of the class probabilities from the truth, counted as scikit-learn does: "
        "at most 1 for two classes, at most 2 for more; 0 is perfect",
    ),
    "expected_calibration_error": Figure(
        "calibration error",
        ".3f",
        "mean gap between the stated confidence and the share that was right; 0 is perfect",
    ),
}


def find_figures(
    predictive: Predictive,
    y: Any,
    *,
    classes: bool,
    key: PRNGKeyArray,
    trained_on: Any = None,
    conformal: Conformal | None = None,
) -> dict[str, float]:
    """The figures of `MEASURES` that suit the target, by name.

    Those of several targets are means over the targets, but for the log-likelihood, which is that
    of all of them together.

    `classes` says whether the target is a class, and `key` draws the samples behind CRPS. The
    targets that the model was `trained_on`, where they are known, say what no model would predict.
    With a `conformal` calibration, its intervals or sets are measured, too.
    """
    y = np.asarray(y)
    if predictive.too_far.any():
        raise ValueError(too_far("mean", predictive.too_far))
    mean = predictive.mean
    log_likelihood = metrics.log_likelihood(predictive.log_prob(y))
    if classes:
        ours = {**of_classes(y, mean), "log_likelihood": log_likelihood}
        if conformal is not None:
            sets = conformal.sets(predictive, PROBABILITY)
            ours["set_coverage"] = float(np.mean(sets[np.arange(len(y)), y]))
            ours["set_size"] = float(np.mean(sets.sum(axis=1)))
        return _finite({"accuracy": ours["accuracy"], **_commonest(y, trained_on), **ours})
    if np.any(y < predictive.likelihood.support[0]):
        # Some times were not observed to the end: how far off a prediction is, nobody knows.
        constant = None if trained_on is None else fit_constant(np.asarray(trained_on))
        without = np.nan if constant is None else float(constant.log_prob(y).mean())
        return _finite(
            {
                "log_likelihood": log_likelihood,
                "baseline_log_likelihood": without,
                "concordance": metrics.concordance(y, mean),
            }
        )
    interval = predictive.interval(PROBABILITY)
    # As many samples as draws can share the compiled program of the draws.
    num_samples = max(predictive.num_draws, LEAST_SAMPLES)
    figures = {
        **of_numbers(y, mean),
        "log_likelihood": log_likelihood,
        "crps": metrics.crps(y, predictive.sample(key, num_samples)),
        "coverage": metrics.interval_coverage(y, interval),
        "width": metrics.interval_width(interval),
        "calibration_error": metrics.calibration_error(levels_of(predictive, y)),
    }
    if conformal is not None:
        figures |= _of_conformal(y, conformal.interval(predictive, PROBABILITY))
    return _finite(figures)


def find_figures_by_target(
    predictive: Predictive,
    y: Any,
    *,
    key: PRNGKeyArray | None = None,
    conformal: Conformal | None = None,
) -> list[dict[str, float]]:
    """The figures of each target by itself where there are several; none where there is one.

    With a `key`, which draws the samples behind it, CRPS is among them; with a `conformal`
    calibration, so are its intervals.
    """
    y = np.asarray(y)
    # Classes are one target, whatever the shape of their probabilities.
    if y.ndim == 1:
        return []
    mean = predictive.mean
    if np.any(y < predictive.likelihood.support[0]):
        return [
            _finite({"concordance": metrics.concordance(*pair)})
            for pair in zip(y.T, mean.T, strict=True)
        ]
    lower, upper = predictive.interval(PROBABILITY)
    levels = levels_of(predictive, y)
    num_samples = max(predictive.num_draws, LEAST_SAMPLES)
    samples = None if key is None else predictive.sample(key, num_samples)
    ends = None if conformal is None else conformal.interval(predictive, PROBABILITY)
    by_target = []
    for i in range(y.shape[1]):
        interval = lower[:, i], upper[:, i]
        crps = np.nan if samples is None else metrics.crps(y[:, i], samples[..., i])
        figures = {
            **of_numbers(y[:, i], mean[:, i]),
            "crps": crps,
            "coverage": metrics.interval_coverage(y[:, i], interval),
            "width": metrics.interval_width(interval),
            "calibration_error": metrics.calibration_error(levels[:, i]),
        }
        if ends is not None:
            figures |= _of_conformal(y[:, i], (ends[0][:, i], ends[1][:, i]))
        by_target.append(_finite(figures))
    return by_target


def _commonest(y: np.ndarray, trained_on: Any) -> dict[str, float]:
    """What always saying one class gets, which is that of training as far as it is known."""
    if trained_on is None:
        return {"commonest_share": float(np.bincount(y).max() / len(y))}
    said = np.bincount(np.asarray(trained_on)).argmax()
    return {"baseline_accuracy": float(np.mean(y == said))}


def levels_of(predictive: Predictive, y: np.ndarray) -> np.ndarray:
    """Where in its distribution each target lies: uniform in [0, 1] where the predictive is right.

    A whole number has a step of the distribution to itself, and lies anywhere on it (the randomised
    probability integral transform; Czado, Gneiting and Held 2009).
    """
    at = predictive.cdf(y)
    if not predictive.likelihood.innermost.discrete:
        return at
    below = np.where(y > 0, predictive.cdf(np.maximum(y - 1, 0)), 0.0)
    return below + np.random.default_rng(0).random(at.shape) * (at - below)


def of_numbers(y: np.ndarray, mean: np.ndarray) -> dict[str, float]:
    """The figures of predictions that are numbers and no more."""
    errors, spread = np.mean((y - mean) ** 2, axis=0), np.var(y, axis=0)
    return {
        "rmse": metrics.rmse(y, mean),
        "mae": metrics.mae(y, mean),
        "r2": float(np.mean(1 - errors / spread)) if np.all(spread > 0) else np.nan,
    }


def of_classes(y: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """The figures of probabilities of classes, but for the log-likelihood."""
    return {
        "accuracy": metrics.accuracy(y, probabilities),
        "auc": metrics.auc(y, probabilities),
        "brier": metrics.brier(y, probabilities),
        "expected_calibration_error": metrics.expected_calibration_error(y, probabilities),
    }


def _of_conformal(y: np.ndarray, interval: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    return {
        "conformal_coverage": metrics.interval_coverage(y, interval),
        "conformal_width": metrics.interval_width(interval),
    }


def _finite(figures: dict[str, float]) -> dict[str, float]:
    # One row has no spread to explain, rows of one class no AUC, few rows to calibrate by no ends;
    # and files hold no NaN.
    return {name: value for name, value in figures.items() if np.isfinite(value)}
