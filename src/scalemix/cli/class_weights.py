"""How many rows a row of each class counts as: `--class-weight`."""

from collections.abc import Sequence

import numpy as np

from scalemix._text import listing
from scalemix.data.values import is_finite
from scalemix.tables import InputError
from scalemix.tables.targets import Target, label_of

BALANCED = "balanced"
# By class, or so that all classes count the same together.
ClassWeights = dict[str, float] | str | None


def read_class_weights(said: Sequence[str]) -> ClassWeights:
    """What an option says: balanced, or a class and a number, such as yes=3."""
    if not said:
        return None
    if list(said) == [BALANCED]:
        return BALANCED
    weights = {}
    for each in said:
        label, _, number = each.rpartition("=")
        try:
            weights[label_of(label.strip())] = float(number)
        except ValueError:
            label = ""
        if not label or not is_finite(weights.get(label_of(label.strip()))):
            raise InputError(
                f"--class-weight takes balanced, or a class and a number such as yes=3; got "
                f"{each!r}."
            )
    return weights


def check_class_weights(weights: ClassWeights, target: Target) -> None:
    """Raise `InputError` unless the classes of weights are those of a target."""
    if weights is None:
        return
    if target.classes is None:
        raise InputError(f"--class-weight is about classes, and {target.name!r} has numbers.")
    if isinstance(weights, dict):
        unknown = [label for label in weights if label not in target.classes]
        if unknown:
            raise InputError(
                f"--class-weight: there is no class {listing(unknown)}. There are: "
                f"{listing(target.classes)}."
            )
        if any(weight <= 0 for weight in weights.values()):
            raise InputError("--class-weight: a weight has to be above zero.")


def row_weights(weights: ClassWeights, target: Target, y: np.ndarray) -> np.ndarray | None:
    """How many rows each row counts as, by its class; `None` if each counts once."""
    if weights is None or target.classes is None:
        return None
    num = len(target.classes)
    if isinstance(weights, dict):
        by_class = np.array([weights.get(label, 1.0) for label in target.classes])
    else:
        counts = np.bincount(y, minlength=num)
        by_class = len(y) / (num * np.maximum(counts, 1))
    return by_class[y]
