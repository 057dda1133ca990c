"""What commands do when all is well."""

import csv
import datetime
import importlib.metadata
import json
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pyarrow
import pytest
import typer
from pyarrow import parquet
from sklearn.utils.class_weight import compute_sample_weight

import scalemix
from scalemix.cli import writing
from scalemix.cli.app import app
from scalemix.cli.priors import FAMILIES
from scalemix.cli.settings import DEFAULTS, SETTINGS, as_option
from scalemix.fitting.kinds import Mention
from scalemix.fitting.recipes import Recipe
from scalemix.fitting.settings import settings_of
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor
from scalemix.tables import InputError, read_table
from tests.cli.conftest import run, write_table

FIGURES = {
    "rmse", "mae", "r2", "log_likelihood", "crps", "coverage", "width", "calibration_error",
}  # fmt: skip


def test_fit_says_what_it_did_and_how_good_it_is(regression):
    code, out, err = regression.ran
    assert code == 0
    assert "target: price, regression (numbers)" in err
    assert "categories, one-hot: town (3), new (2)" in err
    assert "dates, as days: sold" in err
    assert "left out: mood (as asked)" in err
    assert "'size': 4 missing, which networks are told" in err
    assert "training on 72 rows and 11 inputs, 8 held out" in err
    assert "8 held-out rows" in out
    assert "RMSE" in out
    assert sorted(path.name for path in regression.folder.iterdir()) == [
        "data.csv", "first.html", "model.scalemix",
    ]  # fmt: skip


def test_json_is_all_that_stdout_has(classification):
    outcome = classification.ran.json
    assert outcome["task"] == "classification"
    assert outcome["rows"] == {"trained": 72, "held_out": 8}
    assert outcome["columns"]["target"]["classes"] == ["bad", "good"]
    assert set(outcome["figures"]) == {
        "accuracy", "auc", "baseline_accuracy", "log_likelihood", "brier",
        "expected_calibration_error",
    }  # fmt: skip


def test_evaluate_takes_the_held_out_rows_of_the_same_file_and_all_of_another(regression):
    same = run("evaluate", regression.model, regression.data, "--json")
    assert same.code == 0
    assert "are not left out" not in same.err
    assert same.json["rows"] == 8
    info = run("info", regression.model, "--json").json
    kept = info["metadata"]["table"]["figures"]
    assert set(kept) == FIGURES
    assert same.json["figures"] == pytest.approx(kept, rel=1e-5)
    other = write_table(regression.folder / "other.csv", num=20, seed=1)
    ran = run("evaluate", regression.model, other)
    other.unlink()
    assert ran.code == 0
    assert "20 rows of other.csv" in ran.out
    assert "Rows of this table that the model was trained on, if there are any, are not" in ran.err
    assert "best near 90%" in ran.out


def test_figures_are_those_of_the_posterior(regression):
    posterior, metadata = scalemix.posterior.storage.read(regression.model)
    entry = metadata["table"]
    table = read_table(regression.data)
    from scalemix.cli.sources import Source
    from scalemix.tables import Columns

    columns, source = Columns.from_json(entry["columns"]), Source(**entry["source"])
    rows, held = source.split()
    assert sorted([*rows, *held]) == list(range(80))
    part = table.take(held)
    errors = posterior.predict(columns.encode(part).x).mean - columns.target.encode(part)
    assert entry["figures"]["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)


def test_predictions_come_in_order_as_csv_parquet_and_json(regression, tmp_path):
    data = write_table(tmp_path / "new.csv", num=5, seed=2)
    printed = run("predict", regression.model, data, "--keep", "town")
    assert printed.code == 0
    rows = list(csv.DictReader(printed.out.splitlines()))
    assert [row["town"] for row in rows] == [
        cell or "" for cell in read_table(data).columns["town"]
    ]
    assert list(rows[0]) == [
        "town", "prediction", "std", "lower", "upper", "epistemic", "aleatoric", "outside",
    ]  # fmt: skip
    assert all(0 <= float(row["outside"]) < 0.5 for row in rows)
    for row in rows:
        parts = float(row["epistemic"]) ** 2 + float(row["aleatoric"]) ** 2
        assert parts == pytest.approx(float(row["std"]) ** 2, rel=1e-4)
        assert float(row["lower"]) < float(row["prediction"]) < float(row["upper"])
    assert run("predict", regression.model, data, "-o", tmp_path / "out.parquet").code == 0
    table = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    said = run("predict", regression.model, data, "--json", "--quiet")
    assert said.err == ""
    assert said.json["predictions"] == table
    np.testing.assert_allclose(
        table["prediction"], [float(row["prediction"]) for row in rows], rtol=1e-5
    )
    narrow = run("predict", regression.model, data, "--json", "--interval", "0.5").json
    assert np.all(np.array(narrow["predictions"]["upper"]) < np.array(table["upper"]))


def test_classes_come_with_their_probabilities(classification, tmp_path):
    output = tmp_path / "out.csv"
    assert run("predict", classification.model, classification.data, "-o", output).code == 0
    rows = list(csv.DictReader(output.read_text(encoding="utf-8").splitlines()))
    assert list(rows[0]) == [
        "prediction", "probability", "p(bad)", "p(good)", "entropy", "epistemic", "aleatoric",
        "outside",
    ]  # fmt: skip
    for row in rows:
        total, known = float(row["entropy"]), float(row["aleatoric"])
        assert total == pytest.approx(known + float(row["epistemic"]), abs=1e-5)
        assert 0 <= known <= total <= np.log(2) + 1e-6
        both = float(row["p(bad)"]), float(row["p(good)"])
        assert sum(both) == pytest.approx(1, abs=1e-5)
        assert float(row["probability"]) == max(both)
        assert row["prediction"] == ("good" if both[1] > both[0] else "bad")


def test_rows_outside_the_training_data_are_said(regression, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("size,town,sold,new\n50,Ulm,2024-01-05,true\n0,Ulm,2024-01-05,true\n,,,\n")
    ran = run("predict", regression.model, new)
    assert "2 of 3 rows lie far outside the training data" in ran.err
    assert "'size' by up to" in ran.err
    assert ran.err.endswith("no column has a value (1 row).\n")
    far, near, empty = (float(row["outside"]) for row in csv.DictReader(ran.out.splitlines()))
    assert far > 5
    assert (near, empty) == (0, 1)


FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(A1)", "+49 151", "-1+2", "-1.5", "+2", "fine", ""]


def with_formulas(path):
    rows = [f'1,Ulm,2024-01-01,True,"{cell}"' for cell in FORMULAS]
    path.write_text("\n".join(["size,town,sold,new,=id", *rows]) + "\n", encoding="utf-8")
    return path


def kept(text):
    return [row[0] for row in csv.reader(text.splitlines())]


def test_formulas_are_copied_as_they_are_and_said(regression, tmp_path):
    data = with_formulas(tmp_path / "new.csv")
    ran = run("predict", regression.model, data, "--keep", "=id")
    assert kept(ran.out) == ["=id", *FORMULAS]
    assert "'=id': a spreadsheet would run 5 cells as formulas, such as '=id'" in ran.err
    assert "--escape-formulas" in ran.err
    # Neither JSON nor Parquet is run by anyone.
    said = run("predict", regression.model, data, "--keep", "=id", "--json")
    assert "spreadsheet" not in said.err
    assert said.json["predictions"]["=id"][:3] == FORMULAS[:3]


def test_formulas_are_text_if_asked_for_and_numbers_stay_numbers(regression, tmp_path):
    data, output = with_formulas(tmp_path / "new.csv"), tmp_path / "out.csv"
    options = ["--keep", "=id", "--escape-formulas", "-o", output, "--json"]
    ran = run("predict", regression.model, data, *options)
    assert ran.code == 0
    assert "spreadsheet" not in ran.err
    written = kept(output.read_text(encoding="utf-8"))
    assert written == ["'=id", *(f"'{cell}" for cell in FORMULAS[:4]), *FORMULAS[4:]]


def test_unknown_categories_are_said_aloud(regression, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("size,town,sold,new\n1,Paris,2024-01-01,true\n", encoding="utf-8")
    ran = run("predict", regression.model, new)
    assert ran.code == 0
    assert "1 of 1 row lies far outside" in ran.err
    assert "'town' has the unknown 'Paris' (1 row)" in ran.err
    (row,) = csv.DictReader(ran.out.splitlines())
    assert float(row["outside"]) >= 1


def test_info_tells_of_table_and_network(regression):
    ran = run("info", regression.model)
    assert ran.code == 0
    assert f"jax {jax.__version__}" in ran.out
    for text in ("mixture=auto", "target=real", "bins=auto, calibration=0.0, seed=0, holdout=0.1"):
        assert text in ran.out
    for text in ("1 x ResNet", "fitted to", "data.csv, 72 rows; 8 held out", "Bernoulli", "RMSE"):
        assert text in ran.out


def test_info_takes_files_that_python_wrote_and_predict_says_what_they_lack(regression, tmp_path):
    path = tmp_path / "bare.scalemix"
    scalemix.load(regression.model).save(path)
    assert run("info", path, "--json").json["network"] == "ResNet"
    ran = run("predict", path, regression.data)
    assert ran.code == 2
    assert "was not made by `scalemix fit`" in ran.err


def test_prune_writes_a_model_that_predicts_nearly_the_same(regression, tmp_path):
    small = tmp_path / "small.scalemix"
    ran = run("prune", regression.model, "-o", small, "--data", regression.data, "--json")
    assert ran.code == 0
    before, after = ran.json["num_parameters"]
    assert 0 < after <= before
    one = run("predict", regression.model, regression.data, "--json").json["predictions"]
    other = run("predict", small, regression.data, "--json").json["predictions"]
    spread = np.std(one["prediction"])
    change = np.abs(np.array(one["prediction"]) - np.array(other["prediction"])).max()
    # Means of a hundred draws of noise, not of the same.
    assert change < spread
    assert run("info", small, "--json").json["metadata"]["table"]["figures"] == {}
    assert run("prune", regression.model, "-o", small, "--tolerance", "0.1").code == 2


def test_priors_lists_every_family_and_draws_them(tmp_path):
    from scalemix.fitting.recipes import MIXTURES

    assert set(FAMILIES) == set(MIXTURES)
    picture = tmp_path / "families.png"
    ran = run("priors", "--json", "--plot", "-o", picture)
    assert [row["mixture"] for row in ran.json["families"]] == list(MIXTURES)
    assert {row["mixture"]: row["weight"] for row in ran.json["families"]}["half-cauchy"] == (
        "horseshoe"
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run("priors", "--plot", "-o", tmp_path / "families.doc").code == 2
    assert "spike and slab" in run("priors").out


def test_the_demo_compares_two_fits_and_writes_a_report(tmp_path):
    report = tmp_path / "demo.html"
    ran = run("demo", "--steps", "20", "-o", report, "--json", "--quiet")
    assert ran.code == 0, ran.err
    fits = ran.json["fits"]
    assert list(fits) == ["Noise training", "Variational EM"]
    for figures in fits.values():
        assert {"rmse", "log_likelihood", "crps", "coverage"} <= set(figures)
        assert 0 <= figures["effective_depth"] <= 2
        assert 0 < figures["parameters_after_pruning"] <= figures["parameters"]
    assert "Variational EM" in report.read_text(encoding="utf-8")


def test_every_setting_of_a_recipe_is_an_option():
    fit: Any = typer.main.get_command(app)
    options = {option for each in fit.commands["fit"].params for option in each.opts}
    assert {as_option(Mention(name)) for name in settings_of(Recipe)} <= options
    for name, known in SETTINGS.items():
        assert known.kind.check(name, DEFAULTS[name]) == getattr(Recipe(), name)


def test_every_argument_of_an_estimator_is_an_option():
    """By its own name, by that of its setting, or by one that says the same."""
    fit: Any = typer.main.get_command(app)
    options = {option for each in fit.commands["fit"].params for option in each.opts}
    other = {"random_state": "--seed", "verbose": "--quiet"}
    for estimator in (ScaleMixClassifier, ScaleMixRegressor):
        names = {other.get(n) or as_option(Mention(n)) for n in estimator().get_params()}
        assert names <= options


def test_weights_of_classes_reach_the_fit(tmp_path, monkeypatch):
    given = {}

    def stop(*_, sample_weight, **more):
        given["weight"] = sample_weight
        raise InputError("enough")

    monkeypatch.setattr("scalemix.fitting.recipes.Recipe.fit", stop)
    data = write_table(tmp_path / "data.csv")
    fit = ["fit", data, "-t", "mood", "--holdout", "0", "-o", tmp_path / "m"]
    moods = np.array(read_table(data).columns["mood"])
    for options in (["balanced"], ["good=3"], ["good=3", "--class-weight", "bad=0.5"]):
        ran = run(*fit, "--class-weight", *options)
        assert "enough" in ran.err
        weights = {"balanced": "balanced", "good=3": {"good": 3}}[options[0]]
        if len(options) == 3:
            weights["bad"] = 0.5
        np.testing.assert_allclose(given["weight"], compute_sample_weight(weights, moods))
    assert "a row counts as so many: bad 0.5, good 3" in ran.err
    assert run(*fit).code == 2
    assert given["weight"] is None
    for options, says in (
        (["-t", "mood", "--class-weight", "fine=2"], "no class 'fine'. There are: 'bad', 'good'"),
        (["-t", "mood", "--class-weight", "2"], "balanced, or a class and a number such as yes=3"),
        (["-t", "mood", "--class-weight", "good=x"], "a class and a number such as yes=3"),
        (["-t", "mood", "--class-weight", "good=0"], "has to be above zero"),
        (["-t", "price", "--class-weight", "good=2"], "about classes, and 'price' has numbers"),
    ):
        ran = run("fit", data, "-o", tmp_path / "m", *options)
        assert (ran.code, says in ran.err) == (2, True), ran.err


def test_settings_reach_the_recipe_as_they_are_written(tmp_path, monkeypatch):
    given = {}

    def stop(task, settings):
        given.update(settings, task=task)
        raise InputError("enough")

    monkeypatch.setattr("scalemix.cli.fit.build_recipe", stop)
    data = write_table(tmp_path / "data.csv")
    fit = ["fit", data, "-t", "price", "-o", tmp_path / "m"]
    assert "enough" in run(*fit).err
    recipe = Recipe()
    assert given == {name: getattr(recipe, name) for name in settings_of(Recipe)}
    run(*fit, "--task", "regression", "--target-kind", "time", "--prior", "ard",
        "--mixture", "gamma", "--inference", "noise", "--mixture-parameter", "shape=3",
        "--mixture-parameter", "rate=0.5", "--hidden", "7,6",
        "--no-residual", "--members", "3", "--trial-members", "2", "--steps", "9",
        "--batch-size", "5", "--learning-rate", "0.1", "--temperature", "0.5", "--noise-floor",
        "0.2", "--objective", "lower_bound", "--draws", "4", "--sampler", "nuts",
        "--devices", "1")  # fmt: skip
    assert given == {
        "task": "regression", "target": "time", "prior": "ard", "mixture": "gamma",
        "inference": "noise",
        "mixture_parameters": {"shape": 3.0, "rate": 0.5}, "hidden": (7, 6), "residual": False,
        "num_members": 3, "num_trial_members": 2, "max_steps": 9, "batch_size": 5,
        "learning_rate": 0.1, "temperature": 0.5, "noise_floor": 0.2, "objective": "lower_bound",
        "num_draws": 4, "sampler": "nuts", "devices": 1,
    }  # fmt: skip
    # Nothing is as it was by default, so that nothing was overlooked.
    assert not [name for name in SETTINGS if given[name] == getattr(recipe, name)]


def test_the_version_is_told():
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"scalemix {importlib.metadata.version('scalemix')}\n")


def test_columns_of_parquet_are_kept_with_their_types(regression, tmp_path):
    day = datetime.date(2024, 1, 31)
    columns = {
        "size": [1.23456789012, None], "town": ["Ulm", "Bonn"], "sold": [day, day],
        "new": [True, False], "id": [7, 2**40],
    }  # fmt: skip
    data, output = tmp_path / "new.parquet", tmp_path / "out.parquet"
    parquet.write_table(pyarrow.table(columns), data)
    keep = [option for name in columns for option in ("--keep", name)]
    assert run("predict", regression.model, data, "-o", output, *keep).code == 0
    written = parquet.read_table(output).to_pydict()
    assert {name: written[name] for name in columns} == columns
    said = run("predict", regression.model, data, "--json", *keep).json["predictions"]
    assert said["sold"] == ["2024-01-31"] * 2
    assert (said["size"], said["id"]) == (columns["size"], columns["id"])
    first = run("predict", regression.model, data, *keep).out.splitlines()[1]
    assert first.startswith("1.23456789012,Ulm,2024-01-31,True,7,")


def test_help_comes_without_jax():
    code = (
        "import sys; from scalemix.cli.app import app; app(['fit', '--help'], "
        "standalone_mode=False); assert 'jax' not in sys.modules and 'numpy' in sys.modules"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    assert "--target" in ran.stdout


def test_without_typer_there_is_a_line_on_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from scalemix.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 1
    assert ran.stderr.strip() == 'The command line needs typer: pip install "scalemix[cli]"'


def test_settings_of_the_network_reach_it(tmp_path):
    data = write_table(tmp_path / "data.csv")
    ran = run(
        "fit", data, "-t", "price", "-o", tmp_path / "m", "--inference", "em", "--prior", "ard",
        "--mixture", "half-cauchy", "--hidden", "5,4", "--no-residual", "--members", "2",
        "--steps", "5", "--holdout", "0", "--seed", "3", "--batch-size", "16",
        "--bins", "4", "--trial-members", "1", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.json["figures"] == {}
    edges = {column["name"]: column.get("edges") for column in ran.json["columns"]["inputs"]}
    assert len(edges["size"]) == len(edges["sold"]) == 5
    assert edges["town"] is None
    few = write_table(tmp_path / "few.csv", num=8)
    assert run("predict", tmp_path / "m", few, "--json").code == 0
    info = run("info", tmp_path / "m", "--json").json
    assert (info["network"], info["num_members"], info["num_steps"]) == ("MLP", 2, 5)
    trials = info["metadata"]["table"]["trials"]
    assert sum(trial["num_members"] for trial in trials) == 2
    assert {"temperature", "noise_floor"} <= set(trials[0])
    assert info["prior"] == dict.fromkeys(info["prior"], "ARD(HalfCauchy(scale=1), scale=1)")
    assert json.dumps(info["metadata"]["table"]["settings"]["hidden"]) == "[5, 4]"
    ran = run("evaluate", tmp_path / "m", data)
    assert ran.code == 2
    assert "fitted to all of its rows" in ran.err


def test_chains_warn_in_plain_words_and_predict(tmp_path):
    data, model = write_table(tmp_path / "data.csv"), tmp_path / "model.scalemix"
    small = ["--hidden", "4", "--members", "2", "--steps", "20", "--prior", "ard"]
    ran = run("fit", data, "-t", "price", "-o", model, "--inference", "mcmc", *small)
    assert ran.code == 0
    assert "chains" in ran.err
    assert ".py:" not in ran.err
    few = write_table(tmp_path / "few.csv", num=8)
    assert run("predict", model, few).code == 0
    assert "MCMC" in run("info", model).out
    refused = run("prune", model, "-o", tmp_path / "small.scalemix")
    assert refused.code == 2


def test_noise_without_a_mean_is_said_to_be_poor(tmp_path):
    data, model = write_table(tmp_path / "data.csv"), tmp_path / "model.scalemix"
    chosen = ["--inference", "noise", "--mixture", "half-cauchy", "--prior", "ard"]
    small = ["--hidden", "8", "--members", "1", "--steps", "30"]
    ran = run("fit", data, "-t", "price", "-o", model, *chosen, *small)
    assert "has no mean" in ran.err
    row = next(line for line in run("priors").out.splitlines() if "horseshoe" in line)
    assert "poor" in row


@pytest.mark.parametrize("odd", [2**63 + 1, 2**70])
def test_numbers_of_any_length_are_kept(odd, tmp_path):
    path = tmp_path / "kept.parquet"
    assert writing.write_parquet(path, [{"id": [odd, None], "mean": [1.0, 2.0]}], {}) == 2
    kept = parquet.read_table(path)["id"].to_pylist()
    assert kept == [odd if odd < 2**64 else str(odd), None]
