"""What comes with a target: rows without one, weights of classes, and a kind that suits it."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.class_weight import compute_sample_weight

from scalemix._warnings import warn
from scalemix.data.preparation import InputWarning
from scalemix.data.values import is_missing
from scalemix.likelihoods.targets import suggestion

MissingTarget = Literal["error", "drop"]
ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


def with_targets(what: str, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Table, target and weights without the rows that have no target; or a `ValueError`."""
    if what not in ("error", "drop"):
        raise ValueError(f"missing_target must be 'error' or 'drop', got {what!r}.")
    missing = _missing(y)
    if not missing.any():
        return X, y, weight
    num, total = int(missing.sum()), len(missing)
    rows = f"{num:,} of {total:,} rows have"
    if what == "error":
        raise ValueError(
            f"{rows} no target (y contains NaN or None; the first is row {int(missing.argmax())}). "
            f"Remove them, or fit with missing_target='drop', which leaves them out."
        )
    if num == total:
        raise ValueError("No row has a target: y holds nothing but NaN or None.")
    warn(f"{rows} no target, and are left out.", InputWarning)
    kept = np.flatnonzero(~missing)
    if weight is not None and np.ndim(weight):
        weight = _safe_indexing(weight, kept)
    return _safe_indexing(X, kept), _as_plain(_safe_indexing(y, kept)), weight


def _missing(y: Any) -> np.ndarray:
    """For each row, whether a target is missing: NaN, `None`, or a gap of pandas."""
    if y is None or np.ma.isMaskedArray(y) or hasattr(y, "tocsr"):
        # Refused elsewhere, in words of their own.
        return np.zeros(0, bool)
    # As text, a gap in a list of words would be a word.
    values = np.asarray(y) if hasattr(y, "dtype") else np.array(y, object)
    if values.ndim == 0 or values.dtype.kind not in "fO":
        return np.zeros(0, bool)
    gaps = np.array([is_missing(value) for value in values.ravel().tolist()], bool)
    return np.any(gaps.reshape(len(values), -1), axis=1)


def _as_plain(y: Any) -> Any:
    """The targets in the type that they would have had without the gaps."""
    values = np.asarray(y)
    return np.array(values.tolist()) if values.dtype.kind == "O" else y


def weigh_classes(classes: Any, y: np.ndarray, weight: Any) -> Any:
    """The weights of rows times those of their classes."""
    if classes is None:
        return weight
    by_class = compute_sample_weight(classes, y)
    return by_class if weight is None else by_class * np.asarray(weight)


def suggest(y: np.ndarray) -> None:
    """Say so if another kind of target than real numbers would suit these."""
    if said := suggestion(y, lambda kind: f"target={kind!r}"):
        warn(said, InputWarning)
