"""What comes with a target: rows without one, weights of classes, and a kind that suits it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from scalemix._text import listing
from scalemix._warnings import warn
from scalemix.data.preparation import InputWarning
from scalemix.data.values import is_missing
from scalemix.likelihoods.targets import suggestion
from scalemix.tables import is_frame
from scalemix.tables.cells import number, short
from scalemix.tables.number_formats import look_like_numbers
from scalemix.tables.targets import NUMBERS, how_to_move
from scalemix.tables.written_numbers import ways_of

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
        weight = _some_rows(weight, kept)
    return _some_rows(X, kept), _as_plain(_some_rows(y, kept)), weight


def names_of_targets(y: Any) -> list[str] | None:
    """What several targets are called, where they are columns of a data frame."""
    return [str(name) for name in y.columns] if is_frame(y) and len(y.columns) > 1 else None


def refuse_text(y: Any) -> None:
    """Raise `ValueError` if targets that should be numbers are text, or dates."""
    values = np.asarray(y)
    if values.dtype.kind in "mM":
        raise ValueError(
            "y has dates or spans of time, and ScaleMixRegressor predicts numbers. Make days of "
            "them, such as by (y - start) / np.timedelta64(1, 'D')."
        )
    if values.dtype.kind not in "USO":
        return
    words = [value for value in values.ravel().tolist() if isinstance(value, str)]
    if not words:
        return
    if (cell := look_like_numbers([word.strip() for word in words])) is not None:
        raise ValueError(
            f"y has text that looks like numbers{_how_to_read(words, cell)} Or use "
            f"ScaleMixClassifier, if they are names of classes."
        )
    if any(number(word) is None for word in words):
        word = next(word for word in words if number(word) is None)
        raise ValueError(
            f"y is text, such as {short(word)}, and ScaleMixRegressor predicts numbers. "
            f"ScaleMixClassifier predicts classes."
        )
    raise ValueError(
        f"y has numbers as text, such as {short(words[0])}. Convert them: np.asarray(y, float); or "
        f"use ScaleMixClassifier, if they are names of classes."
    )


def _how_to_read(words: Sequence[str], cell: str) -> str:
    """How text that looks like numbers, such as this cell, becomes numbers."""
    ways = [ways_of(word.strip()) for word in words]
    if (False, True) not in ways or (True, False) in ways:
        return (
            f", such as {short(cell)}. Make numbers of it first: without units and marks between "
            f"thousands, with a decimal point."
        )
    comma = next(word for word, way in zip(words, ways, strict=True) if way == (False, True))
    # A point is a mark between thousands then.
    return (
        f" with decimal commas, such as {short(comma)}. Read the file with pandas.read_csv(..., "
        f"decimal=',', thousands='.'), or convert them: [float(v.replace('.', '').replace(',', "
        f"'.')) for v in y]."
    )


def check_numbers(kind: str, y: np.ndarray, weight: Any) -> None:
    """Say so if there is nothing to learn, or another kind of target would suit better; a
    `ValueError` if one is not of the kind that was asked for.

    Rows of weight zero are as good as none.
    """
    rows = np.arange(len(y))
    counts = np.asarray(1 if weight is None else weight)
    if counts.shape == rows.shape:
        rows = np.flatnonzero(counts)
    counted = y[rows]
    same, several = np.all(counted == counted[:1], axis=0), len(counted) > 1
    by_kind = several and kind == "real"
    if several and np.any(same):
        value = counted[0] if y.ndim == 1 else counted[0][int(np.argmax(same))]
        warn(f"y is {value:g} in every row: there is nothing to learn.", InputWarning)
    elif by_kind and (said := suggestion(counted, lambda other: f"target={other!r}")):
        warn(said, InputWarning)
    if kind == "real" or kind not in NUMBERS:
        # What is no kind is refused later, together with all settings.
        return
    zeros_and_ones = np.all(np.isin(counted, (0, 1)), axis=0) & np.any(counted == 0, axis=0)
    if kind == "time" and y.ndim > 1 and np.any(zeros_and_ones):
        raise ValueError(
            "y has a column of zeros and ones, which are no times. If it says whether times were "
            "observed to the end, one target holds both: sx.likelihoods.censored_times(times, "
            "observed)."
        )
    what, is_one = NUMBERS[kind]
    for place, value in np.ndenumerate(counted):
        if np.isfinite(value) and not is_one(value):
            raise ValueError(
                f"y is {value:.15g} at row {rows[place[0]]}, and with target={kind!r} it has to be "
                f"{what}.{how_to_move(kind, value, len(counted))}"
            )


def _missing(y: Any) -> np.ndarray:
    """For each row, whether a target is missing: NaN, `None`, or a gap of pandas."""
    if y is None or np.ma.isMaskedArray(y) or hasattr(y, "tocsr"):
        # Refused elsewhere, in words of their own.
        return np.zeros(0, bool)
    # As text, a gap in a list of words would be a word.
    values = np.asarray(y) if hasattr(y, "dtype") else np.array(y, object)
    if values.size == 0 or values.ndim == 0 or values.dtype.kind not in "fO":
        return np.zeros(0, bool)
    gaps = np.array([is_missing(value) for value in values.ravel().tolist()], bool)
    return np.any(gaps.reshape(len(values), -1), axis=1)


def _some_rows(x: Any, rows: np.ndarray) -> Any:
    """These rows of a table, a target or weights, in the type that they have."""
    places = rows.tolist()
    if isinstance(x, list | tuple):
        # As an array, 1 beside a gap would be 1.0, and a number beside a word a word.
        return [x[place] for place in places]
    if hasattr(x, "iloc"):
        return x.iloc[places]
    # Arrays, dense and sparse, and what polars has; others are arrays at least.
    return x[places] if hasattr(x, "shape") else np.asarray(x)[places]


def _as_plain(y: Any) -> Any:
    """The targets in the type that they would have had without the gaps."""
    values = np.asarray(y)
    return np.array(values.tolist()) if values.dtype.kind == "O" else y


def weigh_classes(classes: Any, y: np.ndarray, weight: Any) -> Any:
    """The weights of rows times those of their classes."""
    if classes is None:
        return weight
    try:
        by_class = compute_sample_weight(classes, y)
    except ValueError:
        # Weights of more classes than these are taken, as long as each of these has one.
        known = np.unique(y).tolist()
        unknown = [c for c in classes if c not in known] if isinstance(classes, Mapping) else []
        if not unknown:
            raise
        raise ValueError(
            f"class_weight: there is no class {listing(unknown)} in y. There are: {listing(known)}."
        ) from None
    return by_class if weight is None else by_class * np.asarray(weight)
