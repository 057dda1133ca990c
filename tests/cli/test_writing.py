"""Predictions as text."""

import numpy as np
import pytest

from scalemix.cli.writing import to_csv
from scalemix.data.scaling import Scaling


@pytest.mark.parametrize(
    ("mean", "scale", "text"),
    [
        (0.0, 1.0, "0.1234568"),
        (1.7e9, 1e3, "1700000123.456"),
        (np.array([0.0, -1.7e9]), np.array([1.0, 1e3]), "-1700000123.456"),
        (1e300, 1.0, None),
    ],
)
def test_predictions_have_the_digits_that_vary(mean, scale, text):
    """Seven of them, however far the target lies from zero, as long as there are so many."""
    digits = Scaling(np.zeros(1), np.ones(1), mean, scale).digits
    if text is None:
        assert digits == 17
        return
    value = float(text) + (2e-9 if abs(float(text)) < 1 else 2e-6)
    assert to_csv({"prediction": [value]}, digits=digits).splitlines()[1] == text
