"""Ensembles of candidates that held-out rows choose."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm, t

import scalemix as sx
from scalemix import Candidate
from scalemix.fitting import stacking
from scalemix.fitting.mixing import apportion, crossed_cdf, stacking_weights
from scalemix.fitting.trials import shorten
from scalemix.networks import MLP
from scalemix.posterior.calibration import ROWS_BELIEVED, score_spread, tail_probability

KEY = jax.random.key(0)
METHOD = sx.VariationalEM(steps=150, chunk_steps=50)
PRIOR = sx.ARD(sx.InverseGamma(3.0, 3.0))


def data(seed=0, num=80):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num, 2))
    return x, x[:, 0] + 0.1 * rng.normal(size=num)


def candidates(floors=(1e-3, 5.0)):
    network = MLP(2, 2, 8, 1, key=KEY)
    return [
        Candidate(
            sx.Model(network, PRIOR, sx.likelihoods.StudentT(4.0, 6.0, floor=f, per_input=True)),
            METHOD,
        )
        for f in floors
    ]


@pytest.fixture(scope="module")
def stacked():
    return sx.fit_stacked(
        candidates(), *data(), key=KEY, num_members=5, num_trial_members=2, progress=False
    )


def test_weights_are_those_of_a_general_optimiser():
    rng = np.random.default_rng(0)
    log_probs, weight = rng.normal(size=(3, 200)) * 2, rng.uniform(size=200)

    def negative(z):
        shares = np.exp(z) / np.exp(z).sum()
        return -np.sum(weight * np.log(shares @ np.exp(log_probs)))

    best = minimize(negative, np.zeros(3), method="BFGS").x
    expected = np.exp(best) / np.exp(best).sum()
    np.testing.assert_allclose(stacking_weights(log_probs, weight), expected, atol=2e-3)


def test_weights_hold_at_extreme_log_probs():
    log_probs = np.array([[-1e30, -1.0, -2.0], [-5000.0, -900.0, -2.0], [-4000.0, -1e4, -2.0]])
    shares = stacking_weights(log_probs, np.ones(3))
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1)
    # The first row is explained by the third candidate alone, the second by the first.
    assert shares[1] < 0.01


@settings(derandomize=True, max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 40))
def test_members_are_in_proportion(parts, total):
    shares = np.array(parts) + 1e-3
    shares = shares / shares.sum()
    counts = apportion(shares, total)
    assert counts.sum() == total
    assert (np.abs(counts - shares * total) < 1).all()


def test_a_candidate_that_explains_nothing_has_no_members(stacked):
    # The second sees noise of fifty times the true size at least.
    assert stacked.weights[0] > 0.99
    np.testing.assert_array_equal(stacked.num_members, [5, 0])
    assert stacked.scores[0] > stacked.scores[1] + 1
    assert len(stacked.posterior.members) == 5
    assert float(stacked.posterior.model.likelihood.floor) == pytest.approx(1e-3)


def test_held_out_rows_calibrate_the_intervals():
    """Under noise of five times the target's spread quantiles are far too wide."""
    stacked = sx.fit_stacked(
        candidates((5.0, 5.5)), *data(), key=KEY, num_members=5, num_trial_members=2,
        progress=False,
    )  # fmt: skip
    # Twice twenty rows with hardly a spread, and those believed in.
    least = np.sqrt(ROWS_BELIEVED / (40 + ROWS_BELIEVED))
    assert least < stacked.posterior.score_spread < 1.2 * least
    prediction = stacked.posterior.predict(data(seed=7)[0][:8])
    lower, upper = prediction.interval(0.5)
    own = prediction.quantile(0.75) - prediction.quantile(0.25)
    # All members have t(4) noise of all but one scale.
    tail = tail_probability(0.5, stacked.posterior.score_spread)
    np.testing.assert_allclose((upper - lower) / own, t.isf(tail, 4) / t.ppf(0.75, 4), rtol=0.01)
    # An ensemble is calibrated as a whole: its members alone are not.
    assert stacked.posterior.members[0].score_spread == 1.0


def trial(rng, num_rows, deviations):
    """What candidates that err independently say of rows with noise of one, and the targets' cdf.

    Each errs by as much as the noise, and has a view of its own of how much that makes together.
    """
    errors = rng.normal(size=(len(deviations), num_rows))
    targets = rng.normal(size=num_rows)
    scales = deviations[:, None]
    return norm.logpdf(targets, errors, scales), norm.cdf(targets, errors, scales)


def test_no_row_chooses_the_mixture_that_it_is_scored_under():
    rng = np.random.default_rng(0)
    log_prob, cdf = trial(rng, 20, np.array([0.7, 1.0, 1.5]))
    before = crossed_cdf(log_prob, cdf, np.ones(20))
    for row in range(20):
        changed = log_prob.copy()
        # This row alone would now have another candidate.
        changed[:, row] += np.array([30.0, 0.0, -30.0])
        after = crossed_cdf(changed, cdf, np.ones(20))
        assert after[row] == before[row]
        assert not np.allclose(after, before)


def test_calibrated_intervals_cover_what_they_say_though_the_rows_are_few():
    """Calibrated on the rows that chose the mixture they cover 87.5% in place of 90%."""
    rng = np.random.default_rng(0)
    covered, ones = {"crossed": [], "same": []}, np.ones(30)
    for _ in range(40):
        deviations = np.exp(0.3 * rng.normal(size=24))
        log_prob, cdf = trial(rng, 30, deviations)
        shares = stacking_weights(log_prob, ones)
        fresh = shares @ trial(rng, 2000, deviations)[1]
        for name, values in (
            ("crossed", crossed_cdf(log_prob, cdf, ones)),
            ("same", shares @ cdf),
        ):
            tail = tail_probability(0.9, score_spread(values, ones))
            covered[name].append(np.mean((fresh > tail) & (fresh < 1 - tail)))
    error = np.std(covered["crossed"]) / np.sqrt(40)
    # The rows believed in draw every spread to one, which costs some coverage here or wins some.
    assert abs(np.mean(covered["crossed"]) - 0.9) < 4 * error + 0.005
    lost = np.subtract(covered["crossed"], covered["same"])
    assert np.mean(lost) > 4 * np.std(lost) / np.sqrt(40)


def test_trials_are_shorter_than_long_final_fits():
    def steps(share, **length):
        method = sx.VariationalEM(**length)
        return shorten(method, share, method.num_steps(320)).num_steps(240)

    assert steps(0.3, steps=20_000) == 6_000
    assert steps(0.3, steps=4_000) == 1_500
    assert steps(0.3, steps=500) == 500
    # Ten steps an epoch of 320 rows, whatever the number of rows of the trial.
    assert steps(0.5, epochs=1_000) == 5_000
    # One that says nothing of its length has 5,000.
    assert steps(0.3) == 1_500


# Recipes, and estimators of classes, stack them too.
@pytest.mark.slow
def test_classes_are_stacked_and_have_no_intervals_to_calibrate():
    x, y = data()
    models = [
        sx.Model(MLP(2, 2, 8, 1, key=KEY), PRIOR, sx.likelihoods.Categorical(2)) for _ in range(2)
    ]
    methods = [dataclasses.replace(METHOD, temperature=t) for t in (0.1, 30.0)]
    stacked = sx.fit_stacked(
        [Candidate(*pair) for pair in zip(models, methods, strict=True)], x, (y > 0).astype(int),
        key=KEY, num_members=2, num_trial_members=2, progress=False,
    )  # fmt: skip
    assert stacked.scores[0] > stacked.scores[1]
    assert stacked.posterior.score_spread == 1.0
    assert sx.metrics.accuracy(y > 0, stacked.posterior.predict(x).mean) > 0.9


def test_scores_are_on_the_scale_of_the_target(stacked):
    x, y = data()
    scaled = sx.fit_stacked(
        candidates(), x, 10 * y, key=KEY, num_members=5, num_trial_members=2, progress=False
    )
    np.testing.assert_allclose(scaled.scores, stacked.scores - np.log(10), rtol=1e-4)


def test_several_sets_at_once_are_the_same_fits(stacked):
    sets = [data(), data(1)]
    other = jax.random.key(1)
    both = sx.fit_stacked_many(
        [candidates(), candidates()],
        [x for x, _ in sets],
        [y for _, y in sets],
        keys=[KEY, other],
        num_members=5,
        num_trial_members=2,
        progress=False,
    )
    np.testing.assert_allclose(both[0].scores, stacked.scores, rtol=1e-3)
    x = sets[0][0]
    np.testing.assert_allclose(
        both[0].posterior.predict(x).mean, stacked.posterior.predict(x).mean, rtol=1e-2, atol=1e-3
    )


def test_sets_of_several_sizes_hold_out_as_many_parts_as_each_has():
    """A quarter of 43 rows can be held out three times, and one of 60 rows four times."""
    sets = [data(num=43), data(1, num=60)]
    options = [
        Candidate(model, dataclasses.replace(METHOD, steps=40, batch_size=16))
        for model, _ in candidates()
    ]
    keys = jax.random.split(KEY, 2)
    settings = {"num_members": 2, "num_trial_members": 4, "progress": False}
    both = sx.fit_stacked_many(
        [options] * 2, [x for x, _ in sets], [y for _, y in sets], keys=keys, **settings
    )
    for key, (x, y), one in zip(keys, sets, both, strict=True):
        alone = sx.fit_stacked(options, x, y, key=key, **settings)
        np.testing.assert_allclose(one.scores, alone.scores, rtol=1e-4)
        np.testing.assert_allclose(one.weights, alone.weights, rtol=1e-3, atol=1e-4)


def test_too_few_rows_to_hold_out_leave_all_candidates_equal():
    x, y = data(num=12)
    stacked = sx.fit_stacked(candidates(), x, y, key=KEY, num_members=4, progress=False)
    np.testing.assert_allclose(stacked.weights, [0.5, 0.5])
    np.testing.assert_array_equal(stacked.num_members, [2, 2])
    assert np.isnan(stacked.scores).all()


def test_a_finished_run_is_read_back(tmp_path, stacked):
    path = tmp_path / "run"
    arguments = {"key": KEY, "num_members": 5, "num_trial_members": 2, "checkpoint": path}
    first = sx.fit_stacked(candidates(), *data(), **arguments)
    again = sx.fit_stacked(candidates(), *data(), **arguments, resume=True)
    x = data()[0]
    np.testing.assert_array_equal(first.posterior.predict(x).mean, again.posterior.predict(x).mean)
    np.testing.assert_array_equal(
        first.posterior.predict(x).mean, stacked.posterior.predict(x).mean
    )


def test_a_final_file_in_the_way_is_told_before_the_trials(tmp_path, monkeypatch):
    (tmp_path / "run").write_text("of something else")
    monkeypatch.setattr(stacking, "prepare", lambda *_: pytest.fail("data were prepared"))
    with pytest.raises(ValueError, match=r"run exists\. Pass resume=True"):
        sx.fit_stacked(candidates(), *data(), key=KEY, checkpoint=tmp_path / "run")


def test_the_defaults_are_temperatures_by_floors():
    defaults = sx.default_candidates(MLP(2, 2, 8, 1, key=KEY), PRIOR, METHOD)
    pairs = {(c.method.temperature, float(c.model.likelihood.floor)) for c in defaults}
    assert len(pairs) == 6
    classes = sx.default_candidates(
        MLP(2, 3, 8, 1, key=KEY), PRIOR, METHOD, [sx.likelihoods.Categorical(3)]
    )
    assert sorted(c.method.temperature for c in classes) == [0.1, 0.3, 1.0]


def test_bad_arguments_are_refused():
    x, y = data()
    good = candidates()
    ensemble = [Candidate(m, dataclasses.replace(t, num_members=2)) for m, t in good]
    epochs = [Candidate(m, dataclasses.replace(t, steps=None, epochs=9)) for m, t in good]
    with pytest.raises(ValueError, match="Give steps instead of epochs"):
        sx.fit_stacked_many([epochs] * 2, [x, x[:40]], [y, y[:40]], keys=jax.random.split(KEY))
    for options, arguments, reason in [
        ([], {}, "one candidate or more"),
        (ensemble, {}, "leave num_members"),
        (good, {"num_members": 0}, "num_members"),
        (good, {"num_trial_members": 1.5}, "num_trial_members"),
        (good, {"held_out": 1.0}, "held_out"),
        (good, {"trial_share": 0.0}, "trial_share"),
    ]:
        with pytest.raises(ValueError, match=reason):
            sx.fit_stacked(options, x, y, key=KEY, **arguments)


def test_a_warm_up_in_steps_is_the_same_share_of_a_trial():
    method = sx.VariationalEM(steps=20_000, warm_up=4_500)
    short = shorten(method, 0.3, 20_000)
    assert (short.steps, short.warm_up) == (6_000, 1_350)
    assert shorten(dataclasses.replace(method, warm_up=0.2), 0.3, 20_000).warm_up == 0.2
