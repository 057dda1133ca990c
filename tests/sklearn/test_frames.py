"""Data frames as they come: words, categories, truth values, dates and gaps."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from scalemix import InputWarning, RangeWarning
from scalemix.analysis.effects import effect
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor, TableEncoder
from scalemix.sklearn.inputs import learn_encoder
from scalemix.tables import InputError, table_of

QUICK = {
    "hidden": (16,), "max_steps": 60, "batch_size": 32, "num_members": 2, "temperature": 0.3,
    "noise_floor": 0.1, "random_state": 0,
}  # fmt: skip
NUM = 90


def messy(num=NUM, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(["Aa", "Bb", "Cc"], num)
    size = rng.normal(size=num)
    size[::7] = np.nan
    frame = pd.DataFrame(
        {
            "size": size,
            "town": town,
            "grade": pd.Categorical(rng.integers(1, 4, num)),
            "new": rng.random(num) < 0.5,
            "built": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, num), "D"),
            "rooms": pd.array([None, *rng.integers(1, 9, num - 1)], dtype="Int64"),
            "same": "x",
        }
    )
    frame.loc[3, "town"] = None
    y = 2.0 * (town == "Bb") + 0.1 * rng.normal(size=num)
    return frame, y


FRAME, Y = messy()


@pytest.fixture(scope="module")
def fitted():
    return ScaleMixRegressor(**QUICK).fit(FRAME, Y)


def test_a_frame_goes_in_as_it_is(fitted):
    assert fitted.n_features_in_ == 7
    assert fitted.feature_names_in_.tolist() == FRAME.columns.tolist()
    assert fitted.relevance_.shape == (7,)
    # Nothing can be learned from a column that is the same everywhere.
    assert fitted.relevance_[6] == 0
    assert np.isfinite(fitted.predict(FRAME)).all()
    means = [fitted.predict(FRAME[FRAME["town"] == town]).mean() for town in ("Aa", "Bb", "Cc")]
    assert np.argmax(means) == 1


def test_frames_say_which_rows_lie_outside_and_what_columns_do(fitted):
    """In the frame's own terms: names, words and gaps."""
    assert (fitted.outside(FRAME).by_row == 0).all()
    estimate = effect(fitted, FRAME, "town", num_rows=20)
    assert estimate.names == ("town",)
    assert estimate.grids[0][estimate.mean.argmax()] == "Bb"


def test_a_row_without_any_value_is_warned_of(fitted):
    """Each gap by itself is as in training, but for two columns."""
    new = FRAME[1:4].astype(object)
    new.iloc[1] = None
    with (
        pytest.warns(InputWarning, match="'built': 1 missing"),
        pytest.warns(RangeWarning, match=r"1 of 3 .* guesses: no column has a value \(1 row\)"),
    ):
        fitted.predict(new)
    np.testing.assert_array_equal(fitted.outside(new).by_row, [0, 1, 0])


def test_text_that_looks_like_numbers_is_taken_for_words_and_said():
    """Of columns that are used: those left out are named elsewhere."""
    shares, marks = ["10%", "20%", "30%"] * 30, ["1,5", "2,5", "3,5"] * 30
    amounts = [f"{1000 + i:,}" for i in range(90)]
    frame = pd.DataFrame({"share": shares, "mark": marks, "amount": amounts, "size": range(90)})
    frame["label"] = pd.Categorical(marks)
    said = "taken for words: 'share' ('10%'), 'mark' ('1,5'). Make numbers of them"
    for fit in (TableEncoder().fit, lambda x: learn_encoder(table_of(x), None, None)):
        with pytest.warns(InputWarning, match=re.escape(said)):
            fit(frame)
    TableEncoder(categorical=["share", "mark"]).fit(frame)


def test_codes_of_digits_are_taken_for_numbers_and_said():
    codes = ["00501", "10001", "90210"] * 30
    frame = pd.DataFrame({"post code": codes, "Size": range(90)})
    with pytest.warns(InputWarning, match=r"read as numbers: 'post code' \(00501 is 501\)"):
        assert TableEncoder().fit(frame).columns_.features == ["post code", "Size"]
    TableEncoder(categorical=["post code"]).fit(frame)


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame(np.ones((40, 3)), columns=["a", "b", "a"])
    y = np.arange(40) - 9.5
    fitted = ScaleMixRegressor(**QUICK).fit(frame.iloc[:, :2], y)
    for use in (TableEncoder().fit, lambda x: clone(fitted).fit(x, y), fitted.predict):
        with pytest.raises(InputError, match="two columns of the name 'a'"):
            use(frame)


def test_pandas_and_polars_are_the_same_data(fitted):
    other = pl.DataFrame(table_of(FRAME).columns)
    other = other.with_columns(pl.col("grade").cast(pl.String).cast(pl.Categorical))
    again = ScaleMixRegressor(**QUICK).fit(other, Y)
    np.testing.assert_array_equal(again.predict(other), fitted.predict(FRAME))


def test_what_was_fitted_survives_a_pickle(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(FRAME), fitted.predict(FRAME))


def test_a_word_that_was_never_seen_makes_predictions_less_sure(optimised):
    """Its weights have the prior's spread of a category of that column, which matters here."""
    fitted = ScaleMixRegressor(**{**QUICK, "max_steps": 600}).fit(FRAME, Y)
    new = FRAME.assign(town=["Zz", *FRAME["town"][1:]])
    with pytest.warns(RangeWarning, match=r"1 of .* 'town' has the unknown 'Zz' \(1 row\)"):
        fitted.predict(new)
    np.testing.assert_array_equal(fitted.outside(new).by_row, [1.0] + [0.0] * (len(new) - 1))
    warnings.simplefilter("ignore", RangeWarning)
    known, unknown = (fitted.predict_dist(FRAME.assign(town=town)) for town in ("Aa", "Zz"))
    assert np.mean(unknown.epistemic) > 2 * np.mean(known.epistemic)
    # It lies between the others.
    assert 0.1 < np.mean(unknown.mean) < 1.9


def test_columns_of_frames_are_checked(fitted):
    with pytest.raises(ValueError, match="fitted to a data frame with the columns 'size', 'town'"):
        fitted.predict(np.zeros((2, 7)))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(FRAME.drop(columns="town"))
    with pytest.raises(InputError, match=r"column 'size'.*is not a number"):
        fitted.predict(FRAME.assign(size="large"))
    with pytest.raises(InputError, match="two columns of the name 'a'"):
        table_of(pd.DataFrame([[1, "x"]], columns=["a", "a"]))
    with pytest.raises(InputError, match=r"row 0, column 'a': \[1\] is no number, text or date"):
        table_of(pd.DataFrame({"a": [[1]]}))


def test_a_frame_of_numbers_is_an_array_of_numbers():
    x = np.random.default_rng(0).normal(size=(NUM, 2))
    frame = pd.DataFrame(x, columns=["a", "b"]).astype({"a": "float32"})
    one = ScaleMixRegressor(**QUICK).fit(frame, Y)
    two = ScaleMixRegressor(**QUICK).fit(frame.to_numpy(np.float64), Y)
    np.testing.assert_array_equal(one.predict(frame), two.predict(frame.to_numpy(np.float64)))


def test_held_out_rows_decide_on_bins():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    labels = np.where(np.floor(4 * x[:, 0]) % 2 == 0, "even", "odd")
    settings = {**QUICK, "max_steps": 300, "num_trial_members": 1, "temperature": "auto"}
    fitted = ScaleMixClassifier(**settings).fit(x, labels)
    assert sorted(trial.bins for trial in fitted.trials_) == [False] * 3 + [True] * 3
    assert sum(trial.num_members for trial in fitted.trials_) == 2
    assert len(fitted.bin_edges_[0]) == 9
    best = max(fitted.trials_, key=lambda trial: trial.score)
    assert best.num_members >= 1
    # Where nothing else is tried out, there are no bins; and noise training tries nothing.
    for others in ({"temperature": 0.3}, {"inference": "noise"}):
        other = ScaleMixClassifier(**settings | others).fit(x, labels)
        assert (other.trials_, other.bin_edges_) == ((), ((), ()))


@pytest.mark.parametrize("as_frame", [False, True])
def test_codes_among_numbers_are_told_apart(as_frame):
    rng = np.random.default_rng(2)
    codes = np.array([1, 2, 3, 5, 8, 13, 21, 34.5])
    x = np.stack([rng.choice(codes, 640), rng.normal(size=640)], axis=1)
    labels = np.isin(x[:, 0], [2, 5, 21]).astype(int)
    # Text makes a table of a frame; without it, arrays and frames take the same way.
    table = pd.DataFrame(x, columns=["code", "size"]).assign(town=["u", "v"] * 320)
    table = table if as_frame else x
    settings = {**QUICK, "max_steps": 200, "num_trial_members": 1, "temperature": "auto"}
    fitted = ScaleMixClassifier(**settings).fit(table, labels)
    assert fitted.repeated_numbers_[:2] == (tuple(codes), ())
    assert (fitted.predict(table) == labels).all()
    assert fitted.relevance_.argmax() == 0
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(table), fitted.predict_proba(table))
    again.prune(table)
    assert (again.predict(table) == labels).all()
    plain = ScaleMixClassifier(**settings | {"bins": 4}).fit(table, labels)
    assert plain.repeated_numbers_[:2] == ((), ())


def test_the_encoder_is_a_step_of_a_pipeline():
    pipe = make_pipeline(TableEncoder(categorical=["rooms"]), LinearRegression()).fit(FRAME, Y)
    assert pipe.score(FRAME, Y) > 0.9
    encoder = clone(pipe[0]).fit(FRAME)
    encoded = encoder.transform(FRAME)
    assert encoded.shape == (NUM, len(encoder.get_feature_names_out()))
    assert "rooms = 3" in encoder.get_feature_names_out()
    assert np.isfinite(encoded).all()
    assert encoder.columns_.left_out == {"same": "the same in every row"}
    with pytest.raises(InputError, match="takes a data frame of pandas or polars, got ndarray"):
        encoder.transform(encoded)
    with pytest.raises(InputError, match=r"there is no column 'rooom'. Did you mean 'rooms'"):
        TableEncoder(categorical=["rooom"]).fit(FRAME)


def test_whole_numbers_are_the_same_category_with_gaps_and_without():
    codes = pd.DataFrame({"a": range(6), "z": pd.Series([1, 2, None] * 2).astype("category")})
    encoder = TableEncoder().fit(codes)
    assert encoder.columns_.groups["z"] == [1, 2, 3, 4]
    full = pd.DataFrame({"a": [0, 1], "z": pd.Series([1, 2]).astype("category")})
    np.testing.assert_array_equal(encoder.transform(full)[:, 1:3], np.eye(2))
    assert encoder.columns_.features[1:3] == ["z = 1", "z = 2"]


def test_rows_of_weight_zero_count_for_nothing():
    bad, weight = FRAME.astype({"size": object}), np.ones(NUM)
    bad.loc[5, "size"], weight[5] = "junk", 0.0
    with pytest.raises(InputError, match="junk"):
        ScaleMixRegressor(**QUICK).fit(bad, Y)
    with_zero = ScaleMixRegressor(**QUICK).fit(bad, Y, sample_weight=weight)
    without = ScaleMixRegressor(**QUICK).fit(
        FRAME.drop(5), np.delete(Y, 5), sample_weight=np.ones(NUM - 1)
    )
    np.testing.assert_array_equal(with_zero.predict(FRAME), without.predict(FRAME))


def test_categories_by_type_are_categories_whatever_their_number():
    many = pd.DataFrame({"k": pd.Categorical([f"level {i}" for i in range(60)]), "a": range(60)})
    assert len(TableEncoder().fit(many).columns_.groups["k"]) == 61
    assert "k" in TableEncoder().fit(many.astype({"k": str})).columns_.left_out


def test_bins_that_nobody_can_decide_on_are_not_made():
    x = np.random.default_rng(0).normal(size=(NUM, 2))
    fitted = ScaleMixRegressor(bins="auto", mixture="half-cauchy", **QUICK).fit(x, Y)
    assert fitted.bin_edges_ == ((), ())
    # Of 39 rows, too few could be held out; rows of weight zero do not count.
    settings = QUICK | {"temperature": "auto"}
    weight = np.repeat([1.0, 0.0], [39, NUM - 39])
    few = ScaleMixRegressor(**settings).fit(x, Y, sample_weight=weight)
    assert few.bin_edges_ == ((), ())
    assert {trial.bins for trial in few.trials_} == {None}


def test_pickles_from_before_there_were_encoders_still_predict():
    x = np.random.default_rng(0).normal(size=(NUM, 2))
    fitted = ScaleMixRegressor(bins=3, **QUICK).fit(x, Y)
    state = fitted.__getstate__()
    for name in ("encoder_", "ranges_", "conformal_", "calibration", "target", "devices"):
        del state[name]
    state["bin_edges_"] = fitted.bin_edges_
    again = ScaleMixRegressor.__new__(ScaleMixRegressor)
    again.__setstate__(state)
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))
    assert again.get_params() == fitted.get_params()


@pytest.mark.parametrize("column", [0, 1, 3, np.int64(4)])
def test_effects_of_columns_of_frames(fitted, column):
    estimate = effect(fitted, FRAME, column, num_values=4, num_rows=5)
    assert 2 <= len(estimate.grids[0]) <= 4
    assert np.isfinite(estimate.mean).all()
    other = pl.DataFrame(table_of(FRAME).columns)
    same = effect(fitted, other, column, num_values=4, num_rows=5)
    np.testing.assert_allclose(same.mean, estimate.mean, rtol=1e-5, atol=1e-5)


def test_columns_that_nothing_is_learned_from_are_said():
    frame = pd.DataFrame({"a": np.arange(60.0), "price": [f"{i} EUR" for i in range(60)]})
    with pytest.warns(InputWarning, match=r"these columns: 'price' \(text"):
        ScaleMixRegressor(**QUICK).fit(frame, np.linspace(-1.0, 1.0, 60))
