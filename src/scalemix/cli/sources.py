"""The table that a model was fitted to, and which of its rows were for what."""

import dataclasses
from typing import Any

import numpy as np

from scalemix.data.values import is_finite, is_whole

# Fewer held-out rows than this say nothing.
LEAST_HELD_OUT = 2
# And more than this, of a table that is larger than memory, say no more.
MOST_HELD_OUT = 100_000
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
    encoding: str | None = None
    """The encoding of its text; files from before do not say it."""
    decimal: str | None = None
    """What stood before decimals, where all columns that told agreed."""
    decimals: dict[str, str] = dataclasses.field(default_factory=dict)
    """The same for each column that told; files from before do not say it."""
    streamed: bool = False
    """Whether it was read a part at a time. No list of all its rows is then made."""
    missing: tuple[str, ...] = ()
    """What stood where a value was missing, besides the usual marks."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows there are to train on, and how many are held out."""
        num_held = round(self.holdout * self.num_rows)
        num_held = num_held if num_held >= LEAST_HELD_OUT else 0
        num_held = min(num_held, MOST_HELD_OUT) if self.streamed else num_held
        return self.num_rows - num_held - self.num_calibrated, num_held

    def settings(self) -> dict[str, Any]:
        """What else a fit to the same table has to be given to be made again."""
        return {"seed": self.seed, "holdout": self.holdout}

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows to train on and those held out. The same seed gives the same rows."""
        held = self.held_out()
        trained = np.ones(self.num_rows, bool)
        trained[held] = trained[self.calibrated()] = False
        return np.flatnonzero(trained), held

    def held_out(self) -> np.ndarray:
        """The rows that predictions are measured on."""
        return np.sort(self._apart()[: self.counts[1]])

    def calibrated(self) -> np.ndarray:
        """The rows that calibrate conformal intervals."""
        return np.sort(self._apart()[self.counts[1] :])

    def _apart(self) -> np.ndarray:
        """The rows that are not trained on, those held out first."""
        rng, num = np.random.default_rng(self.seed), self.num_rows - self.counts[0]
        if self.streamed:
            return rng.choice(self.num_rows, num, replace=False)
        return rng.permutation(self.num_rows)[:num]

    def to_json(self) -> dict[str, Any]:
        """The same as a dict, for a model's file."""
        said = dataclasses.asdict(self) | {"missing": list(self.missing)}
        # Earlier versions read files of tables that have none of these.
        return {n: v for n, v in said.items() if v or n not in ("streamed", "missing")}

    @staticmethod
    def from_json(said: Any) -> "Source":
        """What a file says of its table, or a `ValueError`."""
        said = dict(said)
        source = Source(**said | {"missing": tuple(said.get("missing", ()))})
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
            and isinstance(source.streamed, bool)
            and all(isinstance(mark, str) for mark in source.missing)
            and (source.encoding is None or isinstance(source.encoding, str))
            and source.decimal in (None, ".", ",")
            and all(mark in (".", ",") for mark in dict(source.decimals).values())
            and source.counts[0] > 0
        ):
            raise ValueError("there is no such table")
        return source
