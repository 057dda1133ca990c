"""The ranks of `benchmarks/tables.py`."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("tables")


def fit(accuracy: float, seconds: float, **more: float) -> dict[str, float]:
    return {"accuracy": accuracy, "cpu_seconds": seconds, **more}


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


def test_coverage_counts_by_its_distance(tables):
    assert tables.value({"coverage90": 0.85}, "coverage90") == pytest.approx(0.05)
    assert tables.value({"coverage90": 0.97}, "coverage90") == pytest.approx(0.07)
