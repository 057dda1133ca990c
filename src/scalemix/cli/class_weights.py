"""How many rows a row of each class counts as: `--class-weight`."""

from collections.abc import Sequence

import numpy as np

from scalemix._text import listing, shortened
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


def weights_by_class(
    weights: ClassWeights, target: Target, counts: np.ndarray
) -> np.ndarray | None:
    """How many rows a row of each class counts as; `None` if each counts once.

    `counts` says how many rows to train on each class has.
    """
    if weights is None or target.classes is None:
        return None
    if isinstance(weights, dict):
        return np.array([weights.get(label, 1.0) for label in target.classes])
    return counts.sum() / (len(counts) * np.maximum(counts, 1))


def in_words(by_class: np.ndarray, target: Target, counts: np.ndarray) -> str:
    """How many rows a row of each class counts as, of the classes that there are."""
    said = zip(target.classes or (), by_class, counts, strict=True)
    return f"a row counts as so many: {shortened(f'{c} {w:.3g}' for c, w, num in said if num)}"
