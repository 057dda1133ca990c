"""A table with a column of many words, from the command line and through files."""

import numpy as np
import pytest

from scalemix.cli.models import read_model
from scalemix.networks import ColumnReader
from tests.cli.conftest import run

SMALL = ["--hidden", "8", "--members", "2", "--steps", "60", "--temperature", "0.3",
         "--noise-floor", "0.1"]  # fmt: skip
NUM_TOWNS = 70


@pytest.fixture(scope="module", autouse=True)
def few_are_many():
    """So that a small table has a column of many words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scalemix.tables.learning.FEW_LEVELS", 64)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels")
    rng = np.random.default_rng(0)
    lines = ["size,town,price"]
    for i in range(4 * NUM_TOWNS):
        size, town = rng.normal(), i % NUM_TOWNS
        lines.append(f"{size:.4f},t{town:02d},{2 * size + (town % 2) + 0.1 * rng.normal():.4f}")
    (folder / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ran = run("fit", folder / "data.csv", "--target", "price", "-o", folder / "model", *SMALL)
    assert ran.code == 0, ran.err
    assert "categories, looked up: town (70)" in ran.err
    return folder / "model"


def test_predictions_and_what_the_file_says(model, tmp_path):
    network = read_model(model).posterior.model.network
    assert isinstance(network.first, ColumnReader)
    new = tmp_path / "new.csv"
    new.write_text("size,town\n1,t01\n1,unheard\n1,\n", encoding="utf-8")
    ran = run("predict", model, new)
    assert ran.code == 0
    assert "'town': 1 missing, taken as a word that is not known" in ran.err
    assert "'town' has the unknown 'unheard' (1 row)" in ran.err
    known, unheard, missing = (line.split(",") for line in ran.out.splitlines()[1:])
    assert float(known[1]) < float(unheard[1]) == float(missing[1])
    info = run("info", model)
    assert "town (70)" in info.out
    assert "first.tables.0" in info.out


def test_the_smaller_model_and_the_report(model, tmp_path):
    data = model.parent / "data.csv"
    ran = run("prune", model, "--data", data, "-o", tmp_path / "small", "--yes")
    assert ran.code == 0, ran.err
    assert run("evaluate", tmp_path / "small", data).code == 0
    ran = run("report", model, data, "-o", tmp_path / "report.html")
    assert ran.code == 0, ran.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "weights for each of 70, which are looked up, and one for all others" in page
    # Simpler models have inputs of zeros and ones.
    assert "boosted trees" in page


def test_tables_in_parts_and_other_fits_have_an_input_for_each_word(model, tmp_path):
    data = model.parent / "data.csv"
    for more in (["--inference", "noise"], ["--mixture", "inverse-gamma"]):
        settings = SMALL[:6] if more[0] == "--inference" else SMALL
        ran = run("fit", data, "--target", "price", "-o", tmp_path / "other", *settings, *more)
        assert ran.code == 0, ran.err
        assert "categories, one-hot: town (70)" in ran.err
