"""Conformal intervals and sets of the estimators."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from scalemix.data.preparation import InputWarning
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor

# Somewhat outside the range of 30 rows lie many that are drawn like them.
pytestmark = pytest.mark.filterwarnings("ignore::scalemix.RangeWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.3 * RNG.normal(size=60)
NEW = RNG.normal(size=(40, 3))
QUICK = {"hidden": (8,), "num_members": 1, "temperature": 0.1, "max_steps": 20, "random_state": 0}


def test_intervals_are_those_of_rows_that_the_fit_left_out():
    settings = QUICK | {"noise_floor": 0.1}
    fitted = ScaleMixRegressor(calibration=0.5, **settings).fit(X, Y)
    assert fitted.conformal_.plausibility.shape == (30,)
    lower, upper = fitted.predict_interval(X, 0.9, interval="conformal")
    # All but two of the 30 that calibrated it lie inside, and whatever the fit saw besides.
    assert 28 <= np.sum((lower <= Y) & (upper >= Y)) <= 58
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_interval(X, 0.9, "conformal"), (lower, upper))
    # Rows of one's own do the same, and a smaller network has to be calibrated anew.
    fitted.calibrate(NEW, NEW[:, 0])
    lower, upper = fitted.predict_interval(NEW, 0.8, interval="conformal")
    assert 32 <= np.sum((lower <= NEW[:, 0]) & (NEW[:, 0] <= upper)) <= 34
    fitted.prune()
    with pytest.raises(ValueError, match=r"Pruning dropped the calibration.*calibrate\(X, y\)"):
        fitted.predict_interval(X, interval="conformal")
    fitted.calibrate(NEW, NEW[:, 0]).predict_interval(X, interval="conformal")
    # Zero is none, as on the command line.
    never = clone(fitted).set_params(calibration=0.0).fit(X, Y)
    never.prune()
    with pytest.raises(ValueError, match=r"Nothing is calibrated: fit with calibration=0.2"):
        never.predict_interval(X, interval="conformal")
    never.target = "time"
    with pytest.raises(ValueError, match="not available for times that were not all observed"):
        never.predict_interval(X, interval="conformal")
    with pytest.raises(ValueError, match="interval must be 'posterior' or 'conformal'"):
        fitted.predict_interval(X, interval="bayes")
    for share in (1.0, -0.1, False, 1e-9, "some"):
        with pytest.raises(ValueError, match="calibration"):
            clone(fitted).set_params(calibration=share).fit(X, Y)


def test_times_that_go_on_are_refused_before_the_fit():
    estimator = ScaleMixRegressor(target="time", calibration=0.5, **QUICK)
    with pytest.raises(ValueError, match="not available for times that were not all observed"):
        estimator.fit(X, np.where(X[:, 1] > 0, 1.0, -1.0))
    assert not hasattr(estimator, "posterior_")


def test_too_few_rows_are_said():
    fitted = ScaleMixRegressor(calibration=0.5, **QUICK).fit(X, Y)
    with pytest.warns(InputWarning, match=r"30 rows are too few to be sure of 0\.99: conformal"):
        lower, upper = fitted.predict_interval(X, 0.99, interval="conformal")
    assert np.isinf(lower).all()
    assert np.isinf(upper).all()


def test_sets_are_of_the_classes_by_name():
    labels = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
    fitted = ScaleMixClassifier(calibration=0.5, **QUICK).fit(X, labels)
    sets = fitted.predict_set(X, 0.8)
    with pytest.warns(InputWarning, match=r"rows are too few to be sure of 0\.99: sets .* all"):
        assert fitted.predict_set(X, 0.99).all()
    columns = np.searchsorted(fitted.classes_, labels)
    assert sets.shape == (60, 3)
    assert sets[np.arange(60), columns].mean() > 0.6
    fitted.calibrate(NEW, np.full(40, "low"))
    assert fitted.conformal_.plausibility.shape == (40,)
    with pytest.raises(ValueError, match="classes that fit has not seen: odd"):
        fitted.calibrate(NEW, np.full(40, "odd"))
