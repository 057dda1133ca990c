"""Tables that are read a part at a time."""

import re

import numpy as np
import pytest

from scalemix.tables import read_table
from tests.cli.conftest import SMALL, run, write_table

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402


def as_arrow(path):
    """The table of the other tests, with the types that a program would give it."""
    columns = read_table(path).columns
    numbers = {
        name: [None if cell is None else float(cell) for cell in columns[name]]
        for name in ("size", "price")
    }
    new = [None if cell is None else cell == "True" for cell in columns["new"]]
    return pa.table({n: list(cells) for n, cells in columns.items()} | numbers | {"new": new})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    whole = as_arrow(write_table(folder / "data.csv"))
    parts = folder / "parts"
    parts.mkdir()
    parquet.write_table(whole, folder / "data.parquet", row_group_size=30)
    parquet.write_table(whole.slice(0, 50), parts / "1.parquet", row_group_size=20)
    feather.write_feather(whole.slice(50), parts / "2.arrow", chunksize=20)
    return folder


@pytest.fixture(scope="module")
def streamed(files):
    """A fit to a folder, which is never read as a whole."""
    model = files / "model.scalemix"
    ran = run(
        "fit", files / "parts", "-t", "price", "--ignore", "mood", "-o", model, "--calibration",
        "0.2", "--report", files / "report.html", "--json", *SMALL,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    return model, ran


def test_the_columns_are_those_of_the_table_in_memory(files, streamed, tmp_path):
    _, ran = streamed
    options = ["-t", "price", "--ignore", "mood", "--calibration", "0.2", "--json", *SMALL]
    small = run("fit", files / "data.parquet", "-o", tmp_path / "m", *options)
    assert ran.json["rows"] == small.json["rows"] == {"trained": 56, "held_out": 8}
    mine, theirs = ran.json["columns"], small.json["columns"]
    assert [c["name"] for c in mine["inputs"]] == [c["name"] for c in theirs["inputs"]]
    assert mine["target"] == theirs["target"]
    assert ran.json["settings"] == small.json["settings"]
    assert "read from disk" in ran.err
    assert "read from disk" not in small.err
    assert (files / "report.html").stat().st_size > 1000


def test_predictions_of_parts_are_those_of_the_whole(files, streamed, tmp_path, monkeypatch):
    model, _ = streamed
    options = ["--keep", "town", "--keep", "new", "--conformal", "-o"]
    assert run("predict", model, files / "data.parquet", *options, tmp_path / "a.csv").code == 0
    assert run("predict", model, files / "data.parquet", *options, tmp_path / "a.pq").code == 0
    monkeypatch.setattr("scalemix.cli.predict.CHUNK", 32)
    for name in ("b.csv", "b.pq"):
        ran = run("predict", model, files / "parts", *options, tmp_path / name)
        assert ran.code == 0
        assert "80 predictions" in ran.err
        assert ran.err.count("missing, which networks are told") == 2
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    whole, parts = (parquet.read_table(tmp_path / name) for name in ("a.pq", "b.pq"))
    assert whole.schema == parts.schema
    assert whole["town"].to_pylist() == parts["town"].to_pylist()
    np.testing.assert_allclose(whole["prediction"], parts["prediction"], rtol=1e-6)
    assert "name one with --output" in run("predict", model, files / "parts", "--json").err


def test_what_was_held_out_is_known_again(files, streamed):
    model, fit = streamed
    again = run("evaluate", model, files / "parts", "--json").json
    assert again["tested_on"] == "8 held-out rows of parts"
    assert again["figures"] == pytest.approx(fit.json["figures"], rel=1e-5)
    # The same rows in another file are other rows.
    assert run("evaluate", model, files / "data.parquet", "--json").json["rows"] == 80
    assert "parts, 56 rows" in run("info", model).out


def test_settings_are_chosen_on_a_sample(files, tmp_path, monkeypatch):
    """Trials in memory, members from disk; the same seed gives the same model."""
    monkeypatch.setattr("scalemix.cli.streaming.TRIAL_ROWS", 50)
    small = ["--hidden", "8", "--members", "2", "--steps", "4", "--trial-members", "1"]
    fit = ["fit", files / "data.parquet", "-t", "mood", "--stream", "--bins", "none", "--quiet"]
    first = run(*fit, "-o", tmp_path / "1", "--json", *small, "--ignore", "price")
    assert first.code == 0, first.err
    again = run(*fit, "-o", tmp_path / "2", "--json", *small, "--ignore", "price")
    assert first.json["figures"] == again.json["figures"]
    both = [run("predict", tmp_path / name, files / "parts", "-q").out for name in ("1", "2")]
    assert both[0] == both[1]
    assert len(both[0].splitlines()) == 81
    # With n rows, c of them of a class, n / (2 c) is what a row of that class counts as.
    options = ["--ignore", "price", "--class-weight", "balanced", "--json", *small]
    weighed = run(*fit[:-1], "-o", tmp_path / "3", *options)
    assert weighed.code == 0, weighed.err
    said = re.search(r"a row counts as so many: bad ([\d.]+), good ([\d.]+)", weighed.err)
    assert sum(1 / float(weight) for weight in said.groups()) == pytest.approx(2, rel=0.01)
    assert weighed.json["settings"]["class_weight"] == "balanced"
    assert weighed.json["figures"] != first.json["figures"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-t", "nothing"], "there is no column 'nothing'. There are: 'size', 'town'"),
        (["-t", "size"], r"1.parquet, row 1, column 'size': the target is missing"),
        (["-t", "prize", "--missing-target", "drop"], "there is no column 'prize'. Did you mean"),
        (["-t", "price", "--inference", "mcmc"], "--inference mcmc needs all rows in memory"),
        (["-t", "price", "--holdout", "0.9", "--calibration", "0.9"], "leave no rows"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_fitted(files, tmp_path, options, says):
    ran = run("fit", files / "parts", "-o", tmp_path / "m", *options)
    assert ran.code == 2
    assert says in ran.err


def test_rows_without_a_target_are_left_out_of_parts_as_of_the_whole(files, tmp_path):
    fit = ["fit", "-t", "size", "--missing-target", "drop", "--ignore", "mood", "--json", *SMALL]
    parts = run(*fit, files / "parts", "-o", tmp_path / "parts")
    assert parts.code == 0, parts.err
    whole = run(*fit, files / "data.parquet", "-o", tmp_path / "whole")
    assert parts.json["rows"] == whole.json["rows"] == {"trained": 68, "held_out": 8}
    assert "4 rows have no target, and are left out" in parts.err
    # What was held out is known again, by its numbers among the rows that are left.
    again = run("evaluate", tmp_path / "parts", files / "parts", "--json").json
    assert again["rows"] == 8
    assert again["figures"] == pytest.approx(parts.json["figures"], rel=1e-5)
    assert len(run("predict", tmp_path / "parts", files / "parts").out.splitlines()) == 81


def test_only_some_files_can_be_read_in_parts(files, tmp_path):
    ran = run("fit", files / "data.csv", "-t", "price", "--stream", "-o", tmp_path / "m")
    assert ran.code == 2
    assert "--stream is for Parquet and Arrow files" in ran.err
