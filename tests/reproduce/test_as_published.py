"""The plan of the paper and its released code: nothing tuned, shuffled splits, deviations."""

import dataclasses
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import scalemix as sx
from scalemix.analysis import metrics
from scalemix.cli.app import app
from scalemix.reproduce import PLANS, Plan, page, reproduce, write_page
from scalemix.reproduce import dropout as table1
from scalemix.reproduce.cells import NUM_PREDICTED, measure
from scalemix.reproduce.scores import TABLES

PLAN = dataclasses.replace(PLANS["as_published"], num_splits=1, steps=20, steps_large=20)


def test_a_plan_survives_its_file():
    for plan in PLANS.values():
        assert Plan.read(json.loads(json.dumps(plan.to_json()))) == plan
    # A file of before there was anything to choose.
    old = {"name": "full", "num_splits": 20, "steps": 20_000, "steps_large": 40_000}
    old |= {"batch_size": 32, "batch_size_large": 256, "held_out": 0.2}
    assert Plan.read(old) == PLANS["full"]


def test_splits_are_shuffles_and_not_the_standard_ones():
    plan = PLANS["as_published"]
    splits = plan.splits(308)
    assert len(splits) == 20
    for train, test in splits:
        assert len(train) == 277
        assert sorted([*train, *test]) == list(range(308))
    tests = {tuple(test) for _, test in [*splits, *sx.data.splits(308)]}
    assert len(tests) == 40
    for ours, again in zip(splits, plan.splits(308), strict=True):
        np.testing.assert_array_equal(ours[1], again[1])
    full = PLANS["full"].splits(308)
    np.testing.assert_array_equal(full[3][0], sx.data.splits(308)[3][0])


def test_nothing_is_tuned_and_no_fit_is_made_twice(monkeypatch):
    data = sx.data.load("yacht")
    splits = PLAN.splits(len(data.y))
    made = []

    def counted(models, xs, ys, methods, **rest):
        made.extend(zip(models, methods, strict=True))
        return sx.fit_many(models, xs, ys, methods, **rest)

    def tried(*_):
        raise AssertionError("There is nothing to choose among.")

    monkeypatch.setattr(table1, "fit_many", counted)
    monkeypatch.setattr(table1, "_try_out", tried)
    names = ("importance_weighted_by_batch", "importance_weighted_given_rows")
    fitted = {}

    def kept(*arguments):
        fitted.update(table1.fit_dropout(*arguments))
        return fitted

    monkeypatch.setattr("scalemix.reproduce.cells.fit_dropout", kept)
    cells = measure(names, data, splits, PLAN, False)
    # Both ways of predicting are of one fit.
    [(model, method)] = made
    assert model.structures["layers.0"].scale == np.inf
    assert float(model.penalty("expanded")) == 0.0
    assert method.learning_rate(0) == method.learning_rate(19) == 1e-3
    weights = [fitted[name].posteriors[0].model.weights["layers.0"] for name in names]
    np.testing.assert_array_equal(*weights)
    for name in names:
        [row] = cells[name]["splits"]
        assert row["drop"] == 0.005
        assert row["noise_floor"] == 0.001
    # One pass of draws has what predictions have that are asked three times.
    test = splits[0][1]
    prediction = fitted[names[0]].posteriors[0].predict(data.x[test], num_draws=NUM_PREDICTED)
    y = data.y[test]
    expected = {
        "rmse": metrics.rmse(y, prediction.mean),
        "paper_rmse": metrics.paper_rmse(prediction.absolute_error(y)),
        "log_likelihood": metrics.log_likelihood(prediction.log_prob(y)),
    }
    [row] = cells[names[0]]["splits"]
    assert {k: row[k] for k in expected} == pytest.approx(expected, rel=1e-6)
    json.dumps(cells)


def made_up():
    """Results of the plan, of which ARD is 0.7 on one split and 0.5 on the other."""
    rows = [{"rmse": v, "paper_rmse": v, "log_likelihood": -1.3} for v in (0.7, 0.5)]
    cells = {
        f"{table}/yacht/{method}": {"splits": rows, "fit_seconds": 60.0}
        for table, (_, methods) in TABLES.items()
        for method in methods
    }
    about = {"hardware": "a machine", "jax": "0", "commit": "0" * 40}
    return {"plan": PLAN.to_json(), **about, "cells": cells}


def test_deviations_stand_beside_the_printed_numbers(tmp_path):
    content = made_up()
    said = page.tables(content)
    # The deviation of two splits that are .1 from their mean, and not its standard error.
    assert "0.600 ± 0.100 / 0.691 ± 0.12 ✓" in said
    # Dropout is compared with the column that the paper prints.
    assert "0.600 ± 0.100 / 0.72 ± 0.06 ✓" in said
    ours = content | {"plan": PLANS["full"].to_json()}
    write_page(ours, tmp_path / "page.md", tmp_path, content)
    written = (tmp_path / "page.md").read_text()
    assert page.tables(content, "####") in written
    assert "- Importance weights give the best likelihood. The paper: on 5 of 7 sets." in written
    assert "- By RMSE the average rank of ARD-ADD" in written
    write_page(ours, tmp_path / "page.md", tmp_path)
    assert "not been run yet" in (tmp_path / "page.md").read_text()


def test_its_results_are_a_file_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setitem(PLANS, "as_published", PLAN)
    (tmp_path / "as_published.json").write_text(json.dumps(made_up()))
    (tmp_path / "results.json").write_text("{}")
    arguments = ["--as-published", "--sets", "yacht", "-o", str(tmp_path)]
    shown = CliRunner().invoke(app, ["reproduce", "all", *arguments])
    assert shown.exit_code == 0, shown.output
    assert "table1/yacht/tail_adaptive" in shown.stdout
    assert "± 0.100" in (tmp_path / "as_published.md").read_text()
    # Figures are the same whatever the plan, and those of the folder stay as they are.
    assert not list(tmp_path.glob("*.png"))
    assert (tmp_path / "results.json").read_text() == "{}"
    with pytest.raises(ValueError, match="Figures are not made by the plan 'as_published'"):
        reproduce("figure2", PLAN, tmp_path)
