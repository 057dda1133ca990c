"""Dates in the ways that people write them."""

import dataclasses
import datetime
from pathlib import Path

import numpy as np
import pytest

from scalemix.tables import Columns, InputError, Table, learn_columns
from scalemix.tables.dates import days
from scalemix.tables.survey import Survey
from tests.cli.conftest import run

FIRST = datetime.date(2024, 1, 3)
DATES = [FIRST + datetime.timedelta(days=9 * i) for i in range(30)]
WAYS = {
    "%d.%m.%Y": "dmy",
    "%d/%m/%Y": "dmy",
    "%m/%d/%Y": "mdy",
    "%d-%m-%Y": "dmy",
    "%d/%m/%Y 21:30": "dmy",
    "%m/%d/%Y 9:30 PM": "mdy",
    "%Y/%m/%d": "ymd",
    "%Y-%m-%d": "ymd",
}


def table_of(cells):
    columns = {"sold": cells, "y": [f"{i / 7}" for i in range(len(cells))]}
    return Table(Path("a.csv"), columns, [f"line {i + 2}" for i in range(len(cells))], "")


def learn_in_parts(table, **asked):
    survey = Survey(list(table.columns), ["y"], table.num_rows, apart=np.array([], int))
    for first in (0, 10):
        rows = range(first, table.num_rows if first else 10)
        survey.add(table.take(rows), first)
    return survey.columns(**asked)


def learn_at_once(table, **asked):
    return learn_columns(table, "y", **asked)


@pytest.mark.parametrize("learn", [learn_at_once, learn_in_parts])
@pytest.mark.parametrize(("way", "order"), WAYS.items())
def test_the_values_decide_on_the_order_and_the_model_keeps_it(way, order, learn):
    table = table_of([date.strftime(way) for date in DATES])
    columns = Columns.from_json(learn(table).to_json())
    assert columns.inputs[0].date_order == order
    part = 21.5 / 24 if "30" in way else 0
    expected = [(date - datetime.date(1970, 1, 1)).days + part for date in DATES]
    np.testing.assert_allclose(columns.read(table)[:, 0], expected, atol=1e-6)
    first = {"ymd": "sold", "dmy": "sold (day first)", "mdy": "sold (month first)"}[order]
    assert f"dates, as days: {first}" in columns.describe()
    # New rows are read in the same way, though they alone would not tell; ISO is never in doubt.
    new = table_of([datetime.date(2024, 4, 3).strftime(way), "2024-04-03"])
    got = columns.read(new)[:, 0]
    np.testing.assert_allclose(got, [got[1] + part, days("2024-04-03")])


@pytest.mark.parametrize("learn", [learn_at_once, learn_in_parts])
def test_who_knows_the_order_is_asked_where_no_row_tells(learn):
    table = table_of([f"0{i % 9 + 1}/0{i % 7 + 1}/2024" for i in range(30)])
    with pytest.raises(InputError, match=r"no row tells which. Make dates of it") as told:
        learn(table)
    assert "Say --date-order dmy for the first" in told.value.with_options()
    for order, day in (("dmy", "2024-02-03"), ("mdy", "2024-03-02")):
        columns = learn(table, date_order=order)
        assert columns.read(table_of(["03/02/2024"]))[0, 0] == days(day)


@pytest.mark.parametrize("learn", [learn_at_once, learn_in_parts])
def test_dates_that_are_the_same_in_both_orders_do_not_tell_it(learn):
    table = table_of([f"0{i % 9 + 1}/0{i % 9 + 1}/2024" for i in range(30)])
    with pytest.raises(InputError, match=r"'01/01/2024' and all other rows do not tell") as told:
        learn(table)
    assert "Say --date-order dmy for the day, or" in told.value.with_options()
    columns = learn(table, date_order="mdy")
    assert columns.read(table_of(["03/04/2024"]))[0, 0] == days("2024-03-04")
    # A column of one date is of no use in any order.
    table = table_of(["01/02/2024"] * 30)
    table = dataclasses.replace(table, columns={**table.columns, "a": table.columns["y"]})
    assert learn(table).left_out == {"sold": "the same in every row"}


def test_a_date_in_the_other_order_is_named():
    columns = learn_at_once(table_of([date.strftime("%d/%m/%Y") for date in DATES]))
    with pytest.raises(InputError, match="line 2, column 'sold': '08/17/2024' is not a date such"):
        columns.read(table_of(["08/17/2024"]))


@pytest.mark.parametrize("learn", [learn_at_once, learn_in_parts])
@pytest.mark.parametrize("cell", ["32.13.2021", "not sold"])
def test_a_few_cells_that_are_no_dates_are_a_mistake_and_many_are_words(cell, learn):
    cells = [date.strftime("%d.%m.%Y") for date in DATES]
    cells[12] = cells[20] = cell
    with pytest.raises(InputError, match=f"line 14, column 'sold': '{cell}' is not a date") as told:
        learn(table_of(cells))
    mark = f"'{cell}'" if " " in cell else cell
    for way in (f"--missing {mark};", "--categorical sold;", "--ignore sold does"):
        assert way in told.value.with_options()
    # Seven of 30 are more than a fifth.
    words = table_of([cell] * 7 + [DATES[i % 3].strftime("%d.%m.%Y") for i in range(23)])
    assert learn(words).inputs[0].kind == "categorical"


def test_a_cell_that_contradicts_the_others_is_named_before_an_order_is_asked_for():
    cells = [*["03/04/2024"] * 28, "17/04/2024", "04/17/2024"]
    with pytest.raises(InputError, match="line 31, column 'sold': '04/17/2024' is not a date"):
        learn_at_once(table_of(cells))


def test_what_is_no_date_stays_a_word():
    for cell in (
        "32.01.2024",
        "1.2.3",
        "2024.13.01",
        "12/2024",
        "1/2/24",
        "13:00",
        "8/17/2024 13 PM",
    ):
        assert [days(cell, order) for order in ("ymd", "dmy", "mdy")] == [None] * 3


def test_the_command_names_the_option_that_decides(tmp_path):
    data = tmp_path / "d.csv"
    data.write_text("sold,y\n" + "".join(f"0{i % 9 + 1}/05/2024,{i / 7}\n" for i in range(40)))
    ran = run("fit", data, "-t", "y", "-o", tmp_path / "m")
    assert ran.code == 2
    assert "column 'sold': '01/05/2024' may be 1 May 2024 or 5 January 2024" in ran.err
    assert "Say --date-order dmy for the first, or --date-order mdy for the second" in ran.err
