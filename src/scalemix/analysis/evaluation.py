"""How good predictions are on rows that were not trained on: the figures, and what each means."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix.analysis import metrics
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive

LEAST_SAMPLES = 100
PROBABILITY = 0.9


@dataclasses.dataclass(frozen=True)
class Figure:
    """How to present one figure of an evaluation to someone who has not met it."""

    label: str
    form: str
    """How its value is formatted."""
    meaning: str

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
    ),
    "mae": Figure(
        "mean absolute error",
        ".4g",
        "how far off a prediction is on average, in the target's unit; lower is better",
    ),
    "r2": Figure(
        "variance explained",
        ".1%",
        "100% is perfect; 0% is no better than always saying the mean",
    ),
    "log_likelihood": Figure(
        "log-likelihood",
        ".4g",
        "mean log probability (density) that was given to what happened; higher is better; only "
        "comparable between models of the same target",
    ),
    "crps": Figure(
        "CRPS",
        ".4g",
        "distance between the predicted distribution and what happened, in the target's unit; "
        "lower is better; for a prediction without doubt it is the absolute error",
    ),
    "coverage": Figure(
        "90% interval covers",
        ".1%",
        "share of rows whose target lies in its 90% interval; best near 90%",
    ),
    "width": Figure(
        "width of 90% interval",
        ".4g",
        "mean width of these intervals, in the target's unit; narrow is good if they still cover",
    ),
    "calibration_error": Figure(
        "calibration error",
        ".3f",
        "mean gap between predicted and observed shares; 0 is perfect",
    ),
    "accuracy": Figure(
        "accuracy",
        ".1%",
        "share of rows whose most probable class is theirs; higher is better",
    ),
    "baseline_accuracy": Figure(
        "accuracy of no model",
        ".1%",
        "what always saying the most common class of these rows would get",
    ),
    "brier": Figure(
        "Brier score",
        ".4f",
        "squared distance of the class probabilities from the truth; 0 is perfect, lower is better",
    ),
    "expected_calibration_error": Figure(
        "calibration error",
        ".3f",
        "mean gap between the stated confidence and the share that was right; 0 is perfect",
    ),
}


def evaluate(
    predictive: Predictive, y: Any, *, classes: bool, key: PRNGKeyArray
) -> dict[str, float]:
    """The figures of `MEASURES` that suit the target, by name.

    Those of several targets are means over the targets, but for the log-likelihood, which is that
    of all of them together.

    `classes` says whether the target is a class, and `key` draws the samples behind CRPS.
    """
    y = np.asarray(y)
    mean = predictive.mean
    log_likelihood = metrics.log_likelihood(predictive.log_prob(y))
    if classes:
        return {
            "accuracy": metrics.accuracy(y, mean),
            "baseline_accuracy": float(np.bincount(y).max() / len(y)),
            "log_likelihood": log_likelihood,
            "brier": metrics.brier(y, mean),
            "expected_calibration_error": metrics.expected_calibration_error(y, mean),
        }
    if np.any(y < predictive.likelihood.support[0]):
        # Some times were not observed to the end: how far off a prediction is, nobody knows.
        return {"log_likelihood": log_likelihood}
    interval = predictive.interval(PROBABILITY)
    # As many samples as draws can share the compiled program of the draws.
    num_samples = max(predictive.num_draws, LEAST_SAMPLES)
    errors, spread = np.mean((y - mean) ** 2, axis=0), np.var(y, axis=0)
    figures = {
        "rmse": metrics.rmse(y, mean),
        "mae": metrics.mae(y, mean),
        "r2": float(np.mean(1 - errors / spread)) if np.all(spread > 0) else np.nan,
        "log_likelihood": log_likelihood,
        "crps": metrics.crps(y, predictive.sample(key, num_samples)),
        "coverage": metrics.interval_coverage(y, interval),
        "width": metrics.interval_width(interval),
        "calibration_error": metrics.calibration_error(predictive.cdf(y)),
    }
    # One row has no spread to explain, and files hold no NaN.
    return {name: value for name, value in figures.items() if np.isfinite(value)}


def shuffling_losses(
    posterior: Posterior, x: np.ndarray, y: np.ndarray, groups: dict[str, list[int]], *, seed: int
) -> dict[str, float]:
    """How much worse predictions get when the inputs of a group are shuffled among the rows.

    The loss is the growth of the RMSE, or the fall of the accuracy; values a little below zero are
    chance. It shows what the network uses, whichever way it was fitted.
    """
    classes = not posterior.model.likelihood.ordered

    def loss(inputs: np.ndarray) -> float:
        mean = posterior.predict(inputs).mean
        return 1 - metrics.accuracy(y, mean) if classes else metrics.rmse(y, mean)

    rng = np.random.default_rng(seed)
    before, losses = loss(x), {}
    for name, places in groups.items():
        shuffled = x.copy()
        shuffled[:, places] = x[rng.permutation(len(x))][:, places]
        losses[name] = loss(shuffled) - before
    return losses
