"""Files of models that were fitted to a table."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalemix.cli.settings import as_option
from scalemix.data.ranges import Outside, Ranges
from scalemix.data.values import is_finite, is_whole
from scalemix.fitting.kinds import SettingError
from scalemix.tables import Columns, Encoded, InputError, Table

if TYPE_CHECKING:
    from scalemix.posterior.posterior import Posterior

ENTRY = "table"
# Fewer held-out rows than this say nothing.
LEAST_HELD_OUT = 2
# No table has more rows, and no run a larger seed, than a file may claim.
MOST_ROWS = 2**48
LARGEST_SEED = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Source:
    """The table that a model was fitted to."""

    file: str
    digest: str
    num_rows: int
    holdout: float
    seed: int
    num_calibrated: int = 0
    """How many rows calibrate conformal intervals: neither trained on nor held out."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows there are to train on, and how many are held out."""
        num_held = round(self.holdout * self.num_rows)
        num_held = num_held if num_held >= LEAST_HELD_OUT else 0
        return self.num_rows - num_held - self.num_calibrated, num_held

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows to train on and those held out. The same seed gives the same rows."""
        _, rows, held = self._parts()
        return rows, held

    def calibrated(self) -> np.ndarray:
        """The rows that calibrate conformal intervals."""
        return self._parts()[0]

    def _parts(self) -> list[np.ndarray]:
        num_held = self.counts[1]
        order = np.random.default_rng(self.seed).permutation(self.num_rows)
        held, apart, rows = np.split(order, [num_held, num_held + self.num_calibrated])
        return [np.sort(part) for part in (apart, rows, held)]

    @staticmethod
    def from_json(said: Any) -> "Source":
        """What a file says of its table, or a `ValueError`."""
        source = Source(**said)
        if not (
            isinstance(source.file, str)
            and isinstance(source.digest, str)
            and is_whole(source.num_rows)
            and 0 < source.num_rows <= MOST_ROWS
            and is_whole(source.seed)
            and 0 <= source.seed <= LARGEST_SEED
            and is_finite(source.holdout)
            and 0 <= source.holdout < 1
            and is_whole(source.num_calibrated)
            and source.num_calibrated >= 0
            and source.counts[0] > 0
        ):
            raise ValueError("there is no such table")
        return source


@dataclasses.dataclass(frozen=True)
class TableModel:
    """What a file of `scalemix fit` holds: a posterior, and what is known of its table."""

    posterior: "Posterior"
    columns: Columns
    source: Source
    settings: dict[str, Any]
    figures: dict[str, float]
    """How good predictions of the held-out rows are; empty if no rows were held out."""
    plausibility: tuple[float, ...] = ()
    """What calibrates conformal intervals or sets (`scalemix.posterior.conformal`)."""
    by_error: bool = False
    """Whether that is the distance of targets from the mean, below zero."""
    ranges: Ranges | None = None
    """What the numbers of the training rows lie between; files from before say nothing of it."""

    def encode(self, table: Table) -> Encoded:
        """The inputs of a table, or an `InputError` that names a cell of it."""
        encoded = self.columns.encode(table)
        self.columns.refuse_far(table, encoded.x, self.posterior.scaling)
        return encoded

    def outside(self, x: np.ndarray) -> Outside | None:
        """How far the numbers of rows lie outside those of training, as far as it is known."""
        if self.ranges is None:
            return None
        return self.ranges.outside(x[:, self.columns.number_places])

    def save(self, path: Path) -> None:
        """Write the model to one file, whole or not at all."""
        entry = {
            "columns": self.columns.to_json(),
            "source": dataclasses.asdict(self.source),
            "settings": self.settings,
            "figures": self.figures,
            "plausibility": list(self.plausibility),
            "by_error": self.by_error,
            "ranges": None if self.ranges is None else self.ranges.to_json(),
        }
        self.posterior.save(path, metadata={ENTRY: entry})

    def unseen(self, table: Table) -> tuple[Table, str]:
        """The rows of a table that the model was not trained on, and what to call them."""
        table = self.columns.target.rows_of(table)
        if table.digest != self.source.digest:
            return table, f"{table.num_rows:,} rows of {table.path.name}"
        if table.num_rows != self.source.num_rows:
            raise InputError(
                f"{table.path}: it has {table.num_rows:,} rows, and the model says that it was "
                f"fitted to {self.source.num_rows:,} of this very file. The model is damaged."
            )
        held = self.source.split()[1]
        if not len(held):
            raise InputError(
                f"{table.path}: the model was fitted to all of its rows, so that it cannot tell "
                f"how good the model is. Give other rows, or fit with --holdout."
            )
        return table.take(held), f"{len(held):,} held-out rows of {table.path.name}"


@contextlib.contextmanager
def as_input_errors() -> Iterator[None]:
    """Turn the library's complaints about what a user gave into input errors.

    Settings are then called by their options.
    """
    try:
        yield
    except InputError:
        raise
    except SettingError as error:
        raise InputError(error.spelled(as_option)) from error
    except ValueError as error:
        raise InputError(str(error)) from error


def check_output(path: Path, *inputs: Path | None) -> None:
    """Raise `InputError` if no file can be written there: now, not after an hour's work.

    Nor may it be one of the files that are read.
    """
    if path.is_dir():
        raise InputError(f"{path}: it is a folder; name a file in it.")
    for given in inputs:
        if given is not None and path.exists() and given.exists() and path.samefile(given):
            raise InputError(f"{path}: it is read and would be overwritten. Name another file.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {str(path.parent)!r}.")


def read_model(path: Path) -> TableModel:
    """The model in a file that `TableModel.save` wrote, or an `InputError`."""
    from scalemix.posterior.storage import read

    if not path.exists():
        raise InputError(f"{path}: there is no such file.")
    with as_input_errors():
        posterior, metadata = read(path)
    fitted = TableModel(posterior, *parse_entry(path, metadata))
    _check_ends(path, fitted)
    return fitted


def _check_ends(path: Path, fitted: TableModel) -> None:
    """Raise `InputError` unless the network takes the columns and predicts the target."""
    from scalemix.data.checks import check_inputs

    columns, likelihood = fitted.columns, fitted.posterior.model.likelihood
    with as_input_errors():
        try:
            check_inputs(np.zeros((1, len(columns.features))), fitted.posterior.model)
        except ValueError as error:
            raise InputError(f"{path}: its columns are not those of its network. {error}") from None
    classes = columns.target.classes
    if likelihood.mean_shape != (() if classes is None else (len(classes),)):
        raise InputError(f"{path}: its classes are not those of its network.")


Entry = tuple[
    Columns, Source, dict[str, Any], dict[str, float], tuple[float, ...], bool, Ranges | None
]
"""What a `TableModel` has besides its posterior."""


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
        return (
            Columns.from_json(entry["columns"]),
            Source.from_json(entry["source"]),
            settings,
            _read_figures(figures),
            *_read_calibration(entry.get("plausibility", []), entry.get("by_error", False)),
            None if entry.get("ranges") is None else Ranges.from_json(entry["ranges"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: what it says of its columns is damaged ({said}).") from None


def _read_figures(said: dict[str, Any]) -> dict[str, float]:
    """The figures that this version knows."""
    from scalemix.analysis.evaluation import MEASURES

    for name, value in said.items():
        if not is_finite(value):
            raise ValueError(f"its {name[:40]!r} is no number")
    return {name: float(value) for name, value in said.items() if name in MEASURES}


def _read_calibration(plausibility: Any, by_error: Any) -> tuple[tuple[float, ...], bool]:
    """Probabilities, or errors below zero, in rising order; files from before have none."""
    values = list(plausibility)
    most = 0.0 if by_error else 1.0
    if (
        not isinstance(by_error, bool)
        or not all(is_finite(value) and value <= most for value in values)
        or values != sorted(values)
    ):
        raise ValueError("its calibration is none")
    return tuple(map(float, values)), by_error
