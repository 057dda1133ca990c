"""Real tables as they come, from a CSV file to a model, to predictions, to a report and back."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import scalemix
from scalemix.cli.models import read_model
from scalemix.tables import read_table
from tests.cli.conftest import SMALL, run

RAW = Path(__file__).parents[1] / "tables_raw"


class Case(NamedTuple):
    file: str
    target: str
    options: list[str]
    says: list[str]
    """What the fit says of the columns."""
    num_rows: int
    """How many have a target."""


CASES = [
    Case(
        "adult.csv",
        "income",
        [],
        [
            "target: income, classification of 2 classes (it is text)",
            "numbers: age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week",
            "categories, one-hot: workclass (",
            "'occupation': ",
        ],
        320,
    ),
    Case(
        "flights.csv",
        "arr_delay",
        ["--missing-target", "drop", "--ignore", "dep_delay"],
        [
            "rows have no target, and are left out",
            "dates, as days: time_hour",
            "carrier (",
            "year (the same in every row)",
            "tailnum (text that is different in most rows",
        ],
        0,
    ),
    Case(
        "medical_cost.csv",
        "charges",
        ["--target-kind", "positive"],
        ["each a number above zero", "categories, one-hot: sex (2), smoker (2), region (4)"],
        320,
    ),
]


# A plain table of numbers and words goes the same way in other tests.
PLAIN = "charges"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if case.target == PLAIN else [])
        for case in CASES
    ],
    ids=[case.target for case in CASES],
)
def test_a_real_table_goes_all_the_way(case, tmp_path):
    data, model, report = RAW / case.file, tmp_path / "m.scalemix", tmp_path / "r.html"
    fit = ["fit", data, "-t", case.target, "-o", model, *SMALL, *case.options]
    ran = run(*fit)
    assert ran.code == 0, ran.err
    for text in case.says:
        assert text in ran.err
    table = read_table(data)
    num_rows = sum(cell is not None for cell in table.columns[case.target])
    assert num_rows == (case.num_rows or num_rows)
    held = round(0.1 * num_rows)
    assert f"{num_rows - held} rows" in ran.err
    # What the model says of the rows, by the command line and by Python.
    output = tmp_path / "out.csv"
    assert run("predict", model, data, "-o", output, "--keep", case.target).code == 0
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [row[case.target] or None for row in rows]
    assert kept == table.columns[case.target]
    mean = scalemix.load(model).predict(read_model(model).columns.encode(table).x).mean
    if mean.ndim == 2:
        classes = read_model(model).columns.target.classes
        said = np.array([[float(row[f"p({name})"]) for name in classes] for row in rows])
        assert [row["prediction"] for row in rows] == [classes[i] for i in mean.argmax(axis=1)]
    else:
        said = np.array([float(row["prediction"]) for row in rows])
        assert all(float(row["lower"]) < float(row["upper"]) for row in rows)
    np.testing.assert_allclose(said, mean, rtol=2e-5, atol=1e-6)
    # The same rows are held out when the same file comes again.
    again = run("evaluate", model, data, "--json").json
    assert again["rows"] == held
    figures = run("info", model, "--json").json["metadata"]["table"]["figures"]
    assert again["figures"] == pytest.approx(figures, rel=1e-4)
    ran = run("report", model, data, "-o", report)
    assert ran.code == 0, ran.err
    assert case.target in report.read_text(encoding="utf-8")
