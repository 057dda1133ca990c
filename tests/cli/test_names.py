"""What the docs say about names in Python and on the command line, against what there is."""

import inspect
import re
from pathlib import Path

import pytest
from typer.main import get_command

from scalemix.cli.app import app
from scalemix.posterior.predictive import Predictive
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor
from tests.cli.conftest import run

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorials" / "command-line.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (`.*) \| (.*) \|$", PAGE.partition("## The same in Python")[2], re.MULTILINE
)
COMMANDS = get_command(app).commands
OPTIONS = {
    name: {
        flag
        for parameter in command.params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    for name, command in COMMANDS.items()
}
ESTIMATORS = (ScaleMixRegressor, ScaleMixClassifier)
SETTINGS = {name for estimator in ESTIMATORS for name in estimator().get_params()}


@pytest.mark.parametrize(("python", "said"), ROWS)
def test_both_names_are_real(python, said):
    command = None
    for code in re.findall(r"`([^`]*)`", said):
        word, *rest = code.split()
        command = word if word in COMMANDS else command
        for flag in (part for part in (word, *rest) if part.startswith("--")):
            assert flag in OPTIONS[command], flag
    for code in re.findall(r"`([^`]*)`", python):
        name = re.match(r"\w+", code)[0]
        if code.startswith(f"{name}="):
            assert name in SETTINGS
        elif "(" in code:
            (of,) = [one for one in ESTIMATORS if hasattr(one, name)][:1]
            taken = {*inspect.signature(getattr(of, name)).parameters}
            assert {*re.findall(r"(\w+)=", code)} <= taken
            if later := re.search(r"\)\.(\w+)", code):
                assert hasattr(Predictive, later[1])
        else:
            assert name in {estimator.__name__ for estimator in ESTIMATORS}


def test_every_setting_has_an_option_of_its_name_or_is_in_the_table():
    assert len(ROWS) > 10
    told = {match[1] for python, _ in ROWS for match in re.finditer(r"`(\w+)=", python)}
    alike = {name for name in SETTINGS if f"--{name.replace('_', '-')}" in OPTIONS["fit"]}
    # On the command line this is a column.
    alike.discard("target")
    assert SETTINGS - alike <= told


def test_a_setting_may_be_called_as_in_python(regression, tmp_path):
    options = ["--inference", "noise", "--hidden", "8", "--num-members", "1", "--max-steps", "30"]
    fit = ["fit", regression.data, "-t", "price", "--ignore", "mood", "-o", tmp_path / "m"]
    assert run(*fit, *options).code == 0
    settings = run("info", tmp_path / "m", "--json").json["metadata"]["table"]["settings"]
    assert (settings["num_members"], settings["max_steps"]) == (1, 30)
