"""A table that comes in parts is learned as the one in memory."""

import dataclasses
import datetime
import itertools
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemix.data.scaling import find_scaling
from scalemix.likelihoods import Categorical, Gaussian, LogNormal
from scalemix.tables import InputError, Table, learn_columns, read_table
from scalemix.tables.arrow_tables import ArrowTables, find_large
from scalemix.tables.facts import ColumnFacts
from scalemix.tables.survey import Survey

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

WORDS = ["Ulm", "Bonn", "Köln", "true", "3", "na"]


def make(rng, num):
    """Columns of every kind that files have, with gaps, constants and numbers of rows."""

    def with_gaps(cells):
        share = rng.choice([0.0, 0.3])
        return [None if rng.random() < share else cell for cell in cells]

    day = datetime.datetime(2024, 1, 1, 12, 30)
    columns = {
        "real": with_gaps((1e8 + rng.normal(size=num)).tolist()),
        "whole": with_gaps(rng.integers(0, 5, num).tolist()),
        "word": with_gaps(rng.choice(WORDS, num).tolist()),
        "text": [f"note {i}" for i in rng.permutation(num)],
        "spelled": [f"{value:.2f}" for value in rng.normal(size=num)],
        "when": with_gaps(
            [day + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 9, num)]
        ),
        "flag": with_gaps((rng.random(num) < 0.5).tolist()),
        "same": [1.5] * num,
        "row": list(range(7, num + 7)),
    }
    target = rng.choice(["real", "class"])
    y = rng.lognormal(size=num) if target == "real" else rng.choice(["no", "yes", "never"], num)
    return columns | {"y": y.tolist()}


def parts_of(table, cuts):
    ends = [0, *sorted({cut for cut in cuts if 0 < cut < table.num_rows}), table.num_rows]
    return [(table.take(range(a, b)), a) for a, b in itertools.pairwise(ends)]


def surveyed(parts, table_names, num, apart, **more):
    survey = Survey(table_names, ["y"], num, apart=apart, **more)
    for part, first in parts:
        survey.add(part, first)
    return survey


def check_same(survey, table, apart, bins):
    train = np.setdiff1d(np.arange(table.num_rows), apart)
    expected = learn_columns(table, "y", rows=train, bins=bins)
    columns = survey.columns(bins=bins)
    assert columns.inputs == expected.inputs
    assert columns.left_out == expected.left_out
    assert columns.target == expected.target
    real = columns.target.classes is None
    x, y = expected.encode(table).x[train], expected.target.encode(table)[train]
    for likelihood in [Gaussian(), LogNormal()] if real else [Categorical(3)]:
        scaling = find_scaling(
            x, y, np.ones(len(train)), inputs=True, targets=real,
            positive=isinstance(likelihood, LogNormal),
        ).keeping_units(~expected.layout.scaled)  # fmt: skip
        for mine, theirs in zip(survey.scaling(columns, likelihood), scaling, strict=True):
            # At 1e8, double precision resolves 1e-8 of a spread of one.
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num=st.integers(30, 90),
    cuts=st.lists(st.integers(1, 89), max_size=5),
    bins=st.sampled_from([None, 3, "auto"]),
)
def test_parts_tell_what_the_whole_tells(seed, num, cuts, bins):
    rng = np.random.default_rng(seed)
    cells = make(rng, num)
    table = Table(Path("a"), cells, [f"row {i + 1}" for i in range(num)], "")
    apart = np.sort(rng.choice(num, rng.integers(0, 10), replace=False))
    survey = surveyed(parts_of(table, cuts), table.columns, num, apart)
    check_same(survey, table, apart, bins)


def write(path, columns, **more):
    parquet.write_table(pa.table(columns), path, **more)
    return path


@pytest.mark.parametrize("seed", range(4))
def test_files_tell_what_their_table_tells(tmp_path, seed):
    """Typed columns are looked at all at once, and say the same as cell by cell."""
    rng, num = np.random.default_rng(seed), 60
    columns = make(rng, num)
    path = write(tmp_path / "a.parquet", columns, row_group_size=13)
    files = ArrowTables(path)
    cells = {n: [None if c == "na" else c for c in column] for n, column in columns.items()}
    table = Table(path, cells, [f"row {i + 1}" for i in range(num)], files.digest)
    apart = np.array([3, 20, 59])
    parts = [(files.table(part), first) for part, first in files.parts]
    survey = surveyed(parts, files.names, num, apart)
    check_same(survey, table, apart, "auto")
    learned = survey.columns(bins="auto")
    for part, first in parts:
        rows = table.take(range(first, first + part.num_rows))
        np.testing.assert_array_equal(learned.encode(part).x, learned.encode(rows).x)
        np.testing.assert_array_equal(learned.target.encode(part), learned.target.encode(rows))
        assert learned.encode(part).remarks == learned.encode(rows).remarks
    assert files.take(apart).columns == table.take(apart).columns
    assert files.take(apart).places == ["row 4", "row 21", "row 60"]
    assert [chunk.num_rows for chunk in files.chunks(10)] == [10] * 6


def test_types_mean_in_parts_what_they_mean_in_memory(tmp_path):
    """Categories that are numbers, decimals, spans, and whole numbers with many digits."""
    pandas = pytest.importorskip("pandas")
    rng, num = np.random.default_rng(0), 40
    frame = pandas.DataFrame({
        "code": pandas.Categorical(rng.choice([11, 22, 33], num)),
        "price": [Decimal(int(cents)) / 100 for cents in rng.integers(0, 10**6, num)],
        "span": pandas.to_timedelta(rng.integers(0, 99, num), unit="h"),
        # In double precision all of them are the same number.
        "late": 2**60 + rng.integers(0, 3, num),
        "long": 2**60 + np.arange(num),
        "y": rng.normal(size=num),
    })  # fmt: skip
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=13)
    table, files = read_table(tmp_path / "a.parquet"), ArrowTables(tmp_path / "a.parquet")
    assert files.categorical == table.categorical == ("code",)
    apart = np.array([3, 20])
    parts = [(files.table(part), first) for part, first in files.parts]
    survey = surveyed(parts, files.names, num, apart, categorical=files.categorical)
    check_same(survey, table, apart, "auto")
    columns = survey.columns(bins="auto")
    assert [column.kind for column in columns.inputs] == ["categorical", "numeric", "numeric"]
    assert columns.left_out["late"] == "its numbers differ in too late a digit"
    assert columns.left_out["long"].startswith("it numbers the rows")
    whole = columns.encode(table).x
    np.testing.assert_array_equal(
        np.concatenate([columns.encode(part).x for part, _ in parts]), whole
    )
    np.testing.assert_array_equal(columns.encode(files.take(apart)).x, whole[apart])


def test_a_sample_stands_for_all_rows_and_counts_do_not_depend_on_it():
    rng, num = np.random.default_rng(0), 4000
    cells = {"a": rng.normal(size=num).tolist(), "k": rng.choice(["u", "v"], num).tolist()}
    # A gap, a category and a class that the sample hardly has.
    cells["a"][17], cells["k"][18] = None, "w"
    y = rng.choice(["no", "yes"], num).tolist()
    y[19] = "never"
    table = Table(Path("a"), cells | {"y": y}, [f"row {i + 1}" for i in range(num)], "")
    survey = surveyed(
        parts_of(table, [1000, 3000]), table.columns, num, np.zeros(0, int), sample_rows=400
    )
    assert not np.isin([17, 18, 19], survey.sample.rows).any()
    columns = survey.columns()
    number, words = columns.inputs
    assert number.gaps
    assert words.categories == ("u", "v", "w")
    assert columns.target.classes == ("never", "no", "yes")
    # The median of so many rows errs by 1.25 / sqrt(400) deviations.
    assert abs(number.fill) < 4 * 1.25 / 20
    again = surveyed(parts_of(table, [7]), table.columns, num, np.zeros(0, int), sample_rows=400)
    assert again.columns() == columns


def test_rare_words_are_given_up_for_frequent_ones(monkeypatch):
    monkeypatch.setattr("scalemix.tables.facts.MOST_WORDS", 100)
    facts = ColumnFacts("k", as_words=False)
    for start in range(0, 600, 60):
        words = [f"{i}x" for i in range(start, start + 60)] + ["u", "v"] * 40
        facts.add(Table(Path("a"), {"k": words}, [""] * len(words), ""))
    assert facts.some_given_up
    assert facts.words["u"] == facts.words["v"] == 400
    assert len(facts.words) <= 160


def test_a_bad_cell_is_named_with_its_file_and_row(tmp_path):
    for name, spelled in (("1", ["1", "2", "3"] * 4), ("2", ["4", "5", "x"] + ["6"] * 9)):
        write(tmp_path / f"{name}.parquet", {"a": spelled, "y": np.arange(12.0)})
    files = find_large(tmp_path, always=False)
    assert files is not None
    parts = [(files.table(part), first) for part, first in files.parts]
    survey = surveyed(parts, files.names, 24, np.zeros(0, int))
    with pytest.raises(InputError, match=r"2\.parquet, row 3, column 'a': 'x' is not a number"):
        survey.columns()
    holes = dataclasses.replace(parts[1][0], columns={"a": ["1"] * 12, "y": [1.0, None] * 6})
    with pytest.raises(InputError, match=r"2\.parquet, row 2, column 'y': the target is missing"):
        survey.add(holes, 24)


def test_what_is_read_a_part_at_a_time(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", {"a": [1.0, 2.0], "y": [1.0, 2.0]})
    assert find_large(path, always=False) is None
    assert find_large(path, always=True) is not None
    assert find_large(tmp_path / "a.csv", always=False) is None
    with pytest.raises(InputError, match="--stream is for Parquet"):
        find_large(tmp_path / "a.csv", always=True)
    monkeypatch.setattr("scalemix.tables.arrow_tables.MOST_CELLS", 3)
    assert find_large(path, always=False) is not None
