"""The estimators, as scikit-learn and its users treat them."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import scalemix as sx
from scalemix.analysis.column_relevance import column_relevance
from scalemix.analysis.effects import effect
from scalemix.fitting.recipes import Recipe
from scalemix.fitting.settings import settings_of
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1.0, 100.0, 0.01] + [0.0, 1000.0, 0.0]
Y = 50 + 20 * X[:, 0] + RNG.normal(size=60)
NAMES = np.where(X[:, 0] > 0, "yes", "no")
# Enough for straight lines, and one program for all tests of a kind.
QUICK = {"hidden": (8,), "num_members": 1, "temperature": 0.1, "noise_floor": 0.1,
         "max_steps": 150, "random_state": 0}  # fmt: skip

EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"
EXPECTED = {
    EQUIVALENCE: (
        "Each row of a step has noise of its own, in single precision besides, so that a row "
        "counted twice and one given twice differ by chance. Without that noise, in double "
        "precision, the check passes: see below."
    ),
}


@pytest.fixture(scope="module")
def regressor():
    return ScaleMixRegressor(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return ScaleMixClassifier(**QUICK).fit(X, NAMES)


# Targets of the checks are small whole numbers, which may well be counts, and other rows are
# predicted than were fitted.
AS_CHECKS_ARE = pytest.mark.filterwarnings(
    "ignore::scalemix.InputWarning", "ignore::scalemix.RangeWarning"
)


# The conventions do not depend on the engine. That of noise training compiles in half the time, and
# the checks have tables of a dozen shapes.
NOISE = QUICK | {"inference": "noise", "num_draws": 2}
CHECKED = ScaleMixRegressor(**NOISE), ScaleMixClassifier(**NOISE)


# `make test` runs each check once: all of them with the regressor, and those that only classifiers
# have below. `make test-all` repeats them with the other estimator, and with the other engine.
@AS_CHECKS_ARE
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(CHECKED[0], id="ScaleMixRegressor"),
        pytest.param(CHECKED[1], id="ScaleMixClassifier", marks=pytest.mark.slow),
        pytest.param(ScaleMixRegressor(**QUICK), id="ScaleMixRegressor-em", marks=pytest.mark.slow),
    ],
)
def test_scikit_learn_checks_pass(estimator):
    results = check_estimator(
        estimator, expected_failed_checks=EXPECTED, on_skip=None, on_fail="raise"
    )
    failed = {r["check_name"] for r in results if r["status"] not in ("passed", "skipped")}
    # No more than is explained, and no explanation of what passes.
    assert failed == set(EXPECTED)


@AS_CHECKS_ARE
def test_scikit_learn_checks_of_classifiers_pass():
    of_all, of_classifiers = (
        [(check.func.__name__, check) for _, check in estimator_checks_generator(estimator)]
        for estimator in CHECKED
    )
    own = [check for name, check in of_classifiers if name not in dict(of_all)]
    assert len(own) > 5
    for check in own:
        check(clone(CHECKED[1]))


@AS_CHECKS_ARE
@pytest.mark.parametrize("kind", [ScaleMixRegressor, ScaleMixClassifier])
def test_weights_are_repetitions_where_rows_have_no_noise_of_their_own(kind, float64):
    estimator = kind(
        inference="noise", objective="hierarchical", mixture="inverse-gamma", hidden=(8,),
        num_members=1, max_steps=150,
    )  # fmt: skip
    checks = [
        check
        for _, check in estimator_checks_generator(estimator)
        if check.func.__name__ == EQUIVALENCE
    ]
    assert len(checks) == 1
    checks[0](estimator)


@AS_CHECKS_ARE
def test_few_rows_with_a_weight_are_as_good_as_few_rows():
    weight = np.zeros(300)
    weight[::25] = 1.0
    x = RNG.normal(size=(300, 3))
    y = x[:, 0] + 0.1 * RNG.normal(size=300)
    settings = QUICK | {"bins": 2}
    fitted = ScaleMixRegressor(**settings).fit(x, y, sample_weight=weight)
    alone = ScaleMixRegressor(**settings).fit(x[weight > 0], y[weight > 0])
    np.testing.assert_array_equal(fitted.predict(x), alone.predict(x))


@AS_CHECKS_ARE
def test_columns_far_from_zero_keep_their_digits(regressor):
    far = X + np.array([1e8, -1e10, 1.7e9])
    shifted = clone(regressor).fit(far, Y)
    np.testing.assert_allclose(shifted.predict(far), regressor.predict(X), rtol=1e-3)


def test_a_cell_far_out_is_drawn_in_and_takes_no_other_row_with_it(regressor):
    def with_cell(value):
        return np.where(np.arange(9).reshape(3, 3) == 5, value, X[:3])

    with pytest.warns(sx.RangeWarning, match="1 of 3 rows lies far outside"):
        near, far = (regressor.predict(with_cell(value)) for value in (1e5, 1e30))
    np.testing.assert_allclose(far, near, rtol=1e-3)
    np.testing.assert_allclose(far[[0, 2]], regressor.predict(X[:3])[[0, 2]], rtol=1e-5)


def test_numbers_that_cannot_be_used_are_refused_by_name(regressor, classifier):
    masked = np.ma.masked_equal(X, X[4, 1])
    for call, reason in [
        (lambda: clone(regressor).fit(masked, Y), "X is masked at row 4, column 1"),
        (lambda: clone(regressor).fit(X, np.ma.masked_less(Y, 40)), "y is masked at row"),
        (lambda: clone(classifier).fit(masked, NAMES), "X is masked at row 4, column 1"),
        (lambda: regressor.predict(masked), "X is masked at row 4, column 1"),
        (lambda: clone(regressor).fit(X, Y, ["1"] * 60), "sample_weight must be real numbers"),
        (lambda: clone(regressor).fit(X, Y, np.full(60, 1e300)), "sample_weight adds up to 6e"),
    ]:
        with pytest.raises(ValueError, match=reason):
            call()
    np.testing.assert_array_equal(
        clone(regressor).fit(np.ma.masked_array(X), Y, 1.0).predict(X), regressor.predict(X)
    )


BOTH = np.stack([Y, -1000 * X[:, 0]], axis=1)


def test_gaps_and_text_are_refused_with_a_way_out(regressor):
    gap = np.where(np.arange(3) == 1, np.nan, X[:2])
    for call in (ScaleMixRegressor().fit, lambda x, _: regressor.predict(x)):
        with pytest.raises(ValueError, match=r"X contains NaN\. Fill such .* fit to a data frame"):
            call(gap, Y[:2])
    for call in (regressor.score, regressor.calibrate):
        with pytest.raises(ValueError, match="text that looks like numbers, such as '5%'"):
            call(X[:2], ["5%", "6%"])


def test_several_targets_are_one_fit():
    named = pandas.DataFrame(BOTH, columns=["height", "weight"])
    fitted = ScaleMixRegressor(**QUICK).fit(X, named)
    # The targets go by the names that they came with.
    shown = {"num_values": 3, "num_rows": 4}
    by_name, by_place = (effect(fitted, X, 0, output=of, **shown) for of in ("weight", 1))
    np.testing.assert_array_equal(by_name.mean, by_place.mean)
    with pytest.raises(ValueError, match=r"no output 'age': .* one of the targets 'height', 'wei"):
        effect(fitted, X, 0, output="age", **shown)
    mean, std = fitted.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    lower, upper = fitted.predict_interval(X[:4])
    assert lower.shape == upper.shape == (4, 2)
    assert fitted.score(X, BOTH) > 0.9
    # One relevance for all of them.
    assert fitted.relevance_.shape == (3,)
    assert fitted.relevance_.argmax() == 0
    # A single column is one target, as scikit-learn has it.
    with pytest.warns(UserWarning, match="column-vector"):
        column = ScaleMixRegressor(**QUICK).fit(X, Y[:, None])
    assert column.predict(X).shape == (60,)


@pytest.mark.slow
def test_held_out_rows_calibrate_each_of_several_targets():
    settings = QUICK | {"noise_floor": "auto", "num_trial_members": 1}
    fitted = ScaleMixRegressor(**settings).fit(X, BOTH)
    assert {trial.noise_floor for trial in fitted.trials_} == {1e-3, 0.1}
    assert np.isfinite([trial.score for trial in fitted.trials_]).all()
    assert fitted.posterior_.score_spread.shape == (2,)
    lower, upper = fitted.predict_interval(X)
    assert (lower < upper).all()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_interval(X)[0], lower)


def test_constructors_take_the_settings_of_a_recipe():
    settings = ScaleMixRegressor().get_params()
    own = {"bins", "calibration", "missing_target", "random_state", "verbose"}
    recipe = Recipe()
    assert {name: value for name, value in settings.items() if name not in own} == {
        name: getattr(recipe, name) for name in settings_of(Recipe) if name != "task"
    }
    classes = ScaleMixClassifier().get_params()
    assert (settings.pop("target"), classes.pop("class_weight")) == ("real", None)
    assert classes == settings


def test_predictions_are_those_of_the_posterior(regressor):
    x, y = X[:4], Y[:4]
    predictive = regressor.posterior_.predict(x)
    mean, std = regressor.predict(x, return_std=True)
    np.testing.assert_array_equal(mean, predictive.mean)
    np.testing.assert_array_equal(regressor.predict(x), mean)
    np.testing.assert_array_equal(std, predictive.std)
    lower, upper = regressor.predict_interval(x, coverage=0.5)
    np.testing.assert_array_equal((lower, upper), predictive.interval(0.5))
    ends = regressor.predict(x, quantiles=[0.25, 0.75])
    np.testing.assert_array_equal(ends, np.stack([lower, upper], axis=1))
    # An estimator has rows first; a distribution has levels first, as numpy does.
    np.testing.assert_array_equal(ends.T, predictive.quantile([0.25, 0.75]))
    with pytest.raises(ValueError, match="return_std or for quantiles"):
        regressor.predict(x, return_std=True, quantiles=[0.5])
    # As with numpy's, one level has no axis.
    np.testing.assert_allclose(regressor.predict(x, quantiles=0.25), ends[:, 0], rtol=1e-5)
    wide = regressor.predict_interval(x)
    np.testing.assert_array_equal(wide, predictive.interval(0.9))
    dist = regressor.predict_dist(x)
    assert isinstance(dist, sx.Predictive)
    np.testing.assert_array_equal(dist.log_prob(y), predictive.log_prob(y))
    # Inputs of three scales, a target far from zero: scaled inside.
    assert regressor.score(X, Y) > 0.9


def test_classes_come_back_as_they_were(classifier):
    assert classifier.classes_.tolist() == ["no", "yes"]
    assert classifier.score(X, NAMES) > 0.9
    shares = classifier.predict_proba(X)
    np.testing.assert_allclose(shares, classifier.posterior_.predict(X).mean, atol=1e-6)
    np.testing.assert_array_equal(classifier.predict(X), np.array(["no", "yes"])[shares.argmax(1)])
    with pytest.raises(ValueError, match=r"one class only, .*'no'"):
        ScaleMixClassifier(**QUICK).fit(X, np.full(60, "no"))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        ScaleMixClassifier(**QUICK).fit(X, Y)


def test_relevance_is_that_of_the_posterior(regressor):
    relevance = regressor.posterior_.relevance()
    np.testing.assert_allclose(regressor.relevance_, relevance.inputs, rtol=1e-6)
    assert regressor.relevance_.shape == (3,)
    # The target is made of the first column.
    assert regressor.relevance_.argmax() == 0
    assert regressor.effective_width_.tolist() == list(relevance.effective_width.values())
    assert len(regressor.effective_width_) == 1
    assert regressor.effective_depth_ == relevance.effective_depth


def test_nothing_is_known_before_a_fit():
    estimator = ScaleMixRegressor()
    for ask in (
        lambda: estimator.predict(X),
        lambda: estimator.relevance_,
        lambda: estimator.effective_width_,
        lambda: estimator.effective_depth_,
        lambda: estimator.prune(),
        lambda: estimator.predict_interval(X),
        lambda: estimator.encode(X),
    ):
        with pytest.raises(NotFittedError):
            ask()


def test_bad_settings_are_refused_by_fit():
    with pytest.raises(ValueError, match="prior must be one of"):
        ScaleMixRegressor(prior="ARD").fit(X, Y)
    with pytest.raises(ValueError, match="no closed-form update"):
        ScaleMixClassifier(mixture="bernoulli").fit(X, NAMES)
    with pytest.raises(ValueError, match="bins must be"):
        ScaleMixRegressor(bins=1).fit(X, Y)
    with pytest.raises(ValueError, match="none may be negative"):
        ScaleMixRegressor(bins=8).fit(X, Y, sample_weight=-np.ones(60))


def test_bins_let_networks_bend_and_columns_stay_columns(regressor):
    # Up and down by quarters of the rows: a small network makes little of it in so few steps, and
    # with bins nearly all (.4 and .9 or more, whatever the seed).
    stairs = np.floor(4 * np.argsort(np.argsort(X[:, 1])) / 60) % 2
    plain = ScaleMixRegressor(**QUICK).fit(X, stairs)
    binned = ScaleMixRegressor(**QUICK | {"bins": 8}).fit(X, stairs)
    assert binned.score(X, stairs) > plain.score(X, stairs) + 0.2
    assert binned.n_features_in_ == 3
    assert [len(edges) for edges in binned.bin_edges_] == [9, 9, 9]
    encoded = binned.encode(X)
    assert encoded.shape == (60, 3 + 3 * 8)
    np.testing.assert_array_equal(binned.predict(X), binned.posterior_.predict(encoded).mean)
    # A column's share is that of all that was made of it together.
    columns = [[i, *range(3 + 8 * i, 11 + 8 * i)] for i in range(3)]
    expected = column_relevance(binned.posterior_, encoded, columns)
    np.testing.assert_allclose(binned.relevance_, expected)
    assert binned.relevance_.argmax() == 1
    # A column of noise with many bins does not outdo one that matters.
    flags = np.where(X[:, 0] > 0, 1.0, 0.0)
    few = ScaleMixRegressor(**QUICK | {"bins": 8}).fit(np.stack([flags, X[:, 1]], axis=1), flags)
    assert few.relevance_.argmax() == 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(binned)).predict(X), binned.predict(X))
    binned.prune(X)
    assert binned.relevance_.shape == (3,)
    np.testing.assert_array_equal(regressor.encode(X), X)


def test_pickles_predict_the_same_in_another_process(regressor, classifier, tmp_path):
    for estimator in (regressor, classifier, clone(regressor)):
        again = pickle.loads(pickle.dumps(estimator))
        assert again.get_params() == estimator.get_params()
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(classifier)).predict_proba(X), classifier.predict_proba(X)
    )
    state = regressor.__getstate__()
    damaged = state | {"posterior_": state["posterior_"][:-4]}
    with pytest.raises(ValueError, match="The posterior cannot be loaded: it is damaged or cut"):
        clone(regressor).__setstate__(damaged)
    path = tmp_path / "estimator.joblib"
    joblib.dump((regressor, X), path)
    script = (
        "import joblib, sys, numpy as np; estimator, x = joblib.load(sys.argv[1]); "
        "np.save(sys.argv[2], estimator.predict_interval(x))"
    )
    out = tmp_path / "intervals.npy"
    subprocess.run([sys.executable, "-c", script, str(path), str(out)], check=True, timeout=300)
    np.testing.assert_array_equal(np.load(out), regressor.predict_interval(X))


def test_the_random_state_is_all_randomness(regressor):
    again, other = (clone(regressor).set_params(random_state=seed).fit(X, Y) for seed in (0, 1))
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))
    assert not np.allclose(other.predict(X), regressor.predict(X))


def test_sample_weights_count_rows():
    # Two lines in one table: whoever has the weight is believed.
    x = np.concatenate([X, X])
    y = np.concatenate([Y, 100 - Y])
    first = ScaleMixRegressor(**QUICK).fit(x, y, sample_weight=np.repeat([1.0, 0.0], 60))
    second = ScaleMixRegressor(**QUICK).fit(x, y, sample_weight=np.repeat([0.0, 1.0], 60))
    assert first.score(X, Y) > 0.9
    assert second.score(X, 100 - Y) > 0.9


def test_searches_and_cross_validation(regressor):
    pipeline = make_pipeline(StandardScaler(), clone(regressor))
    search = GridSearchCV(
        pipeline, {"scalemixregressor__learning_rate": [1e-2, 1e-9]}, cv=2, error_score="raise"
    ).fit(X, Y)
    assert search.best_params_ == {"scalemixregressor__learning_rate": 1e-2}
    assert (cross_val_score(clone(regressor), X, Y, cv=2, error_score="raise") > 0.8).all()


# Another process is asked for its predictions above; two of these take long to start.
@pytest.mark.slow
def test_processes_cross_validate_as_one_does(regressor):
    alone, together = (
        cross_val_score(clone(regressor), X, Y, cv=2, n_jobs=num, error_score="raise")
        for num in (1, 2)
    )
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_feature_names_are_kept():
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    estimator = ScaleMixRegressor(**QUICK).fit(frame, pandas.Series(Y))
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    assert estimator.n_features_in_ == 3
    assert estimator.predict(frame).shape == (60,)
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(frame[["c", "b", "a"]])
    with pytest.raises(ValueError, match="could not convert string to float"):
        estimator.predict(frame.assign(b="text"))


def test_verbose_shows_a_bar(capsys):
    clone(ScaleMixRegressor(**QUICK)).set_params(verbose=True).fit(X, Y)
    assert "150/150" in capsys.readouterr().err
    ScaleMixRegressor(**QUICK).fit(X, Y)
    assert capsys.readouterr().err == ""


def test_a_generator_may_be_the_random_state():
    generator = np.random.RandomState(0)
    first = ScaleMixRegressor(**QUICK | {"random_state": generator}).fit(X, Y)
    second = ScaleMixRegressor(**QUICK | {"random_state": generator}).fit(X, Y)
    assert not np.array_equal(first.predict(X), second.predict(X))


def test_pruning_leaves_a_smaller_estimator(regressor):
    estimator = pickle.loads(pickle.dumps(regressor))
    before = estimator.predict(X)
    report = estimator.prune(X, threshold=np.inf, tolerance=0.5)
    assert report.num_parameters[1] < report.num_parameters[0]
    # By column, and what is gone once is not told again.
    away = [i for i, place in enumerate(estimator.encoder_.places)
            if set(place) <= set(report.inputs_off)]  # fmt: skip
    assert report.columns_off == tuple(f"column {i}" for i in away)
    assert "inputs not read" not in str(report)
    assert not set(estimator.prune().columns_off) & set(report.columns_off)
    first, second = (e.posterior_.model.weights["first"] for e in (regressor, estimator))
    assert second.size < first.size
    assert 0 < np.abs(estimator.predict(X) - before).max() <= 0.5 * before.std() + 1e-3
    # What is pruned is saved and pickled like anything else.
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.predict(X), estimator.predict(X))


def test_classes_whose_temperature_is_chosen():
    model = ScaleMixClassifier(
        **QUICK | {"temperature": "auto", "num_members": 2, "num_trial_members": 1}
    ).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.9
    assert [trial.bins for trial in model.trials_] == [True] * 3 + [False] * 3
