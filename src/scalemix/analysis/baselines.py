"""What simpler models make of the same rows, so that a reader learns when ours is not worth it.

They are those of scikit-learn: a linear model (logistic for classes, with a log link for counts and
for numbers above zero) and boosted trees. Trees have the settings that scikit-learn gives them.
Linear models read standardised inputs. The shrinkage of linear regression is chosen by
cross-validation on the training rows; the other linear models shrink as much as scikit-learn's
logistic regression does by default. Nothing is chosen by the rows that they are tested on.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from scalemix.analysis import evaluation
from scalemix.analysis.times import fit_constant
from scalemix.likelihoods import Likelihood

Rows = tuple[np.ndarray, np.ndarray]
"""Inputs and targets."""
Kind = Literal["classes", "count", "positive", "real", "times"]
"""What is predicted; times are those of which some were not observed to the end."""

LEAST_PROBABILITY = 1e-15
MANY_CELLS = 1_000_000


class Baseline(NamedTuple):
    """A simpler model, and how it does on the rows of the test.

    Attributes
    ----------
    name : str
        What it is called.
    figures : dict of str to float
        Those of `scalemix.analysis.evaluation.MEASURES` that it has.
    losses : numpy.ndarray
        What each row costs it: see `row_losses`.
    by_target : tuple of dict
        The figures of each of several targets; empty for one.

    Examples
    --------
    >>> from scalemix.analysis.baselines import Baseline
    >>> Baseline("no model", {"rmse": 2.0}, np.array([1.0, 7.0])).name
    'no model'
    """

    name: str
    figures: dict[str, float]
    losses: np.ndarray
    by_target: tuple[dict[str, float], ...] = ()


ONLY_NO_MODEL = (
    "scikit-learn has no model of times that were not observed to the end, so that there is no "
    "other one to compare with."
)


class NoBaseline(Exception):
    """Why there is nothing to compare with, in a sentence."""


class Baselines(NamedTuple):
    """The simpler models that could be fitted, and why others could not.

    Attributes
    ----------
    fitted : list of Baseline
        No model, a linear one and boosted trees, as far as they could be fitted.
    left_out : dict of str to str
        Why a model could not be fitted, by its name.

    Examples
    --------
    >>> from scalemix.analysis.baselines import Baselines
    >>> Baselines([], {"boosted trees": "too few rows"}).fitted
    []
    """

    fitted: list[Baseline]
    left_out: dict[str, str]


def fit_baselines(train: Rows, test: Rows, likelihood: Likelihood) -> Baselines:
    """No model, a linear one and boosted trees, fitted to some rows and tested on others.

    Where some times were not observed to the end, there is only the first of the three.

    Parameters
    ----------
    train, test : pair of numpy.ndarray
        Inputs and targets of the rows to fit to, and of those to test on.
    likelihood : Likelihood
        What the target is modelled as, which says which losses suit it.

    Returns
    -------
    Baselines
        The models in that order, and those that are left out.

    Raises
    ------
    NoBaseline
        Where scikit-learn is not installed, where all counts to train on are zero, or where no time
        was observed to the end.

    Examples
    --------
    >>> from scalemix.analysis.baselines import fit_baselines
    >>> baselines = fit_baselines((x[:30], y[:30]), (x[30:], y[30:]), post.model.likelihood)
    >>> [baseline.name for baseline in baselines.fitted]
    ['no model', 'linear regression', 'boosted trees']
    """
    kind = kind_of(likelihood, train, test)
    num = num_classes(likelihood)
    if kind == "times":
        return Baselines([_constant_times(train[1], test[1])], {})
    if has_no_counts(train[1], kind):
        raise NoBaseline(
            "All counts to train on are zero, so that no other model can learn from them, and "
            "there is nothing to compare with."
        )
    baselines = Baselines([], {})
    for name, predict in models(kind, num).items():
        try:
            predicted = predict(*train, test[0])
        except CannotFitError as reason:
            baselines.left_out[name] = str(reason)
        else:
            baselines.fitted.append(_measured(name, predicted, test[1], kind))
    return baselines


def row_losses(predicted: np.ndarray, y: np.ndarray, kind: Kind) -> np.ndarray:
    """What each row costs, so that a few large targets do not decide.

    It is minus the log probability of the row's class; the squared error of a real number, of
    several ones in units of their spread; and the deviance of counts (Poisson) and of numbers above
    zero (gamma), for which errors are as large as the numbers are:

        2 (y log(y / mu) - y + mu)        2 (y / mu - 1 - log(y / mu))
    """
    if kind == "classes":
        chosen = predicted[np.arange(len(y)), y]
        return -np.log(np.maximum(chosen, LEAST_PROBABILITY))
    if kind == "real":
        spread = np.var(y, axis=0) if y.ndim > 1 else np.ones(())
        losses = (y - predicted) ** 2 / np.where(spread > 0, spread, 1.0)
    else:
        mean = np.maximum(predicted, LEAST_PROBABILITY)
        log_ratio = np.log(np.where(y > 0, y, 1.0) / mean)
        if kind == "count":
            losses = 2 * (y * np.where(y > 0, log_ratio, 0.0) - y + mean)
        else:
            losses = 2 * (y / mean - 1 - log_ratio)
    return losses.reshape(len(y), -1).mean(axis=1)


def kind_of(likelihood: Likelihood, *rows: Rows) -> Kind:
    """Which baselines suit the target."""
    if not likelihood.ordered:
        return "classes"
    lowest, highest = likelihood.support
    if any(np.any(y < lowest) for _, y in rows):
        return "times"
    if likelihood.innermost.discrete:
        return "count"
    return "positive" if (lowest, highest) == (0, np.inf) else "real"


def has_no_counts(y: np.ndarray, kind: Kind) -> bool:
    """Whether all counts of a target are zero, so that their rate has no logarithm."""
    return kind == "count" and not np.all(np.any(y > 0, axis=0))


def num_classes(likelihood: Likelihood) -> int:
    """How many classes there are; none for numbers."""
    return 0 if likelihood.ordered else likelihood.mean_shape[0]


def _measured(name: str, predicted: np.ndarray, y: np.ndarray, kind: Kind) -> Baseline:
    losses = row_losses(predicted, y, kind)
    each = ()
    if kind == "classes":
        figures = evaluation.of_classes(y, predicted) | {"log_likelihood": -float(losses.mean())}
    else:
        figures = evaluation.of_numbers(y, predicted)
        if y.ndim > 1:
            each = tuple(map(evaluation.of_numbers, y.T, predicted.T))
        if kind != "real":
            figures["deviance"] = float(losses.mean())
    # Where all rows have one prediction, or one class, some measures are no numbers.
    return Baseline(name, {n: v for n, v in figures.items() if np.isfinite(v)}, losses, each)


def _constant_times(train: np.ndarray, test: np.ndarray) -> Baseline:
    constant = fit_constant(train)
    if constant is None:
        raise NoBaseline(
            "No time to train on was observed to the end, so that there is nothing to compare with."
        )
    losses = -constant.log_prob(test)
    figures = {"log_likelihood": -float(losses.mean()), "concordance": 0.5}
    return Baseline("no model", figures, losses)


def total_error(predicted: np.ndarray, y: np.ndarray, kind: Kind) -> float:
    """The root of the mean loss of real numbers, which is the RMSE; else the mean loss."""
    loss = float(row_losses(predicted, y, kind).mean())
    return loss**0.5 if kind == "real" else loss


class CannotFitError(Exception):
    """Why scikit-learn cannot fit a model to some rows, in its words."""


Predict = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Predictions of some inputs by a model that is fitted to others, and to their targets; or a
`CannotFitError`."""


def models(kind: Kind, num: int) -> dict[str, Predict]:
    """Models by name, each as a function that fits and predicts."""
    try:
        from sklearn.dummy import DummyClassifier
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
        from sklearn.linear_model import (
            GammaRegressor,
            LogisticRegression,
            PoissonRegressor,
            RidgeCV,
        )
    except ImportError:
        raise NoBaseline(
            "scikit-learn is not installed, so that there is nothing to compare with: "
            'pip install "scalemix[sklearn]"'
        ) from None
    if kind == "classes":
        return {
            "no model": _classifier(lambda y: DummyClassifier(strategy="prior"), num),
            "logistic regression": _classifier(
                lambda y: _standardised(LogisticRegression(max_iter=1000)), num
            ),
            "boosted trees": _classifier(
                lambda y: HistGradientBoostingClassifier(random_state=0, **_stopping(y)), num
            ),
        }
    # Counts and numbers above zero have a log link.
    link = {"count": "Poisson", "positive": "gamma", "real": "linear"}[kind]
    loss = {"count": "poisson", "positive": "gamma", "real": "squared_error"}[kind]
    # As much shrinkage as that of logistic regression, whose penalty is not a mean over rows.
    linear = {
        "count": lambda rows: PoissonRegressor(alpha=1 / rows, max_iter=1000),
        "positive": lambda rows: GammaRegressor(alpha=1 / rows, max_iter=1000),
        "real": lambda rows: RidgeCV(np.logspace(-3, 3, 13)),
    }[kind]
    return {
        "no model": lambda x, y, new: np.tile(y.mean(axis=0), (len(new), *[1] * (y.ndim - 1))),
        f"{link} regression": _regressor(lambda rows: _standardised(linear(rows)), kind),
        "boosted trees": _regressor(
            lambda rows: HistGradientBoostingRegressor(loss=loss, random_state=0), kind
        ),
    }


def _stopping(y: np.ndarray) -> dict[str, Any]:
    # To stop early, trees set some rows of each class apart, and one row cannot be parted.
    rarest = np.unique(y, return_counts=True)[1].min()
    return {} if rarest > 1 else {"early_stopping": False}


def _standardised(model: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


def _regressor(make: Callable[[int], Any], kind: Kind) -> Predict:
    def predict(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        if has_no_counts(y, kind):
            raise CannotFitError("all counts are zero")
        targets = y.reshape(len(y), -1).astype(np.float64).T
        with _fitting(x):
            each = [make(len(x)).fit(x, target).predict(new) for target in targets]
        return np.stack(each, axis=1).reshape(len(new), *y.shape[1:])

    return predict


def _classifier(make: Callable[[np.ndarray], Any], num: int) -> Predict:
    def predict(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
        present = np.unique(y)
        # A class that these rows do not have may come all the same. By the rule of succession it
        # has one chance in as many as there are rows and classes; scikit-learn would say none.
        probabilities = np.full((len(new), num), 1 / (len(y) + num))
        rest = 1 - (num - len(present)) / (len(y) + num)
        if len(present) == 1:
            probabilities[:, present] = rest
            return probabilities
        with _fitting(x):
            model = make(y).fit(x, y)
            probabilities[:, model.classes_] = rest * model.predict_proba(new)
        return probabilities

    return predict


@contextlib.contextmanager
def _fitting(x: np.ndarray) -> Iterator[None]:
    """Without warnings, and with errors that say what cannot be fitted."""
    from threadpoolctl import threadpool_limits

    # Threads that wait for one another's few rows take longer than one, on a busy machine far
    # longer.
    limit = 1 if x.size < MANY_CELLS else None
    with warnings.catch_warnings(), threadpool_limits(limit):
        # A baseline that stops a little early is still a baseline.
        warnings.simplefilter("ignore")
        try:
            yield
        except ValueError as error:
            raise CannotFitError(str(error)) from None
