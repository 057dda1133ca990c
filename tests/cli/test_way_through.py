"""Properties of every kind of target on the whole way: in by frame or CSV, out by CSV, file, load.

The tables have one shape, so that all fits of a kind share their programs.
"""

import csv
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scalemix
from scalemix.cli.models import read_model
from scalemix.posterior import streaming
from scalemix.posterior.networks import Networks
from scalemix.tables import learn_columns, read_table, table_of
from tests.cli.conftest import run
from tests.conftest import QUICK

NUM = 16
TINY = ["--inference", "noise", "--hidden", "4", "--members", "1", "--steps", "3", "--draws", "2",
        "--holdout", "0"]  # fmt: skip
ATTEMPTS = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@pytest.fixture(scope="module", autouse=True)
def few_rows_and_draws():
    """Quantiles of many rows and draws take long where programs are not optimised."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streaming, "BLOCKS", {2: 2, **streaming.BLOCKS})
        patched.setattr(Networks, "default_draws", 4)
        yield


def numbers(low, high):
    return st.floats(low, high, allow_subnormal=False).map(lambda value: float(f"{value:.6g}"))


# The cells of a target of each kind, and what its predictions lie between.
KINDS = {
    "real": (numbers(-1e6, 1e6), (-math.inf, math.inf)),
    "count": (st.integers(0, 50), (0, math.inf)),
    "positive": (numbers(1e-3, 1e6), (0, math.inf)),
    "share": (numbers(1e-3, 0.999), (0, 1)),
    "time": (numbers(1e-2, 1e4).flatmap(lambda t: st.sampled_from([t, -t])), (0, math.inf)),
    "classes": (st.sampled_from(["1", "2", "X"]), None),
}


@st.composite
def tables(draw, kind):
    """A column of numbers with gaps, one of words, and a target in which something varies."""
    cells = KINDS[kind][0]
    target = draw(st.lists(cells, min_size=NUM, max_size=NUM).filter(lambda y: len(set(y)) > 1))
    if kind == "classes":
        # All of them, often enough to be told from numbers with a mistake among them.
        target = [*"12X1"] * 3 + target[12:]
    size = draw(st.lists(numbers(-1e3, 1e3), min_size=NUM - 2, max_size=NUM - 2, unique=True))
    town = draw(st.lists(st.sampled_from(["Ulm", "Köln, am Rhein"]), min_size=NUM, max_size=NUM))
    return pd.DataFrame(
        {
            "size": [None, *size, None],
            "town": ["Ulm", "Köln, am Rhein", *town[2:]],
            "y": target,
        }
    )


def options(kind):
    return [] if kind == "classes" else ["--task", "regression", "--target-kind", kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_and_its_file_are_the_same_inputs_and_targets(kind, tmp_path):
    @settings(max_examples=10 if QUICK else 100, **ATTEMPTS)
    @given(tables(kind), st.sampled_from([(",", "."), (";", ","), ("\t", ",")]))
    def check(frame, written):
        separator, decimal = written
        path = tmp_path / "d.csv"
        frame.to_csv(path, index=False, sep=separator, decimal=decimal)
        task = None if kind == "classes" else "regression"
        read = read_table(path, expected=scalemix.tables.TextFormat(decimal=decimal))
        frame = table_of(frame)
        columns = learn_columns(frame, "y", task=task)
        assert learn_columns(read, "y", task=task) == columns
        np.testing.assert_array_equal(columns.encode(read).x, columns.encode(frame).x)
        np.testing.assert_array_equal(columns.target.encode(read), columns.target.encode(frame))

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_every_kind_come_out_as_python_has_them(kind, tmp_path):
    data, model, output = tmp_path / "d.csv", tmp_path / "m.scalemix", tmp_path / "out.csv"

    @settings(max_examples=1 if QUICK else 20, **ATTEMPTS)
    @given(tables(kind))
    def check(frame):
        frame.to_csv(data, index=False)
        ran = run("fit", data, "-t", "y", "-o", model, *TINY, *options(kind), "--quiet")
        assert ran.code == 0, ran.err
        # The target is not needed for predictions.
        frame[["town", "size"]].to_csv(data, index=False)
        ran = run("predict", model, data, "-o", output, "--keep", "town")
        assert ran.code == 0, ran.err
        with output.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["town"] for row in rows] == frame["town"].tolist()
        columns = read_model(model).columns
        predictive = scalemix.load(model).predict(columns.encode(table_of(frame)).x)
        if kind == "classes":
            said = [[float(row[f"p({name})"]) for name in ("1", "2", "X")] for row in rows]
            np.testing.assert_allclose(said, predictive.mean, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(np.sum(said, axis=1), 1, atol=1e-5)
            assert {row["prediction"] for row in rows} <= {"1", "2", "X"}
            return
        low, high = KINDS[kind][1]
        said = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]
                if name not in ("town", "outside")}  # fmt: skip
        np.testing.assert_allclose(said["prediction"], predictive.mean, rtol=1e-4)
        ends = predictive.interval(0.9)
        for name, end in zip(("lower", "upper"), ends, strict=True):
            np.testing.assert_allclose(said[name], end, rtol=1e-4, atol=1e-6)
        assert (said["lower"] <= said["upper"]).all()
        for name in ("prediction", "lower", "upper"):
            assert ((low <= said[name]) & (said[name] <= high)).all(), name

    check()
