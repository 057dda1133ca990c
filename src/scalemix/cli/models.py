"""Files of models that were fitted to a table."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scalemix.cli.entries import ENTRY, calibration_to_json, is_kept, parse_entry
from scalemix.cli.settings import as_option
from scalemix.cli.sources import MOST_HELD_OUT, Source
from scalemix.data.arrow_files import SUFFIXES
from scalemix.data.ranges import Outside, Ranges
from scalemix.fitting.kinds import SettingError
from scalemix.tables import Columns, Encoded, InputError, Table, TextFormat, read_table
from scalemix.tables.addresses import parse_address
from scalemix.tables.arrow_tables import ArrowTables, find_large
from scalemix.tables.number_formats import Known

if TYPE_CHECKING:
    from scalemix.posterior.conformal import Conformal
    from scalemix.posterior.posterior import Posterior
    from scalemix.posterior.pruning import Report

MAY_BE_SEEN = "Rows of this table that the model was trained on, if there are any, are not left out"


class Unseen(NamedTuple):
    """The rows of a table that a model is measured on."""

    table: Table
    called: str
    """What to call them in a sentence."""
    caution: str = ""
    """What is not known of them."""


@dataclasses.dataclass(frozen=True)
class TableModel:
    """What a file of `scalemix fit` holds: a posterior, and what is known of its table."""

    posterior: "Posterior"
    columns: Columns
    source: Source
    settings: dict[str, Any]
    figures: dict[str, float]
    """How good predictions of the held-out rows are; empty if no rows were held out."""
    conformal: "Conformal | None" = None
    """What calibrates conformal intervals or sets."""
    ranges: Ranges | None = None
    """What the numbers of the training rows lie between; files from before say nothing of it."""
    trials: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The settings that held-out rows chose, with the number of networks that have each."""
    pruned: tuple[int, int] | None = None
    """The parameters of a network before pruning and after, if it was pruned."""
    by_target: list[dict[str, float]] = dataclasses.field(default_factory=list)
    """The figures of each of several targets by itself; none for one target."""

    @property
    def text(self) -> TextFormat:
        """How text is read where it does not tell by itself: as that of the training table."""
        source = self.source
        return TextFormat(
            source.encoding, None, source.decimal, source.decimals, source.missing,
            self.columns.units,
        )  # fmt: skip

    def read(self, data: str | Path, said: TextFormat) -> Table:
        """A table to use the model on.

        Of one that does not fit into memory, only rows that the model has not seen.
        """
        address = parse_address(data)
        if not address.is_stdin:
            # A table that was fitted to in parts is known by what its files say of themselves.
            kind = address.path.suffix.lower()
            always = self.source.streamed and kind in SUFFIXES and address.path.is_file()
            large = self.find_large(address.path, said, always=always)
            if large is not None:
                return self._some(large)
        return read_table(data, said, self.text, numbers=self.columns.numbers)

    def find_large(self, path: Path, said: TextFormat, *, always: bool) -> ArrowTables | None:
        """A table to read a part at a time, if it is one, whose text is read as that of `read`."""
        text = self.text
        known = Known(text.decimals, text.decimal, self.columns.numbers, units=text.units)
        missing = tuple(dict.fromkeys((*text.missing, *said.missing)))
        return find_large(path, always=always, missing=missing, decimal=said.decimal, known=known)

    def _some(self, large: ArrowTables) -> Table:
        if large.digest == self.source.digest:
            if self.columns.target.drop_missing:
                large, _ = large.without_missing(self.columns.target.names)
            if not len(held := self.source.held_out()):
                raise self._all_seen(large.path)
            return large.take(held)
        rows = np.arange(large.num_rows)
        if len(rows) <= MOST_HELD_OUT:
            return large.take(rows)
        rng = np.random.default_rng(self.source.seed)
        table = large.take(np.sort(rng.choice(len(rows), MOST_HELD_OUT, replace=False)))
        said = f"{table.num_rows:,} of the {large.num_rows:,} rows are looked at, chosen at random"
        return dataclasses.replace(table, remarks=(said, *table.remarks))

    def _all_seen(self, path: Path) -> InputError:
        return InputError(
            f"{path}: the model was fitted to all of its rows, so that it cannot tell how good the "
            f"model is. Give other rows, or fit with --holdout."
        )

    def encode(self, table: Table) -> Encoded:
        """The inputs of a table, or an `InputError` that names a cell of it."""
        encoded = self.columns.encode(table)
        self.columns.refuse_far(table, encoded.x, self.posterior.scaling)
        return encoded._replace(remarks=[*table.remarks, *encoded.remarks])

    def outside(self, encoded: Encoded) -> Outside:
        """How far rows lie outside those of training, as far as it is known."""
        x, _, unknown, empty = encoded
        if self.ranges is None:
            return Outside((), x[:, :0], np.zeros(len(x)), tuple(unknown), empty)
        return self.ranges.outside(x[:, self.columns.number_places], unknown, empty)

    def save(self, path: Path) -> None:
        """Write the model to one file, whole or not at all."""
        entry = {
            "columns": self.columns.to_json(),
            "source": self.source.to_json(),
            "settings": self.settings,
            "figures": self.figures,
            **({"by_target": self.by_target} if self.by_target else {}),
            **({} if self.conformal is None else calibration_to_json(self.conformal)),
            "ranges": None if self.ranges is None else self.ranges.to_json(),
            **({} if self.pruned is None else {"pruned": list(self.pruned)}),
            "trials": [{n: v for n, v in trial.items() if is_kept(v)} for trial in self.trials],
        }
        self.posterior.save(path, metadata={ENTRY: entry})

    def unseen(self, table: Table) -> Unseen:
        """The rows of a table that the model was not trained on, as far as that is known."""
        table = self.columns.target.rows_of(table)
        if not table.is_known_by(self.source.digest):
            return Unseen(table, f"{table.num_rows:,} rows of {table.path.name}", MAY_BE_SEEN)
        if self.source.streamed:
            # Only these were read.
            return Unseen(table, f"{table.num_rows:,} held-out rows of {table.path.name}")
        self._check_rows(table)
        held = self.source.held_out()
        if not len(held):
            raise self._all_seen(table.path)
        return Unseen(table.take(held), f"{len(held):,} held-out rows of {table.path.name}")

    def as_pruned(self, report: "Report") -> "TableModel":
        """The same, with what pruning did to the size of a network, earlier pruning included."""
        before, after = report.parameters_each
        before = before if self.pruned is None else self.pruned[0]
        return dataclasses.replace(self, pruned=(before, after) if after < before else None)

    def check_calibrated(self) -> None:
        """Raise `InputError` unless there are conformal intervals or sets."""
        if self.conformal is not None:
            return
        if self.source.num_calibrated:
            raise InputError(
                "--conformal: pruning dropped the calibration, for it was that of other "
                "predictions. Predict with the model from before pruning. In Python, "
                "scalemix.posterior.conformal.calibrate calibrates again, by rows that the fit has "
                "not seen."
            )
        if self.columns.target.kind == "time":
            raise InputError(
                "--conformal: conformal intervals are not available for times that were not all "
                "observed to the end. Leave it out for the model's own intervals. If all times "
                "were observed, fit with --calibration 0.2."
            )
        raise InputError(
            "--conformal needs rows that the fit has not seen: fit with --calibration 0.2."
        )

    def trained(self, table: Table) -> Table | None:
        """The rows of a table that the model was trained on, if they are there."""
        if self.source.streamed or not table.is_known_by(self.source.digest):
            return None
        table = self.columns.target.rows_of(table)
        self._check_rows(table)
        return table.take(self.source.split()[0])

    def _check_rows(self, table: Table) -> None:
        """Raise `InputError` unless the table of the fit has as many rows as the file says."""
        if table.num_rows != self.source.num_rows:
            raise InputError(
                f"{table.path}: it has {table.num_rows:,} rows, and the model says that it was "
                f"fitted to {self.source.num_rows:,} of this very file. The model is damaged."
            )


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


def check_output(path: Path, *inputs: str | Path | None) -> None:
    """Raise `InputError` if no file can be written there: now, not after an hour's work.

    Nor may it be one of the files that are read.
    """
    if path.is_dir():
        raise InputError(f"{path}: it is a folder; name a file in it.")
    for given in inputs:
        read = None if given is None else parse_address(given).path
        if read is not None and path.exists() and read.exists() and path.samefile(read):
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
    target = columns.target
    one = () if target.classes is None else (len(target.classes),)
    if likelihood.mean_shape != ((len(target.names),) if target.several else one):
        what = "targets" if target.several else "classes"
        raise InputError(f"{path}: its {what} are not those of its network.")
