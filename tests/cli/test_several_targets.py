"""Several targets, and times that go on, from a file to a model and back to files."""

import csv
import re

import numpy as np
import pytest

import scalemix
from scalemix.analysis.evaluation import MEASURES
from scalemix.cli.models import read_model
from scalemix.tables import read_table
from tests.cli.conftest import SMALL, run

NUM = 80
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, NUM))
LIFE, WATCHED = np.exp(1 + 0.5 * A) * RNG.weibull(2, NUM), RNG.uniform(1, 6, NUM)
COLUMNS = {
    "a": A, "b": B, "x1": A + 0.1 * B, "x2": 1000 * B,
    "time": np.minimum(LIFE, WATCHED), "ended": LIFE <= WATCHED,
    "signed": np.where(LIFE <= WATCHED, LIFE, -WATCHED),
}  # fmt: skip


def write(path, *names):
    rows = zip(*(COLUMNS[name].tolist() for name in names), strict=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def figures_by_target(out):
    """What a table says of each target: x2 is a thousand times as large as x1."""
    lines = {line[:24].strip(): line[24:].split() for line in out.splitlines()}
    assert any(line.split() in (["x1", "x2", "together"], ["x1", "x2", "together", "meaning"])
               for line in out.splitlines())  # fmt: skip
    for name in ("RMSE", "mean absolute error", "CRPS", "90% interval covers"):
        assert lines[name][2] == "–", name
    one, other = (float(cell.replace(",", "")) for cell in lines["RMSE"][:2])
    assert other > 100 * one
    assert lines["log-likelihood"][:2] == ["–", "–"]
    assert lines["variance explained"][2].endswith("%")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    data, model = write(folder / "d.csv", "a", "b", "x1", "x2"), folder / "m.scalemix"
    ran = run("fit", data, "-t", "x1", "--target", "x2", "-o", model, *SMALL, "--calibration",
              "0.3", "--report", folder / "r.html")  # fmt: skip
    assert ran.code == 0, ran.err
    assert "target: x1, x2, regression (2 targets)" in ran.err
    assert "8 held-out rows" in ran.out
    figures_by_target(ran.out)
    assert "r.html" in ran.err
    return data, model


def test_each_target_has_columns_of_its_own(both):
    data, model = both
    rows = list(csv.DictReader(run("predict", model, data).out.splitlines()))
    assert list(rows[0]) == [
        *(f"{name}({of})" for of in ("x1", "x2")
          for name in ("prediction", "std", "lower", "upper", "epistemic", "aleatoric")),
        "outside",
    ]  # fmt: skip
    fitted = read_model(model)
    predictive = scalemix.load(model).predict(fitted.encode(read_table(data)).x)
    for i, name in enumerate(("x1", "x2")):
        got = [float(row[f"prediction({name})"]) for row in rows]
        np.testing.assert_allclose(got, predictive.mean[:, i], rtol=1e-5)
        ends = [float(row[f"upper({name})"]) for row in rows]
        np.testing.assert_allclose(ends, predictive.interval(0.9)[1][:, i], rtol=1e-4)


def test_all_commands_take_several_targets(both, tmp_path):
    data, model = both
    told = run("evaluate", model, data, "--json").json
    assert told["rows"] == 8
    errors = [told["by_target"][name]["rmse"] for name in ("x1", "x2")]
    assert np.mean(errors) == pytest.approx(told["figures"]["rmse"])
    assert all("conformal_coverage" in told["by_target"][name] for name in ("x1", "x2"))
    figures_by_target(run("evaluate", model, data).out)
    assert run("info", model).out.count("x1, x2, regression") == 1
    figures_by_target(run("info", model).out)
    ran = run("report", model, data, "-o", tmp_path / "r.html")
    assert ran.code == 0, ran.err
    # All figures of each target are in the report, as they are in the terminal.
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert ">90% conformal interval covers</th>" in page
    assert run("report", model, "-o", tmp_path / "bare.html").code == 0
    for name in ("x1", "x2"):
        row = re.search(rf'<th scope="row">{name}</th>(.*?)</tr>', page)[0]
        figures = told["by_target"][name]
        assert row.count("<td>") >= len(figures)
        shown = MEASURES["conformal_width"].show(figures["conformal_width"])
        assert f"<td>{shown}</td>" in row
        # Without a table they are those of the fit.
        assert f'<th scope="row">{name}</th>' in (tmp_path / "bare.html").read_text("utf-8")
    plain = run("predict", model, data, "--json", "--above", "0").json["predictions"]
    assert np.corrcoef(plain["p(x2>0)"], plain["prediction(x2)"])[0, 1] > 0.5
    options = ["--above", "x2=0", "--above", "x1=3"]
    one_each = run("predict", model, data, "--json", *options).json["predictions"]
    assert {name for name in one_each if name.startswith("p(")} == {"p(x1>3)", "p(x2>0)"}
    assert one_each["p(x2>0)"] == plain["p(x2>0)"]
    sure = run("predict", model, data, "--json", "--conformal").json["predictions"]
    assert sure["prediction(x2)"] == plain["prediction(x2)"]
    assert sure["lower(x1)"] != plain["lower(x1)"]
    assert run("prune", model, "-o", tmp_path / "small", "--data", data).code == 0
    assert run("predict", tmp_path / "small", data).code == 0


def test_targets_may_be_one_option_and_bad_ones_are_named(both, tmp_path):
    data, _ = both
    fit = ["fit", data, "-o", tmp_path / "m", *SMALL]
    assert "'x3'" in run(*fit, "-t", "x1,x3").err
    assert "--target x1 is given twice" in run(*fit, "-t", "x1,x1").err
    ran = run(*fit, "-t", "x1, x2", "--task", "classification")
    assert "only numbers can be several targets" in ran.err
    assert "one column for each target" in run(*fit, "-t", "x1,x2", "--observed", "a").err
    ran = run(*fit, "-t", "x1", "--observed", "a", "--target-kind", "count")
    assert "--observed is about times" in ran.err


def test_observed_says_what_a_minus_says(tmp_path):
    """The same fit, whichever way a table says which times go on."""
    said = write(tmp_path / "said.csv", "a", "time", "ended")
    signed = write(tmp_path / "signed.csv", "a", "signed")
    ran = run("fit", said, "-t", "time", "--observed", "ended", "-o", tmp_path / "1", *SMALL)
    assert ran.code == 0, ran.err
    assert "each a time; 'ended' says if it was observed to the end" in ran.err
    fit = ["fit", signed, "-t", "signed", "--target-kind", "time", "-o", tmp_path / "2", *SMALL]
    assert run(*fit).code == 0
    one = run("predict", tmp_path / "1", said, "--json").json["predictions"]
    other = run("predict", tmp_path / "2", signed, "--json").json["predictions"]
    np.testing.assert_allclose(one["prediction"], other["prediction"], rtol=1e-5)
    refused = run("predict", tmp_path / "1", said, "--conformal")
    assert refused.code == 2
    assert "not available for times that were not all observed to the end" in refused.err
    refused = run("fit", said, "-t", "time", "--observed", "ended", "-o", tmp_path / "3", *SMALL,
                  "--calibration", "0.3")  # fmt: skip
    assert refused.code == 2
    assert "not available for times that were not all observed to the end" in refused.err
    assert "y above" not in refused.err
    # Prediction needs neither of the two columns, and measuring needs both.
    bare = write(tmp_path / "bare.csv", "a")
    assert run("predict", tmp_path / "1", bare).code == 0
    assert "'ended'" in run("evaluate", tmp_path / "1", write(bare, "a", "time")).err
