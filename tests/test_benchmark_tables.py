"""The ranks of `benchmarks/tables.py`, and the files that it writes and reads."""

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("tables")


def fit(accuracy: float, seconds: float, **more) -> dict:
    where = {"machine": "x86_64, 2 cores", "device": "cpu"}
    return {"accuracy": accuracy, "cpu_seconds": seconds, **where, **more}


FITS = {
    "first": {
        "0": {"a": fit(0.9, 10), "b": fit(0.9, 6, extra_seconds=5), "c": fit(0.8, 2)},
        "1": {"a": fit(0.9, 10), "b": {"failed": "why"}, "c": fit(0.8, 2)},
    },
    "second": {"0": {"a": fit(0.7, 10), "b": fit(0.6, 3), "c": fit(0.8, 2)}},
    "third": {"0": {"a": fit(0.7, 10), "b": fit(0.6, 3)}},
}
NAMES = ["first", "second", "third", "fourth"]


def test_only_folds_that_all_packages_have_count(tables):
    assert tables.complete(FITS, NAMES, "abc") == [("first", "0"), ("second", "0")]
    assert tables.complete(FITS, NAMES, "ab") == [("first", "0"), ("second", "0"), ("third", "0")]


def test_ties_share_a_rank(tables):
    # 1.5, 1.5, 3 on the first; 2, 3, 1 on the second.
    which = tables.complete(FITS, NAMES, "abc")
    ranks = tables.ranks(FITS, which, "abc", "classification", "accuracy")
    assert [float(rank) for rank in ranks] == pytest.approx([1.75, 2.25, 2.0], abs=0.051)


def test_seconds_leave_out_what_predicted_numbers_do_not_need(tables):
    ranks = tables.ranks(FITS, [("first", "0")], "abc", "classification", "seconds")
    assert ranks == ["3.0", "1.0", "2.0"]


def test_seconds_of_other_machines_have_no_ranks(tables):
    fits = {
        "first": {"0": {"a": fit(0.9, 1), "b": fit(0.8, 2)}},
        "second": {"0": {"a": fit(0.9, 2, machine="x86_64, 16 cores"), "b": fit(0.8, 1)}},
        "third": {"0": {"a": fit(0.9, 2), "b": fit(0.8, 1, device="NVIDIA H200")}},
    }
    which = tables.complete(fits, NAMES, "ab")
    assert tables.ranks(fits, which, "ab", "classification", "accuracy") == ["1.0", "2.0"]
    assert tables.ranks(fits, which, "ab", "classification", "seconds") == ["1.0", "2.0"]
    assert tables.ranks(fits, which[1:], "ab", "classification", "seconds") == ["", ""]


def test_every_table_counts_once(tables):
    ahead, behind = {"a": fit(0.9, 1), "b": fit(0.8, 1)}, {"a": fit(0.8, 1), "b": fit(0.9, 1)}
    fits = {"first": {str(fold): ahead for fold in range(4)}, "second": {"0": behind}}
    which = tables.complete(fits, NAMES, "ab")
    assert tables.ranks(fits, which, "ab", "classification", "accuracy") == ["1.5", "1.5"]


def test_merging_adds_what_is_missing_and_keeps_what_is_there(tables):
    failed = {"failed": "why"}
    mine = {"tables": {}, "fits": {"first": {"0": {"a": fit(0.9, 1), "b": failed}}}}
    shapes = {"first": {"rows": 2, "columns": 1}}
    theirs = {"0": {"a": fit(0.1, 1), "b": fit(0.8, 1)}, "1": {"a": failed}}
    tables.merge(mine, {"tables": shapes, "fits": {"first": theirs}})
    assert mine["tables"] == shapes
    both = {"0": {"a": fit(0.9, 1), "b": fit(0.8, 1)}, "1": {"a": failed}}
    assert mine["fits"] == {"first": both}


@pytest.mark.parametrize("classes", [False, True])
def test_a_worker_reads_the_folds_of_a_table_as_they_are(tables, tmp_path, classes):
    worker = importlib.import_module("table_worker")
    rng = np.random.default_rng(0)
    words = rng.choice(["red", "green", None], 23)
    frame = pd.DataFrame({"c0": rng.normal(size=23), "c1": words, "c2": rng.integers(9, size=23)})
    y = np.arange(23) % 3 if classes else rng.normal(size=23)
    table = tables.Table(frame, y)
    tables.write_rows(tmp_path / "table.npz", table, [test for _, test in table.folds()])
    for fold, rows in enumerate(table.folds()):
        parts = worker.read(tmp_path / "table.npz", fold)
        for x, target, part in zip(parts[::2], parts[1::2], rows, strict=True):
            pd.testing.assert_frame_equal(x, frame.iloc[part].reset_index(drop=True))
            np.testing.assert_array_equal(target, y[part])


def test_coverage_counts_by_its_distance(tables):
    assert tables.value({"coverage90": 0.85}, "coverage_by_fold") == pytest.approx(0.05)
    assert tables.value({"coverage90": 0.97}, "coverage_by_fold") == pytest.approx(0.07)


def test_coverage_is_that_of_all_rows_of_the_folds(tables):
    """Too much in one fold and too little in another is as it should be."""
    folds = [[{"coverage90": share} for share in shares] for shares in ((0.8, 0.92), (1.0, 0.92))]
    np.testing.assert_array_equal(tables.rank_folds(folds, "coverage", 1), [1, 2])
    np.testing.assert_array_equal(tables.rank_folds(folds, "coverage_by_fold", 1), [2, 1])
