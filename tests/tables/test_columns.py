"""From columns to the inputs of a network."""

import datetime
import json
from pathlib import Path

import numpy as np
import pytest

from scalemix.data.scaling import Scaling, find_scaling
from scalemix.tables import Columns, InputError, Table, learn_columns
from scalemix.tables.cells import text
from scalemix.tables.columns import InputColumns
from scalemix.tables.inputs import Categorical


def table(**columns) -> Table:
    num = len(next(iter(columns.values())))
    places = [f"line {i + 2}" for i in range(num)]
    return Table(Path("data.csv"), columns, places, "digest")


TRAIN = table(
    size=["1", "2", None, "6"],
    kind=["b", "a", None, "a"],
    sold=["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-02"],
    flag=["True", "FALSE", "true", "false"],
    same=["1", "1", "1", "1"],
    hollow=[None, None, None, None],
    price=["1.5", "2", "3", "4"],
)


def test_numbers_stay_as_they_are_and_missing_ones_sit_at_the_median():
    columns = learn_columns(TRAIN, "price")
    x = columns.encode(TRAIN).x
    assert columns.features == [
        "size", "size is missing", "kind = a", "kind = b", "kind is missing", "kind = another",
        "sold", "flag = false", "flag = true", "flag = another",
    ]  # fmt: skip
    groups = {"size": [0, 1], "kind": [2, 3, 4, 5], "sold": [6], "flag": [7, 8, 9]}
    assert columns.groups == groups
    np.testing.assert_array_equal(x[:, :2], [[1, 0], [2, 0], [2, 1], [6, 0]])
    kinds = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    np.testing.assert_array_equal(x[:, 2:6], kinds)
    # Dates are days: the second is two after the first.
    assert x[1, 6] - x[0, 6] == 2
    np.testing.assert_array_equal(x[:, 8], [1, 0, 1, 0])
    layout = columns.layout
    assert layout.columns.tolist() == [0, 0, 1, 1, 1, 1, 2, 3, 3, 3]
    assert layout.parts.tolist() == [0, 1, 2, 2, 2, 2, 3, 4, 4, 4]
    assert np.flatnonzero(layout.scaled).tolist() == [0, 6]
    assert columns.number_places == [0, 6]
    assert columns.left_out == {"same": "the same in every row", "hollow": "empty"}
    np.testing.assert_array_equal(columns.target.encode(TRAIN), [1.5, 2, 3, 4])


def scaling_of(x: np.ndarray) -> Scaling:
    return find_scaling(x, x[:, 0], np.ones(len(x)), inputs=True, targets=False)


def test_large_offsets_keep_their_precision():
    start = 1_700_000_000
    stamps = table(t=[str(start + i) for i in range(5)], y=list("12435"))
    x = learn_columns(stamps, "y", task="regression").encode(stamps).x
    seen = scaling_of(x).inputs(x, np.float32)
    np.testing.assert_allclose(seen[:, 0], np.arange(-2, 3) / np.sqrt(2), rtol=1e-6)


def test_a_cell_far_beyond_all_others_is_named():
    columns = learn_columns(TRAIN, "price")
    x = columns.encode(TRAIN).x
    columns.refuse_far(TRAIN, x, scaling_of(x))
    far = table(**TRAIN.columns | {"size": ["1", "2", "3", "-1e20"]})
    with pytest.raises(InputError, match=r"line 5, column 'size': '-1e20' is more than 1e\+06 sta"):
        columns.refuse_far(far, columns.encode(far).x, scaling_of(x))


def test_the_last_of_a_million_words_is_not_far():
    num = 1_000_002
    words = Categorical("word", tuple(map(str, range(num))), unseen=True, looked_up=True)
    columns = InputColumns((words,), {})
    rows = table(word=["7", str(num - 1)])
    x = columns.encode(rows).x
    np.testing.assert_array_equal(x[:, 0], [7, num - 1])
    columns.refuse_far(rows, x, scaling_of(x).leaving_levels({0: num + 1}))


def test_columns_of_earlier_files_centre_themselves():
    """They were scaled by their encoding, and once more by the fit."""
    columns = learn_columns(TRAIN, "price")
    said = columns.to_json()
    assert "spread" not in said["inputs"][0]
    said["inputs"][0]["spread"] = 2.0
    earlier = Columns.from_json(said)
    np.testing.assert_array_equal(earlier.encode(TRAIN).x[:, 0], [-0.5, 0, 0, 2])
    assert Columns.from_json(earlier.to_json()) == earlier
    said["inputs"][0]["spread"] = 0
    with pytest.raises(ValueError, match="spread"):
        Columns.from_json(said)


def test_typed_cells_are_learned_as_their_text_is():
    typed = table(
        size=[1.5, 2.0, None, 6.5],
        flag=[True, False, True, False],
        sold=[datetime.date(2024, 1, day) for day in (1, 3, 2, 2)],
        label=[1, 2, 1, 2],
    )
    spelled = table(**{n: [None if c is None else text(c) for c in cells]
                       for n, cells in typed.columns.items()})  # fmt: skip
    one, other = (learn_columns(given, "label") for given in (typed, spelled))
    assert one == other
    np.testing.assert_array_equal(one.encode(typed).x, other.encode(spelled).x)
    np.testing.assert_array_equal(one.target.encode(typed), other.target.encode(spelled))


def test_columns_survive_json():
    for target in ("price", "kind"):
        kept = table(**{n: [c or "a" for c in TRAIN.columns[n]] for n in ("sold", "kind", "price")})
        columns = learn_columns(kept, target, ignore=["sold"] if target == "price" else [])
        again = Columns.from_json(json.loads(json.dumps(columns.to_json())))
        assert again == columns


@pytest.mark.parametrize("damage", [{}, {"inputs": 3}, [], {"inputs": [{"kind": "numeric"}]}])
def test_damaged_descriptions_are_refused(damage):
    with pytest.raises(ValueError, match="damaged"):
        Columns.from_json(damage)


def test_medians_and_categories_come_from_the_given_rows_alone():
    data = table(a=["1", "3", "100"], k=["x", "y", "z"], y=["1", "2", "5"])
    columns = learn_columns(data, "y", rows=[0, 1])
    encoded = columns.encode(data)
    assert columns.features == ["a", "k = x", "k = y", "k = another"]
    np.testing.assert_allclose(encoded.x[2], [100, 0, 0, 1])
    (unknown,) = encoded.unknown
    assert (unknown.name, unknown.words, unknown.rows.tolist()) == ("k", ("z",), [0, 0, 1])
    assert encoded.remarks == []


def test_what_is_missing_or_unknown_is_said():
    columns = learn_columns(TRAIN, "price", ignore=["sold"])
    new = table(size=[None, "2"], kind=["c", None], flag=["true", None])
    assert columns.encode(new).remarks == [
        "'size': 1 missing, which networks are told",
        "'kind': 1 missing, which networks are told",
        *columns.surprises(new),
    ]
    # Training had no gaps here.
    assert columns.surprises(new) == ["'flag': 1 missing, taken as no category"]
    assert [of.words for of in columns.encode(new).unknown] == [("c",)]
    np.testing.assert_array_equal(columns.encode(new).x[1, columns.groups["flag"]], 0)


def test_text_that_differs_in_most_rows_and_rare_categories_are_left_out(monkeypatch):
    monkeypatch.setattr("scalemix.tables.learning.MOST_CATEGORIES", 30)
    rows = range(200)
    data = table(
        name=[f"person {i}" for i in rows],
        town=[f"town {min(i % 50, i % 40)}" for i in rows],
        y=[str(i) for i in rows],
    )
    columns = learn_columns(data, "y")
    assert columns.left_out["name"].endswith("such as 'person 0'; --categorical name takes it in")
    for said in ({"use": ["name"]}, {"categorical": ["name"]}):
        assert len(learn_columns(data, "y", **said).groups["name"]) == 31
    # And one for all others, of which training had some.
    assert len(columns.features) == 31
    assert columns.encode(data).x[:, -1].sum() == 20


def words(num, repeats=3):
    """So many words, each of which is in as many rows, and numbers beside them."""
    return [f"w{i:03d}" for i in range(num)] * repeats


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr("scalemix.tables.learning.FEW_LEVELS", 64)


@pytest.mark.usefixtures("few_are_many")
def test_columns_of_many_words_become_positions_if_asked():
    many, few = words(70), ["a", "b", "c"] * 70
    data = table(many=many, few=few, y=[str(i) for i in range(210)])
    plain, columns = learn_columns(data, "y"), learn_columns(data, "y", look_up=True)
    assert len(plain.groups["many"]) == 71
    assert columns.features == ["many", "few = a", "few = b", "few = c", "few = another"]
    assert columns.layout.levels.tolist() == [71, 0, 0, 0, 0]
    assert not columns.layout.scaled.any()
    assert columns.describe()[1:] == [
        "categories, one-hot: few (3)",
        "categories, looked up: many (70)",
    ]
    # The position is that of the one among zeros.
    x, wide = columns.encode(data).x, plain.encode(data).x
    np.testing.assert_array_equal(x[:, 0], wide[:, plain.groups["many"]].argmax(axis=1))
    np.testing.assert_array_equal(x[:, 1:], wide[:, plain.groups["few"]])
    new = table(many=["w003", "other", None], few=["a"] * 3)
    encoded = columns.encode(new)
    assert encoded.x[:, 0].tolist() == [3, 70, 70]
    assert [of.words for of in encoded.unknown] == [("other",)]
    assert columns.surprises(new) == ["'many': 1 missing, taken as a word that is not known"]


@pytest.mark.usefixtures("few_are_many")
def test_gaps_among_many_words_have_a_position_of_their_own():
    data = table(many=[None, *words(70)[1:]], y=[str(i) for i in range(210)])
    columns = learn_columns(data, "y", look_up=True)
    assert columns.layout.levels.tolist() == [72]
    new = table(many=[None, "w069", "other"])
    assert columns.encode(new).x[:, 0].tolist() == [70, 69, 71]
    assert columns.surprises(new) == []


def test_few_words_and_columns_of_old_files_are_as_ever():
    data = table(k=words(500), y=[str(i) for i in range(1500)])
    assert learn_columns(data, "y", look_up=True) == learn_columns(data, "y")
    more = table(k=words(501), y=[str(i) for i in range(1503)])
    assert learn_columns(more, "y", look_up=True).layout.levels.tolist() == [502]
    assert len(learn_columns(more, "y").features) == 501
    columns = learn_columns(data, "y")
    assert "looked_up" not in str(columns.to_json())
    assert Columns.from_json(columns.to_json()) == columns


def test_of_too_many_words_the_rarest_share_the_position_of_the_unknown(monkeypatch):
    monkeypatch.setattr("scalemix.tables.learning.FEW_LEVELS", 64)
    monkeypatch.setattr("scalemix.tables.learning.MOST_LEVELS", 68)
    monkeypatch.setattr("scalemix.tables.inputs.MOST_LEVELS", 68)
    rare = ["x", "y"]
    data = table(k=[*words(68), *rare], y=[str(i) for i in range(206)])
    columns = learn_columns(data, "y", look_up=True)
    assert columns.layout.levels.tolist() == [69]
    assert columns.encode(data).x[-2:, 0].tolist() == [68, 68]
    # Training may have had them.
    assert columns.encode(table(k=["z"])).unknown == []
    again = Columns.from_json(columns.to_json())
    assert again == columns
    said = columns.to_json()
    said["inputs"][0].pop("unseen")
    with pytest.raises(ValueError, match="none for words that are not known"):
        Columns.from_json(said)


@pytest.mark.parametrize(
    ("cells", "task", "classes"),
    [
        (["1.5", "2", "7"], "regression", None),
        (["3", "4", "5", "6", "7", "8"], "regression", None),
        (["0", "1", "1", "0"], "classification", ("0", "1")),
        (["3", "8", "3", "8"], "classification", ("3", "8")),
        (["2", "1.0", "3", "1", "2", "3"], "classification", ("1", "2", "3")),
        (["no", "yes", "yes", "no"], "classification", ("no", "yes")),
        (["True", "false", "TRUE", "false"], "classification", ("false", "true")),
    ],
)
def test_the_task_is_found_from_the_target(cells, task, classes):
    data = table(a=[str(i) for i in range(len(cells))], y=cells)
    target = learn_columns(data, "y").target
    assert (target.task, target.classes) == (task, classes)
    said = learn_columns(data, "y", task="classification" if classes else "regression").target
    assert (said.classes, said.reason) == (classes, "as asked")


def test_classes_are_counted_from_zero_in_their_order():
    data = table(a=["1", "2", "3", "4"], y=["10", "9", "9.0", "10"])
    target = learn_columns(data, "y").target
    np.testing.assert_array_equal(target.encode(data), [1, 0, 0, 1])
    with pytest.raises(InputError, match="line 2, column 'y': '11' is none of the classes"):
        target.encode(table(y=["11"]))


NINE = [str(i) for i in range(9)]


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({"a": NINE}, {}, "there is no column 'y'. There are: 'a'."),
        ({"a": [*NINE, "x"], "y": [*NINE, "20"]}, {}, "line 11, column 'a': 'x' is not a number."),
        ({"a": NINE, "y": [*NINE[:-1], "inf"]}, {}, "line 10, column 'y': 'inf' is infinite"),
        ({"a": [*NINE[:-1], "-1e400"], "y": NINE}, {}, "line 10, column 'a': '-1e400' is inf"),
        ({"a": NINE, "y": [*NINE[:-1], None]}, {}, "line 10, column 'y': the target is missing"),
        ({"a": NINE, "y": ["5"] * 9}, {}, "5 in every row"),
        ({"a": NINE, "y": ["x"] * 9}, {}, "one class, 'x'"),
        ({"a": NINE, "y": [f"t{i}" for i in range(9)]}, {}, "9 different values, such as 't0'"),
        ({"a": NINE, "y": ["x", "y"] * 4 + ["x"]}, {"task": "regression"}, "'x' is not a number"),
        ({"a": ["1"] * 9, "y": NINE}, {}, "nothing to predict 'y' from"),
        ({"y": NINE}, {}, "nothing to predict 'y' from (no other column)"),
        ({"a": NINE, "y": NINE}, {"ignore": ["b"]}, "there is no column 'b'"),
    ],
)
def test_bad_columns_are_refused_with_their_place(columns, options, says):
    with pytest.raises(InputError) as error:
        learn_columns(table(**columns), "y", **options)
    assert says in str(error.value)
    assert str(error.value).startswith("data.csv")


def test_a_column_of_labels_may_be_declared_one():
    data = table(a=[*NINE, "x"], y=[*NINE, "20"])
    assert "a = x" in learn_columns(data, "y", categorical=["a"]).features


def test_columns_that_number_the_rows_are_left_out_unless_asked_for():
    order = np.random.default_rng(0).permutation(30)
    given = table(
        id=[str(i + 1) for i in range(30)],
        shuffled=[str(i) for i in order],
        gap=[str(i + (i > 20)) for i in range(30)],
        half=[str(i + 0.5) for i in range(30)],
        hole=[None if i == 4 else str(i) for i in range(30)],
        y=[str(i % 7 + 0.1) for i in range(30)],
    )
    assert [*learn_columns(given, "y").left_out] == ["id", "shuffled"]
    assert "--use id" in learn_columns(given, "y").left_out["id"]
    assert [*learn_columns(given, "y", use=["id"]).left_out] == ["shuffled"]
    assert learn_columns(given.take(range(10)), "y").left_out == {}


def test_other_columns_than_those_of_training_are_refused():
    columns = learn_columns(TRAIN, "price")
    with pytest.raises(InputError, match="no column 'size', 'kind', 'sold', which the model"):
        columns.encode(table(flag=["true"], price=["1"]))
    with pytest.raises(InputError, match="line 2, column 'size': 'big' is not a number"):
        columns.encode(table(size=["big"], kind=["a"], sold=["2024-01-01"], flag=["true"]))
    with pytest.raises(InputError, match="column 'sold': '1 May' is not a date"):
        columns.encode(table(size=["1"], kind=["a"], sold=["1 May"], flag=["true"]))
