"""Kinds of targets, rows without one, and weights of classes."""

import pickle
import warnings

import equinox as eqx
import numpy as np
import pandas
import polars
import pytest
import scipy.sparse

import scalemix as sx
from scalemix._warnings import Said
from scalemix.recipes import Fitted
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor
from scalemix.sklearn.targets import check_numbers, with_targets

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
QUICK = {"hidden": (8,), "num_members": 1, "temperature": 0.1, "noise_floor": 0.1,
         "max_steps": 150, "random_state": 0}  # fmt: skip
RATE = np.exp(1 + 0.5 * X[:, 0])
TARGETS = {
    "positive": RATE * RNG.lognormal(0, 0.2, 60),
    "count": RNG.poisson(RATE),
    "share": 1 / (1 + np.exp(-X[:, 0] + 0.3 * RNG.normal(size=60))),
    "time": sx.likelihoods.censored_times(RATE * RNG.weibull(2.0, 60), RNG.uniform(size=60) < 0.7),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_predictions_stay_where_targets_can_be(kind):
    y = TARGETS[kind]
    fitted = ScaleMixRegressor(target=kind, **QUICK).fit(X, y)
    lower, upper = fitted.predict_interval(X[:4])
    low, high = fitted.posterior_.model.likelihood.support
    if kind == "count":
        low = -1
        np.testing.assert_array_equal(lower, np.floor(lower))
    assert (low < lower).all()
    assert (lower < upper).all()
    assert (upper < high).all()
    # It learned what the first column does; of times the score is a log-likelihood.
    assert np.corrcoef(fitted.predict(X), X[:, 0])[0, 1] > 0.8
    if kind == "time":
        assert fitted.score(X, y) == fitted.predict_dist(X).log_prob(y).mean()
    else:
        assert 0.2 < fitted.score(X, y) <= 1
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X[:4]), fitted.predict(X[:4]))


@pytest.mark.parametrize("kind", ["positive", "time"])
def test_a_row_that_overflows_takes_no_answer_from_others(kind):
    fitted = ScaleMixRegressor(target=kind, **QUICK).fit(X, TARGETS[kind])
    far = X[:4].copy()
    far[2, 0] = 1e4
    with pytest.warns(sx.RangeWarning, match="1 of 4 rows lies far outside"):
        drawn_in = fitted.predict(far)
    assert np.isfinite(drawn_in).all()
    # As models are that were fitted before far cells were drawn in.
    scaling = fitted.posterior_.scaling._replace(draws_in=False)
    fitted.posterior_ = eqx.tree_at(lambda p: p.scaling, fitted.posterior_, scaling)
    fitted._said = Said()
    with (
        pytest.warns(sx.RangeWarning, match="1 of 4 rows lies far outside"),
        pytest.warns(sx.RangeWarning, match="at row 2 of x is beyond .* given as infinite"),
    ):
        mean, std = fitted.predict(far, return_std=True)
    assert mean[2] == std[2] == np.inf
    near = [0, 1, 3]
    # Blocks of other sizes round differently.
    np.testing.assert_allclose(mean[near], fitted.predict(X[near]), rtol=1e-5)
    lower, upper = fitted.predict_interval(far)
    expected = fitted.predict_interval(X[near])
    np.testing.assert_allclose((lower[near], upper[near]), expected, rtol=1e-4)
    assert lower[2] <= upper[2]


def test_several_counts_are_one_fit():
    y = np.stack([TARGETS["count"], RNG.poisson(10 * RATE)], axis=1)
    fitted = ScaleMixRegressor(target="count", **QUICK | {"max_steps": 20}).fit(X, y)
    assert fitted.predict(X).shape == (60, 2)
    assert fitted.relevance_.shape == (3,)
    assert fitted.posterior_.model.likelihood.title == "Independent(NegativeBinomial, 2)"


def test_another_kind_is_suggested_where_it_would_help():
    with pytest.warns(sx.InputWarning, match=r"whole numbers from zero.*target='count'"):
        ScaleMixRegressor(**QUICK | {"max_steps": 20}).fit(X, TARGETS["count"])
    for kind, target in (("money", X[:, 0]), ("count", TARGETS["positive"])):
        with pytest.raises(ValueError, match=r"target must be one of|y is .* at row"):
            ScaleMixRegressor(target=kind, **QUICK).fit(X, target)


def test_rows_without_a_target_are_counted_and_left_out_on_request():
    y, weight = X[:, 0].copy(), np.linspace(1, 2, 60)
    y[[3, 7]] = np.nan
    kept = ~np.isnan(y)
    with pytest.raises(ValueError, match=r"2 of 60 rows have no target .* missing_target='drop'"):
        ScaleMixRegressor(**QUICK).fit(X, y)
    with pytest.warns(sx.InputWarning, match="2 of 60 rows have no target, and are left out"):
        dropped = ScaleMixRegressor(missing_target="drop", **QUICK).fit(X, y, weight)
    alone = ScaleMixRegressor(**QUICK).fit(X[kept], y[kept], weight[kept])
    np.testing.assert_array_equal(dropped.predict(X), alone.predict(X))
    with pytest.raises(ValueError, match="No row has a target"):
        ScaleMixRegressor(missing_target="drop", **QUICK).fit(X, np.full(60, np.nan))
    with pytest.raises(ValueError, match="missing_target must be 'error' or 'drop'"):
        ScaleMixRegressor(missing_target="fill", **QUICK).fit(X, X[:, 0])


@pytest.mark.parametrize("gap", [None, np.nan, pandas.NA])
def test_classes_may_be_missing_too(gap):
    y = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    y[:2] = gap
    settings = {"missing_target": "drop", **QUICK, "max_steps": 20}
    with pytest.warns(sx.InputWarning, match="2 of 60 rows"):
        fitted = ScaleMixClassifier(**settings).fit(pandas.DataFrame(X), pandas.Series(y))
    assert fitted.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("kind", [list, pandas.DataFrame, polars.DataFrame, scipy.sparse.csr_array])
def test_rows_with_a_target_stay_what_they_were(kind):
    rows = np.arange(6.0).reshape(3, 2)
    x = kind(rows.tolist()) if kind is list else kind(rows)
    with pytest.warns(sx.InputWarning, match="1 of 3 rows"):
        kept, _, _ = with_targets("drop", x, [1, None, 2], None)
    assert isinstance(kept, kind)
    plain = kept.toarray() if hasattr(kept, "toarray") else np.asarray(kept)
    np.testing.assert_array_equal(plain, rows[[0, 2]])


def test_whole_numbers_beside_a_gap_stay_whole():
    y = polars.Series([1, None, 2])
    with pytest.warns(sx.InputWarning, match="1 of 3 rows"):
        _, kept, _ = with_targets("drop", X[:3], y, None)
    assert kept.dtype == polars.Int64
    assert kept.to_list() == [1, 2]


def test_what_is_left_of_a_list_has_the_types_that_it_had():
    x, y, weight = [[1, "a"], [2.5, "b"], [3, None]], [1, np.nan, 2], (1, 2, 3)
    with pytest.warns(sx.InputWarning, match="1 of 3 rows"):
        left = with_targets("drop", x, y, weight)
    assert repr(left) == "([[1, 'a'], [3, None]], [1, 2], [1, 3])"


def test_weights_of_classes_are_weights_of_their_rows():
    y = np.where(X[:, 0] > 1, "rare", "common")
    counts = pandas.Series(y).value_counts()
    balanced = ScaleMixClassifier(class_weight="balanced", **QUICK).fit(X, y)
    by_hand = {name: 60 / (2 * count) for name, count in counts.items()}
    named = ScaleMixClassifier(class_weight=by_hand, **QUICK).fit(X, y)
    weighted = ScaleMixClassifier(**QUICK).fit(X, y, pandas.Series(y).map(by_hand).to_numpy())
    shares = balanced.predict_proba(X)
    np.testing.assert_array_equal(named.predict_proba(X), shares)
    np.testing.assert_array_equal(weighted.predict_proba(X), shares)
    plain = ScaleMixClassifier(**QUICK).fit(X, y)
    assert (shares[:, 1] - plain.predict_proba(X)[:, 1]).mean() > 0.02


def test_what_is_not_there_is_named():
    y = np.where(X[:, 0] > 1, "rare", "common")
    with pytest.raises(ValueError, match=r"no class 'good' in y. There are: 'common', 'rare'"):
        ScaleMixClassifier(class_weight={"good": 3}, **QUICK).fit(X, y)
    for estimator, none in ((ScaleMixClassifier(), y[:0]), (ScaleMixRegressor(), X[:0, 0])):
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            estimator.fit(X[:0], none)


def test_rows_outside_the_training_data_are_said_with_their_columns():
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    fitted = ScaleMixRegressor(**QUICK | {"max_steps": 20}).fit(frame, X[:, 0])
    far = frame.assign(b=frame["b"] + 100)
    with pytest.warns(sx.RangeWarning, match=r"60 of 60 rows lie far outside .*'b' by up to"):
        fitted.predict(far)
    assert (fitted.outside(far).by_row > 5).all()
    # No less noise than at the end of the column, whatever the network says out there.
    at_end = fitted.predict_dist(frame.assign(b=frame["b"].max()))
    assert np.all(fitted.predict_dist(far).aleatoric >= at_end.aleatoric * (1 - 1e-6))
    # None of its own, and none after a round trip.
    pickle.loads(pickle.dumps(fitted)).predict(frame)


def test_what_is_odd_about_rows_is_said_once_for_each_fit_and_set_of_rows(monkeypatch):
    # Where cells far outside are not drawn in, there is more to be said.
    monkeypatch.setattr(Fitted, "to_table", lambda posterior, trials=(): Fitted(posterior, trials))
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y")})
    estimator = ScaleMixRegressor(target="positive", **QUICK)
    fitted = estimator.fit(frame, TARGETS["positive"])
    far = frame.iloc[:8].assign(a=1e4)
    far.loc[3, "b"] = None

    def said(rows, model=fitted):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.predict(rows)
            model.predict_dist(rows).std  # noqa: B018
            model.predict_interval(rows.iloc[:2])
        return [str(warning.message).partition(":")[0] for warning in caught]

    once = said(far)
    # The same of other rows is another remark.
    assert len(once) == len(set(once)) == 4
    assert {line[:8] for line in once} == {"8 of 8 r", "2 of 2 r", "The mean", "Training"}
    assert said(far) == []
    assert len(said(far.assign(a=1.1e4))) == 4
    # Another process, and another fit, know nothing of it.
    assert said(far, pickle.loads(pickle.dumps(fitted))) == once
    estimator.fit(frame, TARGETS["positive"])
    assert len(said(far)) == 4


def test_a_gap_in_a_list_of_words_is_no_word():
    x = np.arange(8.0)[:, None]
    with pytest.raises(ValueError, match="1 of 8 rows have no target"):
        ScaleMixClassifier().fit(x, ["a", float("nan"), *"babab", "a"])


FEW = QUICK | {"max_steps": 5, "bins": None}


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (["a", "b"] * 30, "y is text, such as 'a'.*ScaleMixClassifier predicts classes"),
        ([f"{value}" for value in RATE], "numbers as text.*np.asarray"),
        (
            pandas.Series(["7", "3,5", "1.234,5"] * 20),
            r"numbers with decimal commas, such as '3,5'\. Read .* decimal=',', .* or convert",
        ),
        (pandas.date_range("2024-01-01", periods=60), "y has dates .* Make days of them"),
        (["12%", "3.5%"] * 30, "text that looks like numbers, such as '12%'.*without units"),
    ],
)
def test_text_is_for_the_classifier(y, says):
    with pytest.raises(ValueError, match=says):
        ScaleMixRegressor(**FEW).fit(X, y)


def test_times_that_are_all_one_are_times():
    with pytest.warns(sx.InputWarning, match="y is 1 in every row"):
        check_numbers("time", np.stack([RATE, np.ones(60)], axis=1), None)


def test_whether_times_were_observed_is_no_target():
    both = np.stack([RATE, np.arange(60) % 2], axis=1)
    with pytest.raises(ValueError, match=r"a column of zeros and ones.*censored_times\(times, obs"):
        ScaleMixRegressor(target="time", **FEW).fit(X, both)


def test_numbers_are_for_the_regressor():
    with pytest.raises(ValueError, match=r"Unknown label type.*ScaleMixRegressor predicts numbers"):
        ScaleMixClassifier(**FEW).fit(X, RATE)


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (
            "share",
            1.0,
            r"strictly between zero and one.*\(n - 1\) \+ 0.5\) / n.*makes 0.9917 of it",
        ),
        ("positive", 0.0, "a number above zero"),
        ("count", 0.5, "a whole number from zero"),
    ],
)
def test_numbers_of_another_kind_are_named_by_row_and_kind(kind, value, says):
    y = TARGETS[kind].astype(float)
    y[7] = value
    with pytest.raises(
        ValueError, match=rf"y is {value:g} at row 7, and with target='{kind}'.*{says}"
    ):
        ScaleMixRegressor(target=kind, **FEW).fit(X, y)


def test_where_there_is_nothing_to_learn_it_is_said():
    same, few = "y is 3 in every row", "There are only 2 rows to learn from"
    for y, said in ((np.full(60, 3.0), same), (np.array([-1.0, 2.0]), few)):
        with pytest.warns(sx.InputWarning, match=f"{said}.*nothing"):
            ScaleMixRegressor(**FEW).fit(X[: len(y)], y)


def test_scores_leave_out_rows_without_a_target_as_fits_do():
    y, few = X[:, 0].copy(), slice(1, None)
    y[0] = np.nan
    classes = np.where(np.isnan(y), None, np.where(y > 0, "up", "down"))
    for kind, target in ((ScaleMixRegressor, y), (ScaleMixClassifier, classes)):
        with pytest.warns(sx.InputWarning, match="1 of 60 rows have no target"):
            fitted = kind(missing_target="drop", **FEW).fit(X, target)
        with pytest.warns(sx.InputWarning, match="1 of 60 rows have no target"):
            assert fitted.score(X, target) == fitted.score(X[few], target[few])
        fitted.set_params(missing_target="error")
        with pytest.raises(ValueError, match=r"the first is row 0.*missing_target='drop'"):
            fitted.score(X, target)


def test_errors_on_tables_speak_of_python():
    frame = pandas.DataFrame({"a": [*X[1:, 0], "x"], "k": ["u", "v", "w"] * 20})
    with pytest.raises(ValueError, match=r"row 59, column 'a': 'x' is not a number.*type") as told:
        ScaleMixRegressor(**FEW).fit(frame, X[:, 0])
    assert "--" not in str(told.value)
    assert "--categorical a" in told.value.with_options()
