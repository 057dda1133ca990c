"""What is predicted of the rows of a table, as columns."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scalemix._text import shortened
from scalemix.cli.console import Terminal
from scalemix.cli.models import TableModel, as_input_errors
from scalemix.cli.thresholds import read_thresholds
from scalemix.cli.writing import Cells
from scalemix.data.ranges import RangeWarning
from scalemix.tables import InputError, Table

if TYPE_CHECKING:
    from scalemix.posterior.conformal import Conformal
    from scalemix.posterior.predictive import Predictive

# What is said of rows whose predictions overflow.
TOO_FAR = "so far from the training data that the prediction overflows"
# Between the classes of a set.
SEPARATOR = " | "


class Asked(NamedTuple):
    """What of a prediction a user wants to see."""

    probability: float
    """That of the intervals, or sets."""
    conformal: bool
    quantiles: tuple[float, ...] = ()
    """The levels of quantiles."""
    above: tuple[str, ...] = ()
    """What targets may be above, as it was said."""
    decimal: str | None = None
    """The decimal mark that was said."""

    def check(self, fitted: TableModel) -> None:
        """Raise `InputError` if a model has no such thing, before any row is read."""
        if not 0 < self.probability < 1:
            raise InputError(
                f"--interval is a probability between 0 and 1, got {self.probability}."
            )
        for level in self.quantiles:
            if not 0 < level < 1:
                raise InputError(f"--quantile takes levels between 0 and 1, got {level:g}.")
        if fitted.columns.target.classes is not None and (self.quantiles or self.above):
            option = "--quantile" if self.quantiles else "--above"
            raise InputError(
                f"{option} is about numbers, and the model predicts classes of "
                f"{fitted.columns.target.name!r}, which have no order. Their probabilities are in "
                f"the columns p(...)."
            )
        read_thresholds(self.above, fitted, self.decimal)


def read_levels(said: Sequence[str]) -> tuple[float, ...]:
    """The levels of quantiles, each by itself or several with commas between them."""
    parts = [part.strip() for each in said for part in each.split(",")]
    try:
        return tuple(dict.fromkeys(float(part) for part in parts))
    except ValueError:
        raise InputError(
            f"--quantile takes numbers such as 0.9; got {', '.join(said)!r}."
        ) from None


def find_predictions(fitted: TableModel, table: Table, asked: Asked, terminal: Terminal) -> Cells:
    """The predictions of a table, with remarks on what is odd about its rows."""
    probability, conformal = asked.probability, asked.conformal
    encoded = fitted.encode(table)
    predictive, outside = fitted.posterior.predict(encoded.x), fitted.outside(encoded)
    for remark in (*encoded.remarks, outside.in_words()):
        if remark is not None:
            terminal.note(remark)
    # Files from before ranges were kept do not know how far a number is outside.
    far: Cells = {} if fitted.ranges is None else {"outside": outside.by_row.tolist()}
    # Whether there are any was checked when the model was read.
    calibrated = fitted.conformal if conformal else None
    target = fitted.columns.target
    is_far = rows_too_far(predictive)
    if is_far.any():
        terminal.note(
            f"{places_of(is_far, table)}: {TOO_FAR}, and is infinite or empty in the result. Look "
            f"at the units of the inputs"
        )
    if calibrated is not None and not calibrated.is_sure_of(probability):
        all_there_is = "ends are as far out as targets can be"
        if target.classes is not None:
            all_there_is = "sets hold all classes"
        terminal.note(
            f"{len(calibrated.plausibility):,} rows are too few to be sure of "
            f"{100 * probability:.4g}%: {all_there_is}"
        )
    if target.classes is not None:
        return _of_classes(predictive, target.classes, calibrated, probability) | far
    if calibrated is None:
        lower, upper = predictive.interval(probability)
    else:
        lower, upper = calibrated.interval(predictive, probability)
        is_open = not np.isfinite((upper - lower)[~is_far]).all()
        if is_open and calibrated.is_sure_of(probability):
            terminal.note(
                "some ends are infinite: too many of the rows to calibrate by were impossible to "
                "the model"
            )
    measures = {
        "prediction": predictive.mean,
        "std": predictive.std,
        "lower": lower,
        "upper": upper,
        "epistemic": predictive.epistemic,
        "aleatoric": predictive.aleatoric,
    }
    if asked.quantiles:
        quantiles = predictive.quantile(asked.quantiles)
        measures |= {
            f"q{q:.15g}": values for q, values in zip(asked.quantiles, quantiles, strict=True)
        }
    thresholds = read_thresholds(asked.above, fitted, asked.decimal)
    above = _above(predictive, tuple(dict.fromkeys(t for of in thresholds.values() for t in of)))
    cells: Cells = {}
    for i, of in enumerate(target.names):
        # Of one target no name is needed, but for the probability, which says what is above what.
        place = (slice(None), i) if target.several else slice(None)
        end = f"({of})" if target.several else ""
        cells |= {f"{name}{end}": values[place].tolist() for name, values in measures.items()}
        cells |= {f"p({of}>{t:.15g})": above[t][place].tolist() for t in thresholds[of]}
    return cells | far


def rows_too_far(predictive: "Predictive") -> np.ndarray:
    """The rows whose predictions overflow, for a remark that has their places in the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        return predictive.too_far


def places_of(is_far: np.ndarray, table: Table) -> str:
    """Where such rows stand."""
    return shortened((table.places[int(row)] for row in np.flatnonzero(is_far)), 5)


def _above(predictive: "Predictive", thresholds: tuple[float, ...]) -> dict[float, np.ndarray]:
    """The probability of a target above each of the thresholds."""
    if not thresholds:
        return {}
    with as_input_errors():
        probabilities = predictive.exceedance(thresholds)
    return dict(zip(thresholds, probabilities, strict=True))


def _of_classes(
    predictive: "Predictive",
    classes: tuple[str, ...],
    calibrated: "Conformal | None",
    probability: float,
) -> Cells:
    mean = predictive.mean
    cells: Cells = {
        "prediction": [None if np.isnan(row).any() else classes[row.argmax()] for row in mean],
        "probability": mean.max(axis=1).tolist(),
        **{f"p({c})": mean[:, i].tolist() for i, c in enumerate(classes)},
        "entropy": predictive.entropy.tolist(),
        "epistemic": predictive.mutual_information.tolist(),
        "aleatoric": (predictive.entropy - predictive.mutual_information).tolist(),
    }
    if calibrated is not None:
        sets = calibrated.sets(predictive, probability)
        cells["set"] = [
            SEPARATOR.join(c for c, is_in in zip(classes, row, strict=True) if is_in)
            for row in sets.tolist()
        ]
    return cells
