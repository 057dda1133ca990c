"""Files that earlier versions wrote load, and predict what they predicted then.

Those in `files/` stay as they are: each was written by the version of its day, with the predictions
that it made in `expected.json`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import scalemix as sx
from scalemix.posterior import storage
from tests.cli.conftest import run, write_table

FILES = Path(__file__).parent / "files"
EXPECTED = json.loads((FILES / "expected.json").read_text())
# Other machines add up in another order.
RTOL = 1e-5


@pytest.mark.parametrize("kind", EXPECTED["predictions"])
def test_every_kind_of_networks_still_predicts_the_same(kind):
    path = FILES / f"{kind}.scalemix"
    predictive = sx.load(path).predict(np.array(EXPECTED["x"]), num_draws=7)
    for what, values in EXPECTED["predictions"][kind].items():
        np.testing.assert_allclose(getattr(predictive, what), values, rtol=RTOL)
    told = storage.info(path)
    assert (told.scalemix, told.network) == ("0.1.0.dev0", "MLP")
    assert told.metadata == {"columns": ["a", "b"]}


def test_a_file_of_the_command_line_still_predicts_the_same(tmp_path):
    data = write_table(tmp_path / "data.csv", num=30)
    predictions = run("predict", FILES / "table.scalemix", data, "--json").json["predictions"]
    for what, values in EXPECTED["table"].items():
        np.testing.assert_allclose(predictions[what][:3], values, rtol=RTOL)
    ran = run("info", FILES / "table.scalemix")
    assert ran.code == 0
    assert "data.csv, 27 rows; 3 held out" in ran.out


def test_a_file_whose_words_are_looked_up_still_predicts_the_same(tmp_path):
    path, data = FILES / "levels.scalemix", tmp_path / "data.csv"
    # Two words of its table, one that it does not know, and none.
    data.write_text("word,size\nw0,0.5\nw1,0.5\nnever,0.5\n,0.5\n")
    predictions = run("predict", path, data, "--json").json["predictions"]
    for what, values in EXPECTED["levels"].items():
        np.testing.assert_allclose(predictions[what], values, rtol=RTOL)
    assert isinstance(sx.load(path).members[0].model.network.first_layer, sx.networks.ColumnReader)
