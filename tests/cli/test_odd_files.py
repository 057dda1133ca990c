"""Whatever a file says of itself, commands work or complain in one line, in bounded memory.

Files here are sealed again after the change: their digests fit, as those of ill will would.
"""

import copy
import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scalemix as sx
from scalemix.posterior import storage, streaming
from scalemix.posterior.storage import container
from tests.cli.conftest import run
from tests.conftest import QUICK
from tests.posterior.storage.test_damage import parts_of, places, result_of

FILES = Path(__file__).parents[1] / "posterior" / "storage" / "files"
MOST_MEMORY = 2**26
ODD = [
    None, True, False, 0, 1, -1, 3, 2**31, 2**63, 10**30, 3e8, -0.5, 0.5, 1e308, "", "nan", "x",
    "\ud800", "é" * 99, "x" * 10**5, [], {}, [[]], {"a": 1}, [1, "b", None], [[[[{"a": [1]}]]]],
]  # fmt: skip
# `make test-all` tries eight times as many files.
MORE = 1 if QUICK else 8
ATTEMPTS = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@pytest.fixture(scope="module", autouse=True)
def two_rows_stay_two():
    """Many files are tried, each at two rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streaming, "BLOCKS", {2: 2, **streaming.BLOCKS})
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("odd")


@pytest.fixture(scope="module", autouse=True)
def compiled_before(folder, model, data):
    """Programs are there before memory is watched, which makes compiling them take thrice as long.

    What is watched then is what a file makes a command allocate.
    """
    good = folder / "good.scalemix"
    for command in (["predict", good, data, "--json"], ["report", good, "-o", folder / "r.html"]):
        assert run(*command).code == 0


@pytest.fixture(scope="module")
def model(folder):
    """A file of the command line; whether of today or of before makes no difference here."""
    path = folder / "good.scalemix"
    shutil.copy(FILES / "table.scalemix", path)
    return parts_of(path)


@pytest.fixture(scope="module")
def data(folder):
    path = folder / "new.csv"
    path.write_text("size,town,sold,new,price\n1,Ulm,2024-01-01,True,2\n2,Bonn,,False,3\n")
    return path


def put(header, place, value):
    header = copy.deepcopy(header)
    node = header
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return header


def left(header, place):
    header = copy.deepcopy(header)
    node = header
    for key in place[:-1]:
        node = node[key]
    del node[place[-1]]
    return header


def write(folder, header, arrays):
    path = folder / "odd.scalemix"
    container.write(path, header, arrays)
    return path


def check(command, path, *more):
    """The command works, or says in one line what is wrong, and takes no more than its share."""
    tracemalloc.start()
    try:
        ran = run(command, path, *more)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ran.code in (0, 2), (ran.code, ran.err, ran.out[-300:])
    if ran.code == 2:
        assert ran.err.splitlines()[-1].startswith(f"Error: {path.parent}"), ran.err
    assert peak < MOST_MEMORY
    return ran


def told_of_table(header):
    return [("metadata", *place) for place in places(header["metadata"])]


@pytest.mark.slow
def test_info_stands_every_odd_value_of_the_table(folder, model):
    header, arrays = model
    codes = set()
    for place in told_of_table(header):
        for value in ODD:
            path = write(folder, put(header, place, value), arrays)
            codes.add(check("info", path).code)
        check("info", write(folder, left(header, place), arrays))
    assert codes == {0, 2}


@settings(max_examples=10 * MORE, **ATTEMPTS)
@given(st.data())
def test_prediction_stands_odd_values(folder, model, data, values):
    header, arrays = model
    place = values.draw(st.sampled_from(told_of_table(header)), "place")
    changed = put(header, place, values.draw(st.sampled_from(ODD), "value"))
    path = write(folder, changed, arrays)
    ran = check("predict", path, data, "--json")
    if ran.code == 0:
        assert len(next(iter(ran.json["predictions"].values()))) == 2


@settings(max_examples=4 * MORE, **ATTEMPTS)
@given(st.data())
def test_reports_stand_odd_values(folder, model, values):
    header, arrays = model
    place = values.draw(st.sampled_from(told_of_table(header)), "place")
    changed = put(header, place, values.draw(st.sampled_from(ODD), "value"))
    check("report", write(folder, changed, arrays), "-o", folder / "report.html")


@settings(max_examples=40 * MORE, **ATTEMPTS)
@given(st.data())
def test_every_odd_value_of_the_header_is_stood(folder, model, values):
    """By Python and by the command line, of all that the header holds."""
    header, arrays = model
    place = values.draw(st.sampled_from(list(places(header))), "place")
    path = write(folder, put(header, place, values.draw(st.sampled_from(ODD), "value")), arrays)
    for read in (storage.info, sx.load):
        result = result_of(read, path)
        assert not isinstance(result, str) or result.startswith(f"{path} cannot be loaded: ")
    check("info", path)


# ------------------------------------------------------------------------------ what is said of it


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("source", "num_rows"), 3 * 10**8, None),
        (("source", "num_rows"), 10**30, "no such table"),
        (("source", "num_rows"), "many", "no such table"),
        (("source", "holdout"), 1.5, "no such table"),
        (("source", "seed"), -1, "no such table"),
        (("source", "file"), 7, "no such table"),
        (("source",), [], "columns is damaged"),
        (("figures",), [1], "settings and figures"),
        (("figures", "rmse"), "small", "'rmse' is no number"),
        (("figures", "of-later"), 0.5, None),
        (("settings",), 3, "settings and figures"),
        (("columns", "inputs"), 3, "damaged"),
        (("columns", "inputs", 0, "spread"), 0, "spread"),
        (("columns", "inputs", 0, "fill"), "0", "is no number"),
        (("columns", "inputs", 0, "name"), None, "is no text"),
        (("columns", "inputs", 0, "kind"), "other", "kind"),
        (("columns", "target", "classes"), 3, "damaged"),
    ],
)
def test_info_says_what_is_wrong(folder, model, place, value, says):
    header, arrays = model
    path = write(folder, put(header, ("metadata", "table", *place), value), arrays)
    ran = check("info", path)
    assert ran.code == (0 if says is None else 2)
    assert says is None or says in ran.err


def test_columns_and_classes_must_be_those_of_the_network(folder, model, data):
    header, arrays = model
    inputs = header["metadata"]["table"]["columns"]["inputs"]
    fewer = put(header, ("metadata", "table", "columns", "inputs"), inputs[:-1])
    ran = check("predict", write(folder, fewer, arrays), data)
    assert (ran.code, "columns are not those of its network" in ran.err) == (2, True)
    classes = put(header, ("metadata", "table", "columns", "target", "classes"), ["a", "b"])
    ran = check("predict", write(folder, classes, arrays), data)
    assert (ran.code, "classes are not those of its network" in ran.err) == (2, True)


def test_the_rows_of_the_very_table_are_counted(folder, model):
    """The digest says that it is the table of the fit, and the number of rows that it is not."""
    from scalemix.tables import read_table
    from tests.cli.conftest import write_table

    header, arrays = model
    table = write_table(folder / "data.csv", num=30)
    assert read_table(table).digest == header["metadata"]["table"]["source"]["digest"]
    path = write(folder, header, arrays)
    # Compiled before memory is watched.
    assert run("evaluate", path, table, "--json").code == 0
    assert check("evaluate", path, table, "--json").json["rows"] == 3
    more = put(header, ("metadata", "table", "source", "num_rows"), 3 * 10**8)
    for command in (["evaluate"], ["report", "-o", folder / "report.html"]):
        ran = run(command[0], write(folder, more, arrays), table, *command[1:])
        assert ran.code == 2
        assert "30 rows, and the model says that it was fitted to 300,000,000" in ran.err


def test_an_infinite_score_is_drawn_around(folder, model):
    header, arrays = model
    scores = np.full((2, 3), -np.inf, np.float32)
    path = write(folder, header, arrays | {"history.score": scores})
    assert check("report", path, "-o", folder / "report.html").code == 0


def test_information_in_json_is_json(folder, model):
    header, arrays = model
    path = write(folder, put(header, ("metadata", "table", "source", "file"), "\ud800"), arrays)
    assert json.loads(check("info", path, "--json").out)["network"] == "ResNet"
    assert "fitted to" in check("info", path).out
