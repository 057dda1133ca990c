"""Rows that come by standard input."""

import io
from itertools import count

import pytest
from typer.testing import CliRunner

from scalemix.cli.app import app
from scalemix.cli.console import Terminal
from scalemix.tables.reading import read_chunks
from scalemix.tables.table import UNSAID
from tests.cli.conftest import SMALL, run, write_table


def pipe(content, *arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=content)


def test_a_stream_gives_what_its_file_gives(regression, tmp_path, monkeypatch):
    content = regression.data.read_bytes()
    monkeypatch.setattr("scalemix.cli.predict.CHUNK", 32)
    whole = run("predict", regression.model, regression.data, "--keep", "town")
    ran = pipe(content, "predict", regression.model, "-", "--keep", "town")
    assert ran.exit_code == 0
    assert ran.stdout == whole.out
    # The gaps of three chunks are told of once, and on stderr.
    assert ran.stderr.count("missing, which networks are told") == 2
    output = tmp_path / "out.csv"
    ran = pipe(content, "predict", regression.model, "-", "--keep", "town", "-o", output)
    assert (output.read_text(encoding="utf-8"), ran.stdout) == (whole.out, "")
    assert "80 predictions" in ran.stderr
    said = pipe(content, "predict", regression.model, "-", "--json", "--quiet")
    assert (said.exit_code, said.stderr) == (0, "")


def test_a_bad_row_stops_a_stream_after_the_rows_before(regression, tmp_path, monkeypatch):
    monkeypatch.setattr("scalemix.cli.predict.CHUNK", 40)
    lines = regression.data.read_text(encoding="utf-8").splitlines()
    lines[60] = lines[60] + ",more"
    ran = pipe("\n".join(lines), "predict", regression.model, "-", "-q")
    assert ran.exit_code == 2
    assert ran.stderr.startswith("Error: standard input, line 61: it has 7 values")
    assert len(ran.stdout.splitlines()) == 41
    # A file is written whole or not at all.
    output = tmp_path / "out.csv"
    pipe("\n".join(lines), "predict", regression.model, "-", "-o", output)
    assert not list(tmp_path.iterdir())


def test_remarks_on_other_columns_and_cells_are_other_remarks(capsys):
    terminal = Terminal(quiet=False, as_json=False).saying_once()
    said = ["'x1': 5 missing", "'x2': 5 missing", "'code': unknown '12'", "'code': unknown '97'"]
    for line in (*said, "'x1': 7 missing", *said):
        terminal.note(line)
    assert capsys.readouterr().err.splitlines() == said


class Endless(io.RawIOBase):
    """A table without an end."""

    def __init__(self):
        self.rows = (b"%d,x\n" % i for i in count())
        self.num = 0

    def read(self, size=-1):
        rows = [b"a,b\n"] if not self.num else []
        while sum(map(len, rows)) < size:
            rows.append(next(self.rows))
        self.num += len(rows)
        return b"".join(rows)[:size]

    read1 = read


def test_no_more_of_a_stream_is_read_than_its_rows_need():
    stream = Endless()
    chunks = read_chunks(stream, UNSAID, UNSAID, num_rows=1000)
    assert [next(chunks).num_rows for _ in range(3)] == [1000] * 3
    assert stream.num < 50_000


def test_fit_and_evaluate_take_standard_input_too(regression, tmp_path):
    content = regression.data.read_bytes()
    ran = pipe(content, "evaluate", regression.model, "-", "--json")
    # The very rows that the model was fitted to, whichever way they come.
    assert '"rows": 8' in ran.stdout
    model = tmp_path / "m.scalemix"
    fit = ["fit", "-", "-t", "price", "--ignore", "mood", "-o", model, *SMALL]
    assert pipe(content, *fit).exit_code == 0
    assert "standard input, 72 rows" in run("info", model).out


@pytest.mark.parametrize(("content", "says"), [("", "empty"), ("size,town\n", "no rows")])
def test_empty_streams_are_refused(regression, content, says):
    ran = pipe(content, "predict", regression.model, "-")
    assert ran.exit_code == 2
    assert f"Error: standard input: it {'is' if not content else 'has'}" in ran.stderr
    assert says in ran.stderr


def test_columns_that_are_missing_or_extra_are_named(regression, tmp_path):
    data = write_table(tmp_path / "d.csv", num=3)
    text = data.read_text(encoding="utf-8").replace("town", "city")
    ran = pipe(text, "predict", regression.model, "-")
    assert ran.exit_code == 2
    assert "there is no column 'town', which the model was fitted with" in ran.stderr
    assert "'city'" in ran.stderr
    assert "Rename or add what is missing" in ran.stderr
    lines = data.read_text(encoding="utf-8").splitlines()
    more = "\n".join([lines[0] + ",rooms", *(f"{line},1" for line in lines[1:])])
    ran = pipe(more, "predict", regression.model, "-")
    assert "not used, since the training table had no such column: 'rooms'" in ran.stderr
    assert "rooms" not in pipe(more, "predict", regression.model, "-", "--keep", "rooms").stderr
