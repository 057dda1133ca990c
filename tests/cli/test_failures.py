"""What does not work out is said as what it is, and what costs something is asked for first."""

import dataclasses
import sys

import pytest
from typer.testing import CliRunner

from scalemix.cli.app import app
from scalemix.cli.entries import parse_entry
from scalemix.cli.models import read_model
from scalemix.posterior.storage import info as read_info
from scalemix.tables import InputError
from tests.cli.conftest import SMALL, run, write_table

# So much is off then that predictions are all the same.
ALL = ["--threshold", "1e9"]


def test_divergence_is_no_bug(tmp_path):
    data = write_table(tmp_path / "d.csv")
    ran = run("fit", data, "-t", "price", "-o", tmp_path / "m", *SMALL, "--learning-rate", "1e30")
    assert ran.code == 1
    (line,) = [line for line in ran.err.splitlines() if "rror" in line]
    assert line.startswith("Error: Training diverged at step")
    assert "--learning-rate" in line
    assert "bug" not in ran.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("blackjax", ["fit", "DATA", "-t", "price", "--inference", "mcmc", "-o", "OUT"], "mcmc"),
        ("matplotlib", ["priors", "--plot", "-o", "OUT"], "plot"),
        ("pyarrow", ["predict", "MODEL", "DATA", "-o", "OUT.parquet"], "parquet"),
    ],
)
def test_a_missing_extra_is_named(package, command, extra, regression, tmp_path, monkeypatch):
    names = {"DATA": regression.data, "MODEL": regression.model, "OUT": tmp_path / "out.png",
             "OUT.parquet": tmp_path / "out.parquet"}  # fmt: skip
    for module in [*sys.modules]:
        if module == package or module.startswith(f"{package}."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    ran = run(*(names.get(argument, argument) for argument in command))
    assert ran.code != 0
    assert ran.err.splitlines()[-1].startswith("Error: ")
    assert f'pip install "scalemix[{extra}]"' in ran.err.splitlines()[-1]
    assert "bug" not in ran.err


def prune(regression, output, *more, said=None):
    command = ["prune", regression.model, "--data", regression.data, "-o", output, *ALL, *more]
    return CliRunner().invoke(app, list(map(str, command)), input=said)


def test_pruning_that_changes_predictions_stops_without_a_terminal(regression, tmp_path):
    output = tmp_path / "small"
    ran = prune(regression, output)
    assert ran.exit_code == 2
    assert "Predictions would change by up to" in ran.stderr
    assert "--yes goes ahead" in ran.stderr
    assert not output.exists()
    assert prune(regression, output, "--yes").exit_code == 0
    assert output.exists()
    assert prune(regression, tmp_path / "other", "--tolerance", "0.01").exit_code == 0


def test_pruning_is_not_judged_by_one_row(regression, tmp_path):
    one, output = tmp_path / "one.csv", tmp_path / "small"
    one.write_text("".join(regression.data.read_text().splitlines(keepends=True)[:2]))
    command = ["prune", regression.model, "--data", one, "-o", output, *ALL, "--yes"]
    ran = CliRunner().invoke(app, list(map(str, command)))
    assert ran.exit_code == 2
    assert "no two rows differ" in ran.stderr
    assert not output.exists()


def test_at_a_terminal_it_asks(regression, tmp_path, monkeypatch):
    monkeypatch.setattr("scalemix.cli.prune.at_terminal", lambda: True)
    output = tmp_path / "small"
    ran = prune(regression, output, said="n\n")
    assert (ran.exit_code, output.exists()) == (1, False)
    assert "Go ahead?" in ran.stderr
    assert prune(regression, output, said="y\n").exit_code == 0
    assert output.exists()


def test_what_cannot_be_measured_is_asked_first(regression, tmp_path):
    output = tmp_path / "small"
    # Nothing is off, so that nothing can change.
    assert run("prune", regression.model, "-o", output).code == 0
    output.unlink()
    ran = run("prune", regression.model, "-o", output, *ALL)
    assert ran.code == 2
    assert "how much cannot be measured without rows" in ran.err
    assert "--yes goes ahead. Nothing was written." in ran.err
    assert not output.exists()
    ran = run("prune", regression.model, "-o", output, *ALL, "--yes")
    assert (ran.code, output.exists()) == (0, True)
    assert "not read any more: size, town, sold, new" in ran.out
    # They were not read before, either.
    ran = run("prune", output, "-o", tmp_path / "again", "--yes")
    assert ran.code == 0, ran.err
    assert "not read" not in ran.out


def test_a_wide_table_is_described_in_few_words(tmp_path, monkeypatch):
    def stop(*_):
        raise InputError("enough")

    monkeypatch.setattr("scalemix.cli.training.train", stop)
    names = [f"c{i}" for i in range(300)]
    rows = [",".join(f"{i}.{j * i % 7}" for j in range(301)) for i in range(9)]
    data = tmp_path / "d.csv"
    data.write_text("\n".join([",".join([*names, "y"]), *rows]))
    for target in ("y", "z"):
        ran = run("fit", data, "-t", target)
        assert "c5" in ran.err
        assert "c250" not in ran.err
        assert max(map(len, ran.err.splitlines())) < 300


def test_info_says_what_held_out_rows_chose(regression, tmp_path):
    first = {"temperature": 0.3, "noise_floor": 0.1, "num_members": 3, "bins": True}
    other = {"temperature": 1.0, "noise_floor": 0.001, "num_members": 1, "bins": False}
    model = tmp_path / "m.scalemix"
    dataclasses.replace(read_model(regression.model), trials=[first, other]).save(model)
    assert read_model(model).trials == [first, other]
    (line,) = [line for line in run("info", model).out.splitlines() if "chosen" in line]
    assert "temperature 0.3, noise floor 0.1, with bins (3 networks); temperature 1, " in line
    assert line.endswith("noise floor 0.001, without bins (1 network)")
    assert "chosen" not in run("info", regression.model).out


def test_the_brier_score_of_an_earlier_file_is_halved(classification):
    """It was the sum over both classes, twice what scikit-learn says."""
    metadata = read_info(classification.model).metadata
    figures = parse_entry(classification.model, metadata)[3]
    assert figures == metadata["table"]["figures"]
    earlier = {name: said for name, said in metadata["table"].items() if name != "trials"}
    halved = parse_entry(classification.model, {"table": earlier})[3]
    assert halved == figures | {"brier": figures["brier"] / 2}
