"""What counts as a number, and what is said of those that do not."""

import math

import numpy as np
import pytest

from scalemix.data.values import (
    check_classes,
    check_table,
    count_classes,
    first_place,
    is_finite,
    is_number,
    is_whole,
)


@pytest.mark.parametrize(
    ("value", "whole", "number", "finite"),
    [
        (3, True, True, True),
        (np.int8(3), True, True, True),
        (10**400, True, True, False),
        (0.5, False, True, True),
        (np.float32(0.5), False, True, True),
        (math.inf, False, True, False),
        (math.nan, False, True, False),
        (True, False, False, False),
        (np.bool_(True), False, False, False),
        ("3", False, False, False),
        (None, False, False, False),
        (1j, False, False, False),
    ],
)
def test_truth_values_and_text_are_no_numbers(value, whole, number, finite):
    assert (is_whole(value), is_number(value), is_finite(value)) == (whole, number, finite)


def test_places_are_rows_and_columns():
    assert first_place(np.array([False, True, True])) == "row 1"
    assert first_place(np.eye(3)[::-1] > 0) == "row 0, column 2"
    assert first_place(np.zeros(3, bool)) == ""


def test_classes_are_counted_or_given():
    assert count_classes([0, 2, 1], None) == 3
    assert count_classes([0, 1], 5) == 5
    with pytest.raises(ValueError, match="holds the class 2, and num_classes=2"):
        count_classes([0, 2], 2)
    with pytest.raises(ValueError, match="one class only, 'a'"):
        check_classes(["a"])


def test_a_table_has_rows_and_columns():
    assert check_table(np.zeros((3, 2))) == (3, 2)
    for shape in ((3,), (0, 2), (3, 0), (3, 2, 1)):
        with pytest.raises(ValueError, match=r"x must be a table.*got the shape"):
            check_table(np.zeros(shape))
