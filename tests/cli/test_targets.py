"""Kinds of targets, from a file to a model and back to files."""

import csv

import numpy as np
import pytest

from scalemix.cli.models import read_model
from scalemix.recipes import Fitted
from tests.cli.conftest import SMALL, run

RNG = np.random.default_rng(0)
A = RNG.normal(size=80)
RATE = np.exp(1 + 0.5 * A)
TARGETS = {
    "count": [f"{count}" for count in RNG.poisson(RATE)],
    "positive": [f"{value:.4g}" for value in RATE * RNG.lognormal(0, 0.3, 80)],
    "share": [f"{value:.4g}" for value in RNG.beta(2, 2, 80)],
    "time": [f"{value:.4g}" for value in RATE * RNG.choice([-1, 1], 80)],
}


def write(path, targets):
    rows = [f"{a:.4f},{y}" for a, y in zip(A, targets, strict=True)]
    path.write_text("\n".join(["a,y", *rows]) + "\n", encoding="utf-8")
    return path


# All go the same way. Times are the quickest: the cdf of a count takes long without optimisation.
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] if k != "time" else []) for k in TARGETS]
)
def test_a_kind_of_target_goes_all_the_way(kind, tmp_path):
    targets = list(TARGETS[kind])
    targets[5] = targets[9] = ""
    data, model, report = write(tmp_path / "d.csv", targets), tmp_path / "m", tmp_path / "r.html"
    fit = ["fit", data, "-t", "y", "-o", model, *SMALL, "--target-kind", kind]
    refused = run(*fit)
    assert refused.code == 2
    assert "line 7, column 'y': the target is missing, as in 1 other row." in refused.err
    assert "--missing-target drop" in refused.err
    ran = run(*fit, "--missing-target", "drop", "--report", report)
    assert ran.code == 0, ran.err
    assert "2 rows have no target, and are left out" in ran.err
    assert "target: y, regression (as asked), each a" in ran.err
    assert "training on 70 rows and 1 input, 8 held out" in ran.err
    assert "log-likelihood" in report.read_text(encoding="utf-8")
    # The same rows are left out when the same file comes again.
    assert run("evaluate", model, data, "--json").json["rows"] == 8
    rows = list(csv.DictReader(run("predict", model, data).out.splitlines()))
    assert len(rows) == 80
    assert all(float(row["lower"]) >= 0 for row in rows)
    assert run("info", model, "--json").json["metadata"]["table"]["settings"]["target"] == kind


def test_another_kind_is_suggested_and_cells_of_another_are_named(tmp_path):
    data, model = write(tmp_path / "d.csv", TARGETS["positive"]), tmp_path / "m"
    said = run("fit", data, "-t", "y", "-o", model, *SMALL).err
    assert "The targets look like numbers above zero" in said
    assert "--target-kind positive" in said
    ran = run("fit", data, "-t", "y", "-o", model, "--target-kind", "count")
    assert ran.code == 2
    assert "line 2, column 'y': '" in ran.err
    assert "is not a whole number from zero" in ran.err
    ran = run("fit", data, "-t", "y", "--target-kind", "count", "--task", "classification")
    assert "--target-kind count is about numbers" in ran.err


@pytest.fixture
def as_before(monkeypatch):
    """Models as they were before cells far outside were drawn in."""
    monkeypatch.setattr(Fitted, "to_table", lambda posterior, trials=(): Fitted(posterior, trials))


def test_a_row_far_outside_has_an_answer(tmp_path):
    data, model = write(tmp_path / "d.csv", TARGETS["time"]), tmp_path / "m"
    fit = ["fit", data, "-t", "y", "-o", model, "--target-kind", "time", *SMALL, "--steps", "200"]
    assert run(*fit).code == 0
    far = tmp_path / "far.csv"
    far.write_text("a\n0.5\n50000\n-50000\n", encoding="utf-8")
    told = run("predict", model, far, "--json").json["predictions"]
    assert np.isfinite(told["prediction"]).all()
    assert [outside > 0.5 for outside in told["outside"]] == [False, True, True]


@pytest.mark.usefixtures("as_before")
def test_a_row_that_overflows_takes_no_answer_from_others(tmp_path):
    data, model = write(tmp_path / "d.csv", TARGETS["time"]), tmp_path / "m"
    fit = ["fit", data, "-t", "y", "-o", model, "--target-kind", "time", *SMALL, "--steps", "200"]
    assert run(*fit).code == 0
    few, all_ = tmp_path / "few.csv", tmp_path / "all.csv"
    few.write_text("a\n0.5\n1.5\n", encoding="utf-8")
    all_.write_text("a\n0.5\n50000\n-50000\n1.5\n", encoding="utf-8")
    alone = list(csv.DictReader(run("predict", model, few).out.splitlines()))
    ran = run("predict", model, all_, "--quantile", "0.5")
    assert ran.code == 0, ran.err
    assert "RangeWarning" not in ran.err
    rows = list(csv.DictReader(ran.out.splitlines()))
    far = [row["prediction"] == "inf" for row in rows]
    # The network grows to one side or the other.
    assert far in ([False, True, False, False], [False, False, True, False])
    line = far.index(True) + 2
    assert f"line {line}: so far from the training data that the prediction overflows" in ran.err
    for row, expected in zip([rows[0], rows[3]], alone, strict=True):
        assert {name: row[name] for name in expected} == expected
    told = run("predict", model, all_, "--json").json["predictions"]
    assert told["prediction"][far.index(True)] is None
    # No figure means anything with such a row.
    all_.write_text("a,y\n0.5,1\n50000,1\n-50000,1\n1.5,2\n", encoding="utf-8")
    refused = run("evaluate", model, all_)
    assert refused.code == 2
    assert f"all.csv, line {line}: so far from the training data" in refused.err


@pytest.mark.usefixtures("as_before")
def test_a_held_out_row_that_overflows_costs_the_figures_and_not_the_fit(tmp_path):
    data, model = write(tmp_path / "d.csv", TARGETS["time"]), tmp_path / "m"
    fit = ["fit", data, "-t", "y", "-o", model, "--target-kind", "time", *SMALL, "--steps", "200"]
    assert run(*fit).code == 0
    held = read_model(model).source.held_out()[:2]
    lines = data.read_text(encoding="utf-8").splitlines()
    for row, far in zip(held, (50000, -50000), strict=True):
        lines[row + 1] = f"{far},{lines[row + 1].split(',')[1]}"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ran = run(*fit)
    assert ran.code == 0, ran.err
    assert "overflows, so that there are no figures" in ran.err
    assert read_model(model).figures == {}
