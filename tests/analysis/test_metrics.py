import itertools

import numpy as np
import pytest
import scipy.stats as st
from sklearn.metrics import brier_score_loss, precision_recall_fscore_support, roc_auc_score

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
    assert metrics.brier(labels, both) == pytest.approx(brier_score_loss(labels, p))
    assert metrics.brier(labels, p) == metrics.brier(labels, both)


def test_classes_are_told_apart_as_scikit_learn_counts_it():
    labels, raw = RNG.integers(0, 3, size=80), RNG.uniform(size=(80, 3)).round(1) + 0.01
    p = raw / raw.sum(axis=1, keepdims=True)
    areas = [roc_auc_score(labels == i, p[:, i]) for i in range(3)]
    assert metrics.auc(labels, p) == pytest.approx(np.mean(areas))
    assert np.isnan(metrics.auc([1, 1], [0.2, 0.7]))
    scores = metrics.by_class(labels, p)
    precision, recall, _, rows = precision_recall_fscore_support(labels, p.argmax(axis=1))
    np.testing.assert_allclose(scores.precision, precision)
    np.testing.assert_allclose(scores.recall, recall)
    np.testing.assert_array_equal(scores.num_rows, rows)
    absent = metrics.by_class([0, 0], [[0.9, 0.1], [0.8, 0.2]])
    assert np.isnan(absent.precision[1])
    assert np.isnan(absent.recall[1])


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


def test_concordance_counts_pairs_of_which_the_longer_is_known():
    y = np.array([3.0, -3.0, 5.0, -4.0, 1.0, 2.0, -0.5])
    predicted = np.array([2.0, 2.5, 2.0, 1.0, 0.5, 3.0, 9.0])
    agree = []
    for i, j in itertools.permutations(range(len(y)), 2):
        # Row j outlasts row i, which ended.
        if y[i] > 0 and (abs(y[j]) > y[i] or (abs(y[j]) == y[i] and y[j] < 0)):
            agree.append(np.sign(predicted[j] - predicted[i]) / 2 + 0.5)
    assert metrics.concordance(y, predicted) == pytest.approx(np.mean(agree))
    # Of times of two lengths that all ended it is the AUC.
    lengths, scores = RNG.integers(1, 3, 60), RNG.normal(size=60).round(1)
    area = metrics.auc(lengths - 1, np.clip(scores / 20 + 0.5, 0, 1))
    assert metrics.concordance(lengths, scores) == pytest.approx(area)
    # A target of which nothing is known does not count.
    both = np.stack([y, -np.abs(y)], axis=1), np.stack([predicted, predicted], axis=1)
    assert metrics.concordance(*both) == pytest.approx(np.mean(agree))
    assert np.isnan(metrics.concordance(-np.ones(3), np.ones(3)))
