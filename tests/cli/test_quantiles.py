"""Quantiles and probabilities of being above a number, from the command line."""

import csv
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from scalemix.cli.app import app
from scalemix.cli.models import read_model
from scalemix.cli.thresholds import on_bare_thresholds, read_thresholds
from scalemix.tables import InputError, TextFormat, read_table
from scalemix.tables.single_numbers import read_number
from scalemix.tables.targets import Target
from tests.cli.conftest import SMALL, run, write_table

ASKED = ["--quantile", "0.1,0.5", "--quantile", ".9", "--above", "-1", "--above", "3"]


def test_quantiles_and_probabilities_are_those_of_the_distribution(regression, tmp_path):
    data = write_table(tmp_path / "new.csv", num=5, seed=2)
    ran = run("predict", regression.model, data, *ASKED)
    assert ran.code == 0, ran.err
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert list(rows[0])[6:] == ["q0.1", "q0.5", "q0.9", "p(price>-1)", "p(price>3)", "outside"]
    fitted = read_model(regression.model)
    predictive = fitted.posterior.predict(fitted.encode(read_table(data)).x)
    for name, expected in {
        **dict(zip(("q0.1", "q0.5", "q0.9"), predictive.quantile([0.1, 0.5, 0.9]), strict=True)),
        **dict(zip(("p(price>-1)", "p(price>3)"), predictive.exceedance([-1, 3]), strict=True)),
    }.items():
        got = [float(row[name]) for row in rows]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    # The same from a stream.
    command = list(map(str, ["predict", regression.model, "-", *ASKED]))
    assert CliRunner().invoke(app, command, input=data.read_bytes()).stdout == ran.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--quantile", "10"], "--quantile takes levels between 0 and 1, got 10."),
        (["--quantile", "a"], "--quantile takes numbers such as 0.9; got 'a'."),
        *(
            (
                ["--above", said],
                f"--above takes a number of 'price'; got {said!r}. Write it with a decimal point "
                f"and nothing between thousands, as in --above 1200.5, and several one by one, as "
                f"in --above 3 --above 5.",
            )
            for said in ("inf", "3,5", "5,10,20", "50%", "a")
        ),
    ],
)
def test_what_is_no_level_and_no_number_is_said(regression, options, says):
    ran = run("predict", regression.model, regression.data, *options)
    assert (ran.code, ran.err) == (2, f"Error: {says}\n")


@pytest.mark.parametrize(
    ("said", "decimal", "unit", "value"),
    [
        ("-1", None, "", -1),
        ("1.234", None, "", None),
        ("300.000", None, "", None),
        ("300.000", ",", "", 300_000),
        ("300.000", ".", "", 300),
        ("0.125", None, "", 0.125),
        ("1.2340", None, "", 1.234),
        ("1e3", None, "", 1000),
        ("1,200.50", None, "", 1200.5),
        ("1,200", None, "", None),
        ("1,200", ".", "", 1200),
        ("1,200", ",", "", 1.2),
        ("1.200", ",", "", 1200),
        ("3,5", ",", "", 3.5),
        ("3,5", ".", "", None),
        ("3.5", ",", "", 3.5),
        ("50%", None, "%", 50),
        ("50", None, "%", 50),
        ("3,5 €", ",", "€", 3.5),
        ("$5", None, "€", None),
        ("nan", None, "", None),
    ],
)
def test_a_threshold_is_written_as_the_target(said, decimal, unit, value):
    assert read_number(said, decimal, unit) == value


def test_thresholds_have_the_decimals_and_the_unit_of_the_target():
    target = Target(("y", "z"), None, "numbers", units=("%", "%"))
    columns = SimpleNamespace(target=target)
    fitted: Any = SimpleNamespace(columns=columns, text=TextFormat(decimals={"y": ",", "z": ","}))
    assert read_thresholds(["50%", "3,5", "50"], fitted, None) == {"y": (50, 3.5), "z": (50, 3.5)}
    fitted.text = TextFormat(decimals={"y": ",", "z": "."})
    for said in ("3,5", "1e999", "$5"):
        with pytest.raises(InputError, match="--above takes a number of 'y', 'z' in %; got"):
            read_thresholds([said], fitted, None)
    assert read_thresholds(["3,5"], fitted, ",") == {"y": (3.5,), "z": (3.5,)}


def test_a_threshold_may_be_for_one_target_in_its_own_decimals_and_unit():
    target = Target(("y", "y=z"), None, "numbers", units=("€", ""))
    columns = SimpleNamespace(target=target)
    fitted: Any = SimpleNamespace(columns=columns, text=TextFormat(decimals={"y": ",", "y=z": "."}))
    said = ["y=300.000", "y=3,5 €", "y=z=300.000", "7"]
    assert read_thresholds(said, fitted, None) == {"y": (300_000, 3.5, 7), "y=z": (300, 7)}
    with pytest.raises(InputError, match=r"--above x=3: there is no target 'x'. .* 'y', 'y=z'"):
        read_thresholds(["x=3"], fitted, None)


def test_a_threshold_without_a_percent_sign_may_be_no_share():
    target = Target(("y", "z"), None, "numbers", units=("%", ""))
    fitted: Any = SimpleNamespace(columns=SimpleNamespace(target=target), text=TextFormat())
    for said in ("0.05", "y=0.05"):
        with pytest.raises(InputError, match=r"'y' is in %, .* be 0.05%, or a share .* is 5%\."):
            read_thresholds([said], fitted, None)
    said = ["y=0.05%", "z=0.05", "0", "50"]
    assert read_thresholds(said, fitted, None) == {"y": (0.05, 0, 50), "z": (0.05, 0, 50)}
    assert on_bare_thresholds(said, fitted) == "--above: 0 is 0% of 'y', 50 is 50% of 'y'"
    assert on_bare_thresholds(said[:2], fitted) is None


def test_a_threshold_of_shares_in_percent_is_a_part_of_one():
    target = Target(("y", "z"), None, "numbers", kind="share", units=("%", ""))
    fitted: Any = SimpleNamespace(columns=SimpleNamespace(target=target), text=TextFormat())
    assert read_thresholds(["y=50%", "z=0.2"], fitted, None) == {"y": (0.5,), "z": (0.2,)}


def test_a_threshold_that_may_be_two_numbers_is_refused():
    target = Target(("y",), None, "numbers")
    fitted: Any = SimpleNamespace(columns=SimpleNamespace(target=target), text=TextFormat())
    says = "--above 300.000 may be 300 or 300000, .*Write --above 300000 for the larger"
    with pytest.raises(InputError, match=says):
        read_thresholds(["300.000"], fitted, None)
    assert read_thresholds(["300.000"], fitted, ",") == {"y": (300_000,)}


def test_a_threshold_is_read_as_the_table_is_written(tmp_path):
    """Whole prices tell nothing of decimals; the column beside them does."""
    data, model = tmp_path / "d.csv", tmp_path / "m"
    rows = [f"{i % 10},5;{100_000 + 9_000 * i}" for i in range(40)]
    data.write_text("\n".join(["a;price", *rows]) + "\n", encoding="utf-8")
    assert run("fit", data, "-t", "price", "-o", model, *SMALL).code == 0
    ran = run("predict", model, data, "--above", "300.000")
    assert ran.code == 0, ran.err
    assert "p(price>300000)" in ran.out.splitlines()[0]


@pytest.mark.parametrize("option", ["--quantile", "--above"])
def test_classes_have_no_order(classification, option):
    ran = run("predict", classification.model, classification.data, option, "0.5")
    assert ran.code == 2
    assert f"{option} is about numbers, and the model predicts classes of 'mood'" in ran.err
