"""The paper's tables and figures, on short runs."""

import dataclasses
import json
import threading
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import scalemix as sx
from scalemix.cli.app import app
from scalemix.reproduce import (
    PLANS,
    Plan,
    cells,
    given_rows,
    page,
    read_results,
    reproduce,
    scores,
    write_page,
)
from scalemix.reproduce.cells import measure
from scalemix.reproduce.dropout import GROUPS, KINDS, fit_dropout
from scalemix.reproduce.figures import heat_maps
from scalemix.reproduce.published import DROPOUT, PAPER, SETS

# Two of each to choose among: more would only take longer.
PLAN = Plan("test", 2, 20, 20, 32, 128, drop_rates=(0.005, 0.05), noise_floors=(0.001, 0.1))


def quietly(target, folder, plan=PLAN, **arguments):
    return reproduce(
        target, plan, folder, sets=["yacht"], say=lambda _: None, progress=False, **arguments
    )


@pytest.fixture(scope="module", autouse=True)
def few_draws():
    """Scores of thousands of draws are no other code than those of some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "NUM_PREDICTED", 20)
        patch.setattr(given_rows, "NUM_WEIGHED", 200)
        patch.setattr(given_rows, "NUM_KEPT", 50)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("reproduction")
    with pytest.MonkeyPatch.context() as patch:
        # One panel beside that of dropout: a slow test of the figures draws all.
        patch.setattr(heat_maps, "STRUCTURES", {"ARD": sx.ARD})
        quietly("all", made)
    return made


def test_every_table_and_figure_is_made(folder):
    content = json.loads((folder / "results.json").read_text())
    methods = {name.split("/")[2] for name in content["cells"]}
    assert methods == {*KINDS, "ARD", "ADD", "ARD-ADD"}
    assert methods == {method for _, columns in scores.TABLES.values() for method in columns}
    for cell in content["cells"].values():
        assert len(cell["splits"]) == 2
        for row in cell["splits"]:
            # A single draw errs at least as much, on average, as its mean does in absolute terms.
            assert np.isfinite([row["rmse"], row["paper_rmse"], row["log_likelihood"]]).all()
    assert {"plan", "hardware", "commit", "jax"} <= content.keys()
    for figure in ("figure1a", "figure1b", "figure2"):
        assert (folder / f"{figure}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert "<svg" in (folder / f"{figure}.svg").read_text()
    tables = (folder / "results.md").read_text()
    mean = np.mean([r["rmse"] for r in content["cells"]["table2/yacht/ARD"]["splits"]])
    assert f"{mean:.3f}" in tables


def test_the_page_is_made_of_the_results(folder, tmp_path):
    content = json.loads((folder / "results.json").read_text())
    write_page(content, tmp_path / "page.md", tmp_path / "figures")
    text = (tmp_path / "page.md").read_text()
    assert page.tables(content) in text
    assert content["commit"][:12] in text
    assert page.shortfalls(content) in text
    assert "(figures/figure2.png)" in text
    assert "{" not in text.replace("{-1, 3}", "")


def test_the_documentation_holds_the_page_of_the_committed_results(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    content = json.loads((docs / "reproduction" / "results.json").read_text())
    # Every set has the same methods.
    methods = {tuple(cell.split("/")[::2]) for cell in content["cells"]}
    assert len(content["cells"]) == len(methods) * len(SETS) >= 6 * len(SETS)
    assert content["plan"]["name"] == "full"
    assert len(content["commit"]) == 40
    other = docs / "reproduction" / "as_published.json"
    in_the_papers_way = read_results(other) if other.exists() else None
    write_page(content, tmp_path / "reproduction.md", tmp_path / "reproduction", in_the_papers_way)
    written = (tmp_path / "reproduction.md").read_text()
    assert written == (docs / "reproduction.md").read_text()
    # What the page is about first, and each number that is counted.
    assert "does not survive a true RMSE" in written.split("\n\n")[1]
    states = [line.rsplit(" | ", 1)[1] for line in page.listing(content).splitlines()[2:]]
    assert len(states) == 63
    reached = page.shortfalls(content).split(" of 63 published numbers are reached")[0]
    assert states.count("reached |") == int(reached)


def test_what_is_not_reached_is_listed():
    row = {"rmse": 1.0, "paper_rmse": 1.0, "log_likelihood": -1.0}
    said = page.shortfalls({"cells": {"table2/yacht/ARD": {"splits": [row, row]}}})
    assert said.startswith("0 of 1 published numbers")
    assert "ARD, yacht: paper_rmse 1.000 (0.000), published 0.691" in said
    assert "Not run yet: ADD on yacht." in said


def test_importance_weighting_is_counted_by_batch_and_once():
    good = {"rmse": 0.5, "paper_rmse": 0.5, "log_likelihood": -1.2}
    bad = good | {"paper_rmse": 1.3}
    cells = {
        f"table1/yacht/{method}": {"splits": [good, good]}
        for method in ("lower_bound", "tail_adaptive", "importance_weighted_by_batch")
    }
    cells["table1/yacht/importance_weighted_by_example"] = {"splits": [bad, bad]}
    cells["table1/yacht/importance_weighted_given_rows"] = {"splits": [good, good]}
    said = page.shortfalls({"cells": cells})
    # RMSE and likelihood of dropout, paper_rmse and likelihood of the two others.
    assert said.startswith("6 of 6 published numbers are reached.")
    assert "With importance weights by example in their column, 5 of 6 are reached." in said
    assert "noise given the rows of training in their column, 6 of 6 are reached." in said
    assert "- importance_weighted_by_example, yacht: paper_rmse 1.300 (0.000)" in said
    without = {n: c for n, c in cells.items() if not n.endswith("_by_batch")}
    said = page.shortfalls({"cells": without})
    assert said.startswith("4 of 4 published numbers")
    assert "Not run yet: importance_weighted_by_batch on yacht." in said
    row = "| yacht | 0.72 ± 0.06 | 0.500 (0.000) / 0.67 ± 0.05 ✓ | not run |"
    assert row in page.tables({"cells": without})


def test_results_of_before_are_of_weights_by_example(folder, tmp_path):
    content = json.loads((folder / "results.json").read_text())
    old = {
        name.removesuffix("_by_example"): cell
        for name, cell in content["cells"].items()
        if not name.endswith(("_by_batch", "_given_rows"))
    }
    (tmp_path / "results.json").write_text(json.dumps(content | {"cells": old}))
    cells = quietly("figure1b", tmp_path)["cells"]
    name = "table1/yacht/importance_weighted_by_example"
    assert cells[name] == content["cells"][name]
    assert not any(cell.endswith("/importance_weighted") for cell in cells)


def test_finished_cells_are_not_run_again(folder, tmp_path, monkeypatch):
    content = json.loads((folder / "results.json").read_text())
    # As if the run had been cut off before its last cell.
    last = "table2/yacht/ARD-ADD"
    partial = content | {"cells": {n: c for n, c in content["cells"].items() if n != last}}
    (tmp_path / "results.json").write_text(json.dumps(partial))
    made = []

    def counted(methods, *rest):
        made.extend(methods)
        return measure(methods, *rest)

    monkeypatch.setattr("scalemix.reproduce.run.measure", counted)
    again = quietly("table2", tmp_path)
    assert made == ["ARD-ADD"]
    assert again["cells"][last]["splits"] == content["cells"][last]["splits"]


# The group that also chooses and predicts by noise given the rows of training has all there is to
# leak through.
@pytest.mark.parametrize(
    ("names", "name"),
    [
        pytest.param(
            group, group[-1], marks=[] if KINDS[group[-1]].given_rows else pytest.mark.slow
        )
        for group in GROUPS
    ],
)
def test_test_rows_reach_neither_training_nor_choice(names, name):
    data = sx.data.load("yacht")
    splits = sx.data.splits(len(data.y))[:1]
    test = splits[0][1]
    poisoned = data._replace(x=data.x.copy(), y=data.y.copy())
    poisoned.x[test] = 1e6
    poisoned.y[test] = -1e6
    plan = dataclasses.replace(PLAN, num_splits=1)
    clean, other = (fit_dropout(d, splits, plan, names, False)[name] for d in (data, poisoned))
    assert clean.chosen == other.chosen
    for a, b in zip(
        jax.tree.leaves(eqx.filter(clean.posteriors[0].networks, eqx.is_array)),
        jax.tree.leaves(eqx.filter(other.posteriors[0].networks, eqx.is_array)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert clean.posteriors[0].scaling.y_mean == other.posteriors[0].scaling.y_mean


@pytest.mark.parametrize("at_once", [1, 3])
def test_cells_may_be_made_at_the_same_time(tmp_path, monkeypatch, at_once):
    row = {"rmse": 1.0, "paper_rmse": 1.0, "log_likelihood": -1.0}
    here = []

    def made(methods, data, splits, plan, progress):
        here.append(threading.current_thread() is threading.main_thread())
        if fails and data.name == "wine":
            raise RuntimeError("out of memory")
        cell = {"splits": [row, row], "fit_seconds": 1.0}
        return {method: cell | {"set": data.name} for method in methods}

    monkeypatch.setattr("scalemix.reproduce.run.measure", made)
    arguments = {"sets": ["wine", "yacht", "energy"], "at_once": at_once, "say": lambda _: None}
    fails = True
    with pytest.raises(RuntimeError, match="out of memory"):
        reproduce("table1", PLAN, tmp_path, **arguments)
    fails = False
    content = reproduce("table1", PLAN, tmp_path, **arguments)
    assert content == read_results(tmp_path / "results.json")
    assert len(content["cells"]) == 3 * len(KINDS)
    assert all(cell["set"] == name.split("/")[1] for name, cell in content["cells"].items())
    # The time that passed, and not the sum of what each cell took.
    assert 0 < content["seconds"] < len(content["cells"])
    assert all(here) if at_once == 1 else not any(here)
    with pytest.raises(ValueError, match="at_once"):
        reproduce("table1", PLAN, tmp_path, at_once=0)


def test_results_do_not_depend_on_how_many_are_made_at_once(folder, tmp_path):
    content = json.loads((folder / "results.json").read_text())
    again = quietly("table2", tmp_path, at_once=3)
    assert len(again["cells"]) == 3
    for name, cell in again["cells"].items():
        assert cell["splits"] == content["cells"][name]["splits"]


def test_another_plan_or_a_foreign_file_is_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="results of another plan"):
        quietly("table1", folder, PLANS["quick"])
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(ValueError, match="no results file"):
        quietly("table1", tmp_path)
    with pytest.raises(ValueError, match="no 'table3'"):
        quietly("table3", tmp_path)
    with pytest.raises(ValueError, match="data_dir"):
        reproduce("table1", PLAN, tmp_path, sets=["protein"])


def test_the_command_line_shows_what_is_there(folder, monkeypatch):
    monkeypatch.setitem(PLANS, "quick", PLAN)
    arguments = ["table2", "--quick", "--sets", "yacht", "-o", str(folder)]
    shown = CliRunner().invoke(app, ["reproduce", *arguments])
    assert shown.exit_code == 0
    assert "table2/yacht/ARD-ADD" in shown.stdout
    machines = CliRunner().invoke(app, ["reproduce", *arguments, "--json"])
    assert json.loads(machines.stdout) == json.loads((folder / "results.json").read_text())
    plans = ["table1", "--quick", "--as-published"]
    paged = ["table1", "--as-published", "--page", str(folder / "page.md")]
    for bad in (["table9"], ["table1", "--sets", "nosuch"], plans, paged):
        assert CliRunner().invoke(app, ["reproduce", *bad, "-o", str(folder)]).exit_code == 2


def test_what_counts_as_reached():
    def cell(*values):
        return {"splits": [{"paper_rmse": v, "log_likelihood": v, "rmse": v} for v in values]}

    # Yacht under ARD: .691, plus or minus .12.
    assert scores.reaches(cell(0.80, 0.80), "ARD", "paper_rmse", "yacht")
    assert not scores.reaches(cell(0.82, 0.82), "ARD", "paper_rmse", "yacht")
    assert scores.reaches(cell(-1.30, -1.30), "tail_adaptive", "log_likelihood", "yacht")
    assert not scores.reaches(cell(-1.50, -1.50), "tail_adaptive", "log_likelihood", "yacht")
    # Dropout on boston: 2.90 with a standard error of .18, of which two are allowed.
    assert scores.reaches(cell(3.2, 3.2), "lower_bound", "rmse", "boston")
    assert not scores.reaches(cell(3.3, 3.3), "lower_bound", "rmse", "boston")
    assert scores.reaches(cell(1.0, 2.0), "ARD", "rmse", "boston") is None


def test_published_numbers_cover_every_set():
    for source in (*PAPER.values(), DROPOUT):
        for numbers in source.values():
            assert tuple(numbers) == SETS


def test_sets_in_the_public_layout_are_read(tmp_path):
    inner = tmp_path / "toy" / "data"
    inner.mkdir(parents=True)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(30, 4))
    np.savetxt(inner / "data.txt", table)
    np.savetxt(inner / "index_features.txt", [0, 2, 3])
    np.savetxt(inner / "index_target.txt", [1])
    for i in range(2):
        order = rng.permutation(30)
        np.savetxt(inner / f"index_train_{i}.txt", order[:27])
        np.savetxt(inner / f"index_test_{i}.txt", order[27:])
    data, splits = sx.data.read_public(tmp_path / "toy")
    np.testing.assert_allclose(data.x, table[:, [0, 2, 3]])
    np.testing.assert_allclose(data.y, table[:, 1])
    assert data.name == "toy"
    assert len(splits) == 2
    assert sorted(np.concatenate(splits[1])) == list(range(30))
    np.savetxt(inner / "index_target.txt", [9])
    with pytest.raises(ValueError, match="names a row or a column"):
        sx.data.read_public(tmp_path / "toy")
    (inner / "data.txt").write_text("a b c")
    with pytest.raises(ValueError, match="not a table of numbers"):
        sx.data.read_public(tmp_path / "toy")
    (inner / "data.txt").unlink()
    with pytest.raises(ValueError, match="is missing"):
        sx.data.read_public(tmp_path / "toy")
