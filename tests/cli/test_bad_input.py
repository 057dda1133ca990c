"""Bad input: exit code 2, one line that says where, and no file left behind."""

from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, run, write_table

GOOD = "a,b,y\n" + "".join(f"{i},{i * i % 7},{i * 0.5}\n" for i in range(20))


def lines_with(line: int, text: str) -> str:
    """The good table, with another text on one line, as editors count them."""
    lines = GOOD.splitlines()
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


BAD_TABLES = {
    "no such column": (GOOD, ["-t", "price"], ["no column 'price'", "'a', 'b', 'y'"]),
    "text in a numeric column": (
        lines_with(5, "3,oops,1.5"),
        [],
        ["line 5", "'b'", "'oops'", "--missing oops; for"],
    ),
    "text in the target": (lines_with(7, "5,4,cheap"), [], ["line 7", "'y'", "'cheap'"]),
    "empty file": ("", [], ["empty"]),
    "byte-order mark only": ("\ufeff", [], ["empty"]),
    "blanks only": ("\ufeff\n \u00a0\n", [], ["empty"]),
    "header only": ("a,b,y\n", [], ["no rows"]),
    "one class": ("a,y\n" + "1,x\n2,x\n" * 5, [], ["'y'", "one class, 'x'"]),
    "NaN target": (lines_with(4, "2,4,NaN"), [], ["line 4", "'y'", "missing"]),
    "empty target": (lines_with(4, "2,4,"), [], ["line 4", "'y'", "missing"]),
    "infinite value": (lines_with(9, "7,inf,3.5"), [], ["line 9", "'b'", "infinite"]),
    "infinite target": (lines_with(9, "7,0,-inf"), [], ["line 9", "'y'", "infinite"]),
    "not a CSV": ("Dear all,\nthe data, as\npromised, are, here\n", [], ["line 3", "3 values"]),
    "binary": (bytes(range(256)), [], ["not a CSV"]),
    "duplicate columns": ("a,a,y\n1,2,3\n", [], ["two columns with the name 'a'"]),
    "target alone": ("y\n1\n2.5\n3\n", [], ["nothing to predict 'y' from"]),
    "constant target": ("a,y\n1,2\n2,2\n3,2\n", [], ["'y'", "2 in every row"]),
    "no such column to ignore": (GOOD, ["--ignore", "z"], ["no column 'z'"]),
    "unknown prior": (GOOD, ["--prior", "flat"], ["prior must be one of", "'flat'"]),
    "unknown mixture": (GOOD, ["--mixture", "cauchy"], ["mixture must be one of"]),
    "no widths": (GOOD, ["--hidden", "wide"], ["--hidden takes widths", "'wide'"]),
    "unequal residual widths": (GOOD, ["--hidden", "8,4"], ["one width"]),
    "prior and mixture that exclude one another": (
        GOOD,
        ["--inference", "em", "--mixture", "log-uniform", "--hidden", "8,8"],
        ["--prior ard-add with --mixture log-uniform", "Use --prior ard, or --mixture half-cauchy"],
    ),
    "residual networks have one width": (GOOD, ["--hidden", "8,4"], ["or use --no-residual."]),
    "no temperature": (GOOD, ["--temperature", "warm"], ["--temperature takes a number, or auto"]),
    "negative floor": (GOOD, ["--noise-floor", "-1"], ["--noise-floor must be a positive number"]),
    "a floor of classes": (
        "a,y\n" + "1,no\n2,yes\n" * 9,
        ["--noise-floor", "0.1"],
        ["--noise-floor 0.1 is about the noise of numbers, and the target is a class. Leave it"],
    ),
    "a temperature of noise": (
        GOOD,
        ["--temperature", "0.5"],
        ["--temperature 0.5 is about --inference em, and this is --inference noise."],
    ),
    "draws of em": (
        GOOD,
        ["--inference", "em", "--draws", "3"],
        ["--draws 3 is about --inference"],
    ),
    "batches of chains": (
        GOOD,
        ["--inference", "mcmc", "--batch-size", "3"],
        ["--batch-size 3 is about training in steps, and chains use all rows"],
    ),
    "trials of nothing": (
        GOOD,
        ["--inference", "em", "--temperature", "1", "--noise-floor", "0.1", "--trial-members", "2"],
        ["--trial-members 2 is about settings that held-out rows choose, and here they choose"],
    ),
    "no parameter": (GOOD, ["--mixture-parameter", "keep"], ["such as keep=0.9; got 'keep'"]),
    "other parameter": (
        GOOD,
        ["--mixture-parameter", "rate=1"],
        ["--mixture-parameter: 'bernoulli' takes keep, value; got 'rate'"],
    ),
    "unknown inference": (GOOD, ["--inference", "magic"], ["--inference must be one of em, noise"]),
    "a cell far away": (
        lines_with(9, "7,1e20,3.5"),
        ["--holdout", "0.9", "--seed", "1"],
        ["line 9", "'b'", "'1e20' is more than 1e+06 standard deviations"],
    ),
    "no such folder": (GOOD, ["-o", "nowhere/model.scalemix"], ["no folder 'nowhere'"]),
    "a folder as output": (GOOD, ["-o", "."], ["it is a folder"]),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_fit_refuses_bad_tables_in_one_line(case, tmp_path, monkeypatch):
    content, options, says = BAD_TABLES[case]
    monkeypatch.chdir(tmp_path)
    data = Path("data.csv")
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    target = [] if "-t" in options else ["-t", "y"]
    ran = run("fit", data, *target, *SMALL, "--quiet", *options)
    check_refused(ran, says)
    if "--" not in "".join(options) and "-o" not in options:
        assert "data.csv" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def check_refused(ran, says) -> None:
    assert (ran.code, ran.out) == (2, ""), ran
    assert ran.err.startswith("Error: ")
    assert ran.err.count("\n") == 1
    for text in says:
        assert text in ran.err


def test_a_missing_file_is_named(tmp_path):
    check_refused(run("fit", tmp_path / "no.csv", "-t", "y"), ["no.csv", "no such file"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("size,town\n1,Ulm\n", ["no column 'sold', 'new'", "fitted with"]),
        ("size,town,sold,new,price\nbig,Ulm,2024-01-01,True,1\n", ["line 2", "'size'", "'big'"]),
        ("size,town,sold,new,price\n1,Ulm,May,True,1\n", ["line 2", "'sold'", "not a date"]),
        ("size,town,sold,new,price\n1,Ulm\n", ["line 2", "2 values"]),
        ("", ["empty"]),
    ],
)
@pytest.mark.parametrize("command", ["predict", "evaluate", "report"])
def test_other_tables_than_the_models_are_refused(command, content, says, regression, tmp_path):
    data, output = tmp_path / "new.csv", tmp_path / "out.txt"
    data.write_text(content, encoding="utf-8")
    more = [] if command == "evaluate" else ["-o", output]
    check_refused(run(command, regression.model, data, *more), [*says, "new.csv"])
    assert not output.exists()


def test_evaluation_needs_the_target(regression, tmp_path):
    data = tmp_path / "new.csv"
    data.write_text("size,town,sold,new\n1,Ulm,2024-01-01,True\n", encoding="utf-8")
    check_refused(run("evaluate", regression.model, data), ["new.csv", "no column 'price'"])


def test_a_class_that_was_never_seen_is_named(classification, tmp_path):
    data = tmp_path / "new.csv"
    data.write_text("size,town,sold,new,mood\n1,Ulm,2024-01-01,True,fair\n", encoding="utf-8")
    check_refused(run("evaluate", classification.model, data), ["line 2", "'mood'", "'fair'"])


@pytest.mark.parametrize("damage", ["truncated", "garbage", "missing", "folder", "header"])
@pytest.mark.parametrize("command", ["predict", "evaluate", "report", "info", "prune"])
def test_damaged_models_are_refused(command, damage, regression, tmp_path):
    model, output = tmp_path / "bad.scalemix", tmp_path / "out"
    content = regression.model.read_bytes()
    if damage == "folder":
        model.mkdir()
    elif damage != "missing":
        # In the header a digit is changed, which its digest finds.
        changed = content.replace(b"num_members", b"num_nembers", 1)
        texts = {"truncated": content[: len(content) // 20], "garbage": bytes(range(256)) * 9}
        model.write_bytes(texts.get(damage, changed))
    more = {"predict": [regression.data], "evaluate": [regression.data], "prune": ["-o", output]}
    ran = run(command, model, *more.get(command, []), *(["-o", output] * (command == "report")))
    check_refused(ran, ["bad.scalemix"])
    assert not output.exists()


def test_a_probability_is_one(regression):
    check_refused(run("predict", regression.model, regression.data, "--interval", "90"), ["90.0"])


def test_what_is_unexpected_is_short_and_whole_with_debug(regression, monkeypatch):
    def fail(path):
        raise RuntimeError("a pipe\nburst")

    monkeypatch.setattr("scalemix.cli.predict.read_model", fail)
    ran = run("evaluate", regression.model, regression.data)
    assert ran.code == 1
    assert ran.err.splitlines()[0] == "Unexpected RuntimeError: a pipe burst"
    assert "Traceback" not in ran.err
    ran = run("evaluate", regression.model, regression.data, "--debug")
    assert (ran.code, "Traceback" in ran.err) == (1, True)


def test_a_failing_disk_leaves_the_earlier_file_and_no_parts(regression, tmp_path, monkeypatch):
    data, earlier = write_table(tmp_path / "data.csv"), tmp_path / "predictions.csv"
    earlier.write_text("earlier")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    ran = run("predict", regression.model, data, "-o", earlier, "--quiet")
    assert (ran.code, ran.err) == (2, "Error: disk full\n")
    assert earlier.read_text() == "earlier"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_read_is_not_overwritten(regression, tmp_path):
    before = regression.data.read_bytes(), regression.model.read_bytes()
    for arguments in (
        ("predict", regression.model, regression.data, "-o", regression.data),
        ("predict", regression.model, regression.data, "-o", regression.model),
        ("prune", regression.model, "-o", regression.model),
        ("report", regression.model, "-o", regression.model),
        ("fit", regression.data, "-t", "price", "-o", regression.data),
    ):
        ran = run(*arguments)
        assert ran.code == 2
        assert "would be overwritten" in ran.err
    assert before == (regression.data.read_bytes(), regression.model.read_bytes())


def test_predictions_are_not_written_as_what_they_are_not(regression, tmp_path):
    ran = run("predict", regression.model, regression.data, "-o", tmp_path / "book.xlsx")
    assert ran.code == 2
    assert "as .csv or .parquet" in ran.err
    assert not list(tmp_path.iterdir())


def test_missing_targets_are_counted(tmp_path):
    (tmp_path / "holes.csv").write_text("x,y\n1,\n2,3\n3,\n4,\n")
    ran = run("fit", tmp_path / "holes.csv", "-t", "y", "-o", tmp_path / "m.scalemix")
    assert ran.code == 2
    assert "line 2" in ran.err
    assert "missing, as in 2 other rows" in ran.err
