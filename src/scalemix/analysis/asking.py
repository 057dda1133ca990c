"""What effects and importance ask of a model, which may be a posterior or an estimator."""

import warnings
from typing import Any, Protocol

import numpy as np

from scalemix._text import listing
from scalemix.data.preparation import InputWarning
from scalemix.data.ranges import RangeWarning
from scalemix.posterior import statistics
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive


class Estimator(Protocol):
    """A model that takes tables as its user has them."""

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of a table."""
        ...


def predict(model: Posterior | Estimator, x: Any) -> Predictive:
    """The predictions of a table, with every remark that the model has on its rows."""
    return model.predict(x) if isinstance(model, Posterior) else model.predict_dist(x)


def predict_made_up(model: Posterior | Estimator, x: Any) -> Predictive:
    """The predictions of rows that were made of others, without remarks on them.

    They are unlike others on purpose, and many times as many as the rows of the table: a remark
    would count rows that nobody has.
    """
    with warnings.catch_warnings():
        for category in (RangeWarning, InputWarning):
            warnings.simplefilter("ignore", category)
        return predict(model, x)


def targets_of(model: Any, y: Any) -> np.ndarray:
    """Targets as the posterior takes them: the labels of an estimator's classes are numbered."""
    y = np.asarray(y)
    classes = getattr(model, "classes_", None)
    if classes is None:
        return y
    unknown = y[~np.isin(y, classes)]
    if len(unknown):
        raise ValueError(
            f"y has labels that are none of the model's classes: {listing(set(unknown.tolist()))}. "
            f"The classes are {listing(np.asarray(classes).tolist())}."
        )
    return np.searchsorted(classes, y)


def means_of(predictive: Predictive, output: Any, model: Any = None) -> np.ndarray:
    """The mean of each row's target under each draw, (rows, draws).

    Of several targets or classes it is that of one, by its number or, where the `model` has
    `classes_` or `target_names_`, by its label.
    """
    return pick(all_means(predictive), output, model)


def all_means(predictive: Predictive) -> np.ndarray:
    """The mean of each row's targets, or classes, under each draw: (rows, draws, ...)."""
    (means,) = predictive._stream(statistics.means)
    return predictive._in_units(means)


def pick(means: np.ndarray, output: Any, model: Any = None) -> np.ndarray:
    """The one of `all_means` that is meant."""
    if means.ndim == 2:
        if output not in (None, 0):
            raise ValueError(
                f"There is one output, and nothing to choose: leave out output={output!r}."
            )
        return means
    return means[:, :, _place_of(output, means.shape[2], model)]


def _place_of(output: Any, num: int, model: Any) -> int:
    """Which of several outputs is meant, or a `ValueError` that lists them."""
    known, labels = f"output may be 0 to {num - 1}", []
    for what, name in (("classes", "classes_"), ("targets", "target_names_")):
        if (called := getattr(model, name, None)) is not None:
            labels = np.asarray(called).tolist()
            known += f", or one of the {what} {listing(labels)}"
    if output is None:
        raise ValueError(f"There are {num} classes or targets: say which is meant; {known}.")
    # Truth values are labels, though Python counts with them.
    if isinstance(output, int | np.integer) and not isinstance(output, bool):
        if 0 <= output < num:
            return int(output)
    elif output in labels:
        return labels.index(output)
    raise ValueError(f"There is no output {output!r}: {known}.")
