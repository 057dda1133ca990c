"""`fit --calibration` and `predict --conformal`."""

import csv
import re

import pytest

from tests.cli.conftest import fit_small, run


@pytest.mark.parametrize("target", ["price", "mood"])
def test_rows_kept_apart_calibrate_intervals_and_sets(target, tmp_path, regression):
    ignored = {"price": "mood", "mood": "price"}[target]
    fit = fit_small(tmp_path, target, "--ignore", ignored, "--calibration", "0.4")
    assert "training on 40 rows and 11 inputs, 8 held out, 32 to calibrate" in fit.ran.err
    assert "40 rows; 8 held out; 32 to calibrate" in run("info", fit.model).out
    held = run("evaluate", fit.model, fit.data, "--json").json["figures"]
    if target == "price":
        assert 0 <= held["conformal_coverage"] <= 1
        assert "width of 90% conformal interval" in fit.ran.out
        plain = run("evaluate", regression.model, regression.data, "--json").json["figures"]
        assert "conformal_coverage" not in plain
    else:
        assert 0 <= held["set_coverage"] <= 1
        assert 1 <= held["set_size"] <= 2
        assert "classes in a conformal set" in fit.ran.out
    ran = run("predict", fit.model, fit.data, "--conformal", "--interval", "0.8")
    # The names of the columns do not tell.
    says = "lower and upper are conformal: at least 80% of rows drawn like those of the training"
    assert (says in ran.err) == (target == "price")
    rows = list(csv.DictReader(ran.out.splitlines()))
    truth = [row[target] for row in csv.DictReader(fit.data.read_text("utf-8").splitlines())]
    if target == "price":
        inside = [
            float(row["lower"]) <= float(y) <= float(row["upper"])
            for row, y in zip(rows, truth, strict=True)
        ]
    else:
        inside = [y in row["set"].split(" | ") for row, y in zip(rows, truth, strict=True)]
    assert sum(inside) >= 0.6 * len(rows)
    # More than 32 rows can promise.
    sure = run("predict", fit.model, fit.data, "--conformal", "--interval", "0.99")
    assert "32 rows are too few to be sure of 99%" in sure.err
    if target == "price":
        said = run("predict", fit.model, fit.data, "--conformal", "--interval", "0.99", "--json")
        assert set(said.json["predictions"]["lower"]) == {None}
    else:
        assert {row["set"] for row in csv.DictReader(sure.out.splitlines())} == {"bad | good"}
    refused = run("predict", regression.model, regression.data, "--conformal")
    assert refused.code == 2
    assert "fit with --calibration 0.2" in refused.err
    small = tmp_path / "small.scalemix"
    ran = run("prune", fit.model, "-o", small, "--yes")
    assert ran.code == 0
    assert "It has no conformal intervals or sets" in ran.err
    refused = run("predict", small, fit.data, "--conformal")
    assert refused.code == 2
    assert "pruning dropped the calibration" in refused.err
    assert "fit with" not in refused.err
    what = "conformal intervals" if target == "price" else "conformal sets"
    for model, says in (
        (fit.model, "calibrated by 32 rows that were kept apart"),
        (small, "none: pruning dropped the calibration"),
    ):
        assert run("report", model, "-o", tmp_path / "r.html").code == 0
        page = re.sub(r"<[^>]*>|\s", " ", (tmp_path / "r.html").read_text("utf-8"))
        assert "40 trained on, 8 held out, 32 to calibrate" in page
        assert f"{what} {says}" in " ".join(page.split())


def test_rows_must_be_left_to_train_on(tmp_path):
    fit = fit_small(tmp_path, "price", "--calibration", "0.4", "--holdout", "0.7")
    assert fit.ran.code == 2
    assert "leave no rows to train on" in fit.ran.err
