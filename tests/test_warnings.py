"""Warnings that are given once for the same rows."""

import warnings

import equinox as eqx
import numpy as np
import pytest

from scalemix._warnings import MOST_REMEMBERED, Said, warn


def count(said, message, rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        said.warn(message, UserWarning, rows)
    return len(caught)


def test_same_rows_are_spoken_of_once():
    said, rows = Said(), np.arange(6.0).reshape(2, 3)
    assert [count(said, "odd", rows), count(said, "odd", rows.copy())] == [1, 0]
    # Other rows, or another remark, are something else.
    assert [count(said, "odd", rows + 1), count(said, "even", rows)] == [1, 1]


def test_the_line_of_the_user_is_named_where_equinox_calls_a_method():
    made = {"__name__": "scalemix.made_up", "eqx": eqx, "warn": warn}
    lines = ["class Odd(eqx.Module):", "    def say(self):", "        warn('odd', UserWarning)"]
    exec("\n".join(lines), made)
    with pytest.warns(UserWarning, match="odd") as caught:
        made["Odd"]().say()
    assert caught[0].filename == __file__


def test_only_so_many_remarks_are_remembered():
    said, rows = Said(), np.zeros((1, 1))
    for i in range(MOST_REMEMBERED + 1):
        assert count(said, str(i), rows) == 1
    assert len(said._digests) == MOST_REMEMBERED
    assert count(said, "0", rows) == 1


def test_where_warnings_are_errors_every_call_fails():
    said = Said()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="odd"):
                said.warn("odd", UserWarning, np.zeros(2))
