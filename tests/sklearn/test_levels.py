"""Columns of many words, whose weights networks look up."""

import pickle
import warnings

import jax
import numpy as np
import pandas as pd
import pytest

from scalemix import RangeWarning
from scalemix.analysis.effects import effect, permutation_importance
from scalemix.networks import ColumnLinear, ColumnReader
from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor, TableEncoder

SETTINGS = {
    "hidden": (16,), "max_steps": 800, "batch_size": 64, "num_members": 2, "temperature": 0.5,
    "noise_floor": 0.1, "random_state": 0,
}  # fmt: skip
NUM, RARE, NUM_LEVELS = 1200, 75, 80
RNG = np.random.default_rng(0)
EFFECTS = RNG.normal(size=NUM_LEVELS)
# Five of the levels are in one row each, and far from the mean of the others.
EFFECTS[RARE:] = 2.5
LEVEL = np.concatenate([RNG.integers(RARE, size=NUM - 5), np.arange(RARE, NUM_LEVELS)])
SIZE = RNG.normal(size=NUM)
FRAME = pd.DataFrame(
    {"size": SIZE, "town": [f"t{i:02d}" for i in LEVEL], "new": RNG.random(NUM) < 0.5}
)
Y = EFFECTS[LEVEL] + SIZE + 0.3 * RNG.normal(size=NUM)


@pytest.fixture(scope="module", autouse=True)
def few_are_many():
    """So that a small table has a column of many words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scalemix.tables.learning.FEW_LEVELS", 64)
        # What the prior alone says of levels that were not seen.
        patch.setattr("scalemix.fitting.unknown_levels.MOST_SHARE", 0.0)
        yield


@pytest.fixture(scope="module")
def fitted():
    return ScaleMixRegressor(**SETTINGS).fit(FRAME, Y)


@pytest.fixture(scope="module")
def one_hot():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scalemix.tables.learning.FEW_LEVELS", NUM_LEVELS)
        return ScaleMixRegressor(**SETTINGS).fit(FRAME, Y)


def at(model, town):
    """The predictions of some rows if they were of that town, without what size does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RangeWarning)
        there = model.predict_dist(FRAME[:100].assign(town=town))
    return np.mean(there.mean - SIZE[:100]), np.mean(there.epistemic)


def test_a_column_of_many_words_is_one_input(fitted, one_hot):
    assert fitted.encode(FRAME).shape == (NUM, 5)
    assert fitted.encoder_.layout.levels.tolist() == [0, NUM_LEVELS + 1, 0, 0, 0]
    assert isinstance(fitted.posterior_.model.network.first, ColumnReader)
    assert one_hot.encode(FRAME).shape == (NUM, NUM_LEVELS + 5)
    assert isinstance(one_hot.posterior_.model.network.first, ColumnLinear)


def test_both_encodings_say_the_same(fitted, one_hot):
    """They are one model, from other starts."""
    ours, theirs = fitted.predict(FRAME), one_hot.predict(FRAME)
    assert np.std(ours - theirs) < 0.1 * np.std(Y)
    np.testing.assert_allclose(np.std(ours - Y), np.std(theirs - Y), rtol=0.1)


def test_rare_levels_shrink_and_unseen_ones_are_less_sure(fitted, one_hot):
    for model in (fitted, one_hot):
        frequent = [at(model, f"t{i:02d}") for i in range(0, RARE, 5)]
        means, spreads = np.transpose(frequent)
        assert np.corrcoef(means, EFFECTS[:RARE:5])[0, 1] > 0.95
        rare, of_rare = np.mean([at(model, f"t{i:02d}") for i in range(RARE, NUM_LEVELS)], axis=0)
        # One row speaks for each: it is believed in part.
        assert 0.1 < rare < 2.0
        unseen, of_unseen = at(model, "zz")
        assert abs(unseen) < 0.5
        assert min(of_rare, of_unseen) > 1.5 * np.mean(spreads)
    np.testing.assert_allclose(at(fitted, "zz")[1], at(one_hot, "zz")[1], rtol=0.25)


def test_weights_of_unseen_levels_have_the_spread_of_the_prior(fitted):
    """Nothing but the prior speaks of them, whose scale is that of all levels of the column."""
    for member in fitted.posterior_.members:
        moments = member.networks.weight_moments()["first.tables.0"]
        mean, variance, prior = (np.asarray(part)[-1] for part in moments[:3])
        np.testing.assert_allclose(variance, prior, rtol=0.3)
        assert np.mean(mean**2) < 0.1 * np.mean(prior)


def test_networks_learn_how_far_unseen_levels_may_be(monkeypatch):
    """Half of the levels are in one row, so that some rows stand for levels never seen."""
    num_often = NUM_LEVELS // 2
    level = np.concatenate(
        [RNG.integers(num_often, size=NUM - num_often), np.arange(num_often, 80)]
    )
    frame = FRAME.assign(town=[f"t{i:02d}" for i in level])
    effects = RNG.normal(size=NUM_LEVELS)
    y = effects[level] + SIZE + 0.3 * RNG.normal(size=NUM)

    def spreads(share):
        monkeypatch.setattr("scalemix.fitting.unknown_levels.MOST_SHARE", share)
        model = ScaleMixRegressor(**SETTINGS).fit(frame, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RangeWarning)
            of_unseen = model.predict_dist(FRAME[:200].assign(town="zz")).std
        return np.mean(of_unseen), np.mean(model.predict_dist(frame[:200]).std)

    # That of effects and noise together; the spread of forty effects is known to a tenth or so.
    right = np.hypot(effects.std(), 0.3)
    unseen, seen = spreads(0.05)
    np.testing.assert_allclose(unseen, right, rtol=0.3)
    assert seen < 0.6 * right
    assert spreads(0.0)[0] < unseen


def test_unknown_words_and_gaps_are_said(fitted):
    new = FRAME[:3].assign(town=["zz", "t00", None])
    with pytest.warns() as caught:
        mean = fitted.predict(new)
    assert np.isfinite(mean).all()
    said = " ".join(str(each.message) for each in caught)
    assert "'town' has the unknown 'zz' (1 row)" in said
    assert "'town': 1 missing, taken as a word that is not known" in said
    np.testing.assert_array_equal(fitted.outside(new).by_row, [1, 0, 0])


def test_all_that_follows_from_a_fit_works(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(FRAME), fitted.predict(FRAME))
    estimate = effect(fitted, FRAME, "town", num_rows=5)
    assert len(estimate.grids[0]) == 20
    rise = permutation_importance(
        fitted, FRAME[:200], Y[:200], num_shuffles=2, key=jax.random.key(0)
    ).rise
    assert rise.argmin() == 2
    assert rise[1] > 0.2
    # To the posterior a word is a position.
    (positions,) = effect(fitted.posterior_, fitted.encode(FRAME), 1, num_rows=5).grids
    assert len(positions) == 20
    assert set(positions) <= set(fitted.encode(FRAME)[:, 1])
    before = at(again, "zz")
    report = again.prune(FRAME)
    assert report.mean_change < 0.3
    # No level is taken for known that is not.
    np.testing.assert_allclose(at(again, "zz")[1], before[1], rtol=0.3)
    assert isinstance(
        pickle.loads(pickle.dumps(again)).posterior_.model.network.first, ColumnReader
    )


def test_relevance_of_a_column_counts_all_its_levels(fitted):
    """Whether a town is there varies by p (1 - p), and so does its part of what a unit receives."""
    shares, new = np.bincount(LEVEL) / NUM, FRAME["new"].mean()
    variances = np.array([1.0, np.sum(shares * (1 - shares)), 2 * new * (1 - new)])
    expected = []
    for member in fitted.posterior_.members:
        scales = member.networks.weight_moments()
        dense, table = (
            np.asarray(scales[f"first.{name}"].prior_variance) for name in ("dense", "tables.0")
        )
        np.testing.assert_allclose(table, table[0, 0], rtol=1e-6)
        parts = np.array([dense[0, 0], table[0, 0], dense[0, 1]]) * variances
        expected.append(parts / parts.sum())
    np.testing.assert_allclose(fitted.relevance_, np.mean(expected, axis=0), rtol=1e-4)


@pytest.mark.parametrize("how", [{"inference": "noise"}, {"mixture": "inverse-gamma"}])
def test_other_fits_have_an_input_for_each_word(how):
    quick = SETTINGS | {"max_steps": 2} | how
    model = ScaleMixRegressor(**quick).fit(FRAME, Y)
    assert model.encode(FRAME).shape == (NUM, NUM_LEVELS + 5)
    assert not model.encoder_.layout.levels.any()


def test_the_public_encoder_gives_zeros_and_ones(fitted):
    encoder = TableEncoder().fit(FRAME)
    x = encoder.transform(FRAME)
    assert x.shape == (NUM, NUM_LEVELS + 5)
    assert set(np.unique(x[:, 1:])) == {0.0, 1.0}


def test_held_out_rows_decide_on_bins_beside_a_table():
    settings = SETTINGS | {"max_steps": 4, "temperature": "auto", "num_trial_members": 1}
    model = ScaleMixClassifier(**settings, bins=3).fit(FRAME, Y > 0)
    layout, network = model.encoder_.layout, model.posterior_.model.network
    assert not layout.optional.any()
    assert network.first.dense.on.shape[-1] == len(layout.columns) - 1
    chosen = ScaleMixClassifier(**settings).fit(FRAME, Y > 0)
    layout = chosen.encoder_.layout
    assert layout.optional.any()
    assert {trial.bins for trial in chosen.trials_} == {True, False}
    for member in chosen.posterior_.members:
        reads = np.asarray(member.model.network.first.reads)
        assert reads.all() or (reads == ~layout.optional).all()
