"""What the file of a model says about the table behind it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalemix.cli.sources import Source
from scalemix.data.ranges import Ranges
from scalemix.data.values import is_finite, is_whole
from scalemix.tables import Columns, InputError

if TYPE_CHECKING:
    from scalemix.posterior.conformal import Conformal

ENTRY = "table"


class Entry(NamedTuple):
    """What a `TableModel` has besides its posterior, in the same order."""

    columns: Columns
    source: Source
    settings: dict[str, Any]
    figures: dict[str, float]
    conformal: "Conformal | None"
    ranges: Ranges | None
    trials: list[dict[str, Any]]
    pruned: tuple[int, int] | None
    by_target: list[dict[str, float]]


def parse_entry(path: Path, metadata: dict[str, Any]) -> Entry:
    """What a file says about the table behind it, or an `InputError`."""
    if ENTRY not in metadata:
        raise InputError(
            f"{path}: it was not made by `scalemix fit`, and does not know the columns of a table. "
            f"Use scalemix.load in Python."
        )
    entry = metadata[ENTRY]
    try:
        settings, figures = entry["settings"], entry["figures"]
        if not isinstance(settings, dict) or not isinstance(figures, dict):
            raise ValueError("its settings and figures are none")
        columns = Columns.from_json(entry["columns"])
        return Entry(
            columns,
            Source.from_json(entry["source"]),
            settings,
            _read_figures(figures, doubled=_counts_brier_twice(entry)),
            _read_calibration(entry),
            None if entry.get("ranges") is None else Ranges.from_json(entry["ranges"]),
            _read_trials(entry.get("trials", [])),
            _read_pruned(entry.get("pruned")),
            _read_by_target(entry.get("by_target", []), len(columns.target.names)),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: what it says of its columns is damaged ({said}).") from None


def is_kept(value: Any) -> bool:
    """Whether a file holds it: there is no NaN in JSON."""
    return isinstance(value, bool) or is_finite(value)


def _read_trials(said: Any) -> list[dict[str, Any]]:
    """The settings that were chosen; files from before do not have them."""
    trials = [dict(trial) for trial in said]
    if not all(is_kept(value) for trial in trials for value in trial.values()):
        raise ValueError("its trials are none")
    return trials


def _read_pruned(said: Any) -> tuple[int, int] | None:
    """The parameters of a network before and after pruning; others were not pruned."""
    if said is None:
        return None
    before, after = said
    if not (is_whole(before) and is_whole(after)):
        raise ValueError("its pruning is none")
    return before, after


def _counts_brier_twice(entry: dict[str, Any]) -> bool:
    """Whether a file is from before trials were kept, and its Brier score counts both classes."""
    return "trials" not in entry and len(entry["columns"]["target"]["classes"] or ()) == 2


def _read_figures(said: dict[str, Any], *, doubled: bool) -> dict[str, float]:
    """The figures that this version knows."""
    from scalemix.analysis.evaluation import MEASURES

    for name, value in said.items():
        if not is_finite(value):
            raise ValueError(f"its {name[:40]!r} is no number")
    figures = {name: float(value) for name, value in said.items() if name in MEASURES}
    if doubled and "brier" in figures:
        figures["brier"] /= 2
    return figures


def _read_by_target(said: Any, num_targets: int) -> list[dict[str, float]]:
    """The figures of each of several targets; files from before have none."""
    by_target = [_read_figures(dict(figures), doubled=False) for figures in said]
    if len(by_target) not in (0, num_targets):
        raise ValueError("its figures are not those of its targets")
    return by_target


def calibration_to_json(conformal: "Conformal") -> dict[str, Any]:
    """What `parse_entry` reads a calibration from."""
    return {
        "plausibility": conformal.plausibility.tolist(), "by_error": conformal.by_error.tolist(),
        "power": conformal.power,
    }  # fmt: skip


def _read_calibration(entry: dict[str, Any]) -> "Conformal | None":
    """Probabilities, or errors below zero, in rising order; files from before have none.

    Of several targets each has a column. Earlier files have errors as they are.
    """
    from scalemix.posterior.conformal import Conformal

    values, kinds = np.array(entry.get("plausibility", [])), np.array(entry.get("by_error", False))
    power = entry.get("power", 0.0)
    if not values.size:
        return None
    if (
        values.dtype.kind not in "fi"
        or kinds.dtype != bool
        or values.ndim > 2
        or kinds.shape != values.shape[1:]
        or not np.isfinite(values).all()
        or (values > np.where(kinds, 0.0, 1.0)).any()
        or (np.diff(values, axis=0) < 0).any()
        or not (is_finite(power) and 0 <= power <= 1)
    ):
        raise ValueError("its calibration is none")
    return Conformal(values.astype(float), kinds, float(power))
