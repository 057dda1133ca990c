"""Kinds of targets, from a file to a model and back to files."""

import csv

import numpy as np
import pytest

from tests.cli.conftest import SMALL, run

pytestmark = pytest.mark.usefixtures("few_rows")

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
