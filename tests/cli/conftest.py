"""Small tables, small fits, and a way to run commands as a user would."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import typer.testing
from matplotlib.layout_engine import ConstrainedLayoutEngine
from typer.testing import CliRunner

from scalemix.analysis.report import pictures
from scalemix.cli.app import app

# Few steps of a small network: these tests are about what surrounds a fit.
SMALL = ["--inference", "noise", "--hidden", "8", "--members", "1", "--steps", "30"]

# The commands are made of their functions once, as in a process of their own, and not for each run.
typer.testing._get_command = functools.cache(typer.testing._get_command)


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


def run(*arguments: str | Path) -> CommandResult:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return CommandResult(result.exit_code, result.stdout, result.stderr)


def write_table(path: Path, num: int = 80, seed: int = 0) -> Path:
    """Sizes, towns, days, and holes; a price that depends on the first two; a mood with it."""
    rng = np.random.default_rng(seed)
    lines = ["size,town,sold,new,price,mood"]
    for i in range(num):
        size, town = rng.normal(), rng.choice(["Ulm", "Köln", "Bonn"])
        price = 3 * size + (town == "Ulm") + 0.1 * rng.normal()
        cells = [f"{size:.4f}", town, f"2024-01-{i % 28 + 1:02d}", str(i % 3 == 0)]
        if i % 10 == 0:
            cells[i // 10 % 2] = ""
        lines.append(",".join([*cells, f"{price:.4f}", "good" if price > 0 else "bad"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Fit(NamedTuple):
    folder: Path
    data: Path
    model: Path
    ran: CommandResult


def fit_small(folder: Path, target: str, *more: str) -> Fit:
    data, model = write_table(folder / "data.csv"), folder / "model.scalemix"
    ran = run("fit", data, "-t", target, "-o", model, *SMALL, *more)
    return Fit(folder, data, model, ran)


@pytest.fixture(scope="session")
def regression(tmp_path_factory) -> Fit:
    folder = tmp_path_factory.mktemp("regression")
    return fit_small(folder, "price", "--ignore", "mood", "--report", str(folder / "first.html"))


@pytest.fixture(scope="session")
def classification(tmp_path_factory) -> Fit:
    return fit_small(tmp_path_factory.mktemp("classes"), "mood", "--ignore", "price", "--json")


@pytest.fixture(scope="session", autouse=True)
def rough_pictures() -> Iterator[None]:
    """Nobody looks at these reports: their pictures are drawn with few dots, wherever they lie.

    To find room for every word takes longer than to draw it. `tests/analysis/report` does that.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pictures, "DOTS", 20)
        patched.setattr(ConstrainedLayoutEngine, "execute", lambda *_: None)
        yield
