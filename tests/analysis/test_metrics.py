import numpy as np
import pytest
import scipy.stats as st
from sklearn.metrics import brier_score_loss

from scalemix.analysis import metrics

RNG = np.random.default_rng(0)


def test_errors():
    y, mean = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    assert metrics.rmse(y, mean) == pytest.approx(np.sqrt(5 / 3))
    assert metrics.mae(y, mean) == pytest.approx(1.0)
    assert metrics.paper_rmse([0.5, 1.5]) == 1.0
    assert metrics.log_likelihood([-1.0, -3.0]) == -2.0


def test_crps_is_that_of_the_distribution():
    y = np.array([0.3, -2.0])
    samples = RNG.normal(1.0, 2.0, size=(200_000, 2))
    z = (y - 1.0) / 2.0
    closed = 2.0 * (z * (2 * st.norm.cdf(z) - 1) + 2 * st.norm.pdf(z) - 1 / np.sqrt(np.pi))
    # The spread of |X - y| bounds that of the estimate.
    assert metrics.crps(y, samples) == pytest.approx(closed.mean(), abs=4 * 2.0 / np.sqrt(200_000))


def test_crps_equals_the_double_sum():
    y, x = RNG.normal(size=3), RNG.normal(size=(7, 3))
    pairs = np.abs(x[:, None] - x[None]).sum(axis=(0, 1)) / (7 * 6)
    expected = np.mean(np.abs(x - y).mean(axis=0) - 0.5 * pairs)
    assert metrics.crps(y, x) == pytest.approx(expected)


def test_intervals():
    y, ends = np.array([0.0, 1.0, 5.0]), (np.array([-1.0, 1.0, 0.0]), np.array([1.0, 2.0, 3.0]))
    assert metrics.interval_coverage(y, ends) == pytest.approx(2 / 3)
    assert metrics.interval_width(ends) == pytest.approx(2.0)


def test_calibration_error_vanishes_for_uniform_values():
    uniform = (np.arange(10_000) + 0.5) / 10_000
    assert metrics.calibration_error(uniform) < 1e-3
    assert metrics.calibration_error(0.5 + 0.1 * (uniform - 0.5)) > 0.2


def test_classes():
    labels = RNG.integers(0, 2, size=50)
    p = RNG.uniform(size=50)
    both = np.stack([1 - p, p], axis=1)
    assert metrics.accuracy(labels, p) == np.mean((p > 0.5) == labels)
    assert metrics.brier(labels, both) == pytest.approx(2 * brier_score_loss(labels, p))
    assert metrics.brier(labels, p) == metrics.brier(labels, both)


def test_expected_calibration_error():
    confident = np.full((100, 2), [0.8, 0.2])
    assert metrics.expected_calibration_error(np.repeat([0, 1], [80, 20]), confident) < 1e-12
    assert metrics.expected_calibration_error(np.ones(100), confident) == pytest.approx(0.8)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="Shapes differ"):
        metrics.rmse(np.zeros(3), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="no rows"):
        metrics.rmse([], [])
    with pytest.raises(ValueError, match="two samples or more"):
        metrics.crps(np.zeros(3), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="whole numbers"):
        metrics.accuracy([0.5, 1], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="One label a row"):
        metrics.accuracy([0, 1], np.zeros((3, 2)))
