"""Effects against a network that is known, and importance of columns that matter or do not."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pandas
import polars
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

import scalemix as sx
from scalemix.analysis import plots
from scalemix.analysis.effects import (
    Effect,
    Importance,
    effect,
    grid_of,
    permutation_importance,
    strongest_pair,
)
from scalemix.analysis.frames import column_of, replaced
from scalemix.analysis.importance import RMSE, _risen
from scalemix.analysis.input_effects import Setting, effects_of_inputs
from scalemix.data.scaling import UNSCALED, Scaling
from scalemix.posterior.history import History
from scalemix.posterior.networks import Ensemble, OneNetwork

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))


class Known(eqx.Module):
    """`slope * a + b * c`, of which the members of an ensemble have slopes of their own."""

    layer: eqx.nn.Linear

    def __call__(self, x):
        return self.layer(x)[0] + x[1] * x[2]


def posterior(slopes, scaling=Scaling(np.zeros(0), np.ones(0), 10.0, 2.0)):  # noqa: B008
    layer = eqx.nn.Linear(3, 1, use_bias=False, key=KEY)
    models = [
        sx.Model(
            Known(eqx.tree_at(lambda n: n.weight, layer, jnp.array([[slope, 0.0, 0.0]]))),
            sx.ARD(sx.HalfCauchy(1.0)),
            sx.likelihoods.Gaussian(0.1),
        )
        for slope in slopes
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(OneNetwork, models))
    num = len(slopes)
    history = History(np.zeros((num, 1)), np.zeros((num, 1)), np.zeros((num, 1)))
    return sx.Posterior(Ensemble(stacked, num), scaling, history, KEY)


@pytest.fixture(scope="module")
def known():
    return posterior([1.0, 2.0, 3.0])


def test_the_effect_is_the_mean_over_rows_and_its_band_that_over_draws(known):
    estimate = effect(known, X, 0, num_values=5, probability=0.999)
    (grid,) = estimate.grids
    np.testing.assert_allclose(grid, np.quantile(X[:, 0], np.linspace(0.05, 0.95, 5)))
    rest = np.mean(X[:, 1] * X[:, 2])
    np.testing.assert_allclose(estimate.mean, 10 + 2 * (2 * grid + rest), rtol=1e-4)
    # The band runs from the least slope to the largest, in units of the target.
    least = np.minimum(1 * grid, 3 * grid)
    np.testing.assert_allclose(estimate.lower, 10 + 2 * (least + rest), rtol=1e-2, atol=1e-2)
    own = 10 + 2 * (2 * grid[None] + (X[:, 1] * X[:, 2])[:, None])
    np.testing.assert_allclose(estimate.individual, own, rtol=1e-4, atol=1e-4)


def test_columns_that_act_together_are_found(known):
    pair = strongest_pair(known, X, num_values=5)
    assert pair.columns == (1, 2)
    grid_b, grid_c = effect(known, X, pair, num_values=5).grids
    product = np.outer(grid_b - grid_b.mean(), grid_c - grid_c.mean())
    assert pair.strength == pytest.approx(2 * np.std(product), rel=1e-3)
    with pytest.raises(ValueError, match="needs two columns"):
        strongest_pair(known, X[:, :1])


def test_importance_is_zero_for_a_column_that_is_not_read(known):
    y = known.predict(X).mean
    seeing = permutation_importance(known, X, y, num_shuffles=3, key=KEY)
    assert seeing.loss[0] > 3 * seeing.error[0] > 0
    assert (seeing.loss > 0).all()
    blind = permutation_importance(posterior([0.0]), X, y, num_shuffles=2, key=KEY)
    assert blind.loss[0] == blind.error[0] == 0
    both = permutation_importance(known, X, y, groups=[[0], [1, 2]], num_shuffles=3, key=KEY)
    assert both.loss.shape == (2,)
    assert both.loss[0] == seeing.loss[0]


def test_the_rise_of_the_error_is_its_definition(known):
    y = X[:, 0]
    ((seed,),) = np.asarray(jax.random.bits(KEY, (1, 1))).tolist()
    importance = permutation_importance(known, X, y, groups=[[0]], num_shuffles=1, key=KEY)
    table = X.copy()
    table[:, 0] = X[np.random.default_rng(seed).permutation(len(X)), 0]
    before, after = (sx.metrics.rmse(y, known.predict(x).mean) for x in (X, table))
    assert importance.measure == "RMSE"
    assert importance.rise[0] == pytest.approx(after - before, rel=1e-5)


def test_the_standard_error_of_the_rise_is_that_of_other_rows():
    """Rows drawn anew, shuffles that agree: rises spread as the standard error says."""
    rng = np.random.default_rng(0)

    def drawn():
        before = rng.gamma(2.0, size=200)
        return _risen(before, np.tile(before + rng.gamma(1.0, size=200), (3, 1)), RMSE, (0.0, 0.0))

    rises, errors = np.array([drawn() for _ in range(400)]).T
    # The spread of 400 draws is known to one in 28.
    assert np.mean(errors) == pytest.approx(np.std(rises), rel=4 / 28)


def test_what_one_row_decides_does_not_come_first():
    importance = Importance(
        loss=np.array([9.0, 0.5, 0.1]), error=np.array([8.0, 0.1, 0.1]),
        rise=np.array([2.0, 0.5, 0.8]), rise_error=np.array([1.9, 0.1, 0.1]), measure="RMSE",
    )  # fmt: skip
    assert importance.order.tolist() == [2, 1, 0]
    ax = plots.importance(importance, ["outlier", "b", "c"])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["c", "b", "outlier"]
    assert ax.get_xlabel() == "rise of the RMSE when shuffled"
    plt.close("all")


class RemarkingClassifier:
    """An estimator of two classes that has remarks on every row, as those of tables may have."""

    classes_ = np.array(["no", "yes"])
    feature_names_in_ = np.array(["a", "b", "c"])

    def __init__(self):
        network = sx.networks.MLP(3, 2, width=4, depth=1, key=KEY)
        model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Categorical(2))
        empty = History(*np.zeros((3, 0)))
        self.posterior = sx.Posterior(OneNetwork(model), UNSCALED, empty, KEY)

    def predict_dist(self, table):
        for category in (sx.RangeWarning, sx.InputWarning):
            warnings.warn(f"{len(table)} rows are odd", category, stacklevel=2)
        return self.posterior.predict(table)


def test_labels_are_those_of_the_classes():
    classifier = RemarkingClassifier()
    labels = np.where(X[:, 0] > 0, "yes", "no")
    numbers = (X[:, 0] > 0).astype(int)
    # The rows themselves are remarked on, once.
    with pytest.warns(UserWarning, match="^40 rows are odd") as remarks:
        importance = permutation_importance(classifier, X, labels, num_shuffles=2, key=KEY)
    assert len(remarks) == 2
    same = permutation_importance(classifier.posterior, X, numbers, num_shuffles=2, key=KEY)
    np.testing.assert_array_equal(importance.loss, same.loss)
    assert importance.measure == "Brier score"
    with pytest.raises(ValueError, match=r"none of the model's classes: 'maybe'.* are 'no', 'yes'"):
        permutation_importance(classifier, X, np.where(X[:, 0] > 0, "yes", "maybe"), key=KEY)


@pytest.mark.filterwarnings("error")
def test_rows_of_a_grid_are_not_remarked_on_and_outputs_have_names():
    classifier = RemarkingClassifier()
    yes = effect(classifier, X, "a", output="yes", num_values=3)
    np.testing.assert_array_equal(yes.mean, effect(classifier, X, 0, output=1, num_values=3).mean)
    assert yes.names == ("a",)
    no_such = "no output 'X': output may be 0 to 1, or one of the classes 'no', 'yes'"
    with pytest.raises(ValueError, match=no_such):
        effect(classifier, X, 0, output="X")
    with pytest.raises(ValueError, match="no output 2"):
        effect(classifier.posterior, X, 0, output=2)
    with pytest.raises(ValueError, match="2 classes or targets: say which"):
        effect(classifier, X, 0)
    pair = strongest_pair(classifier, X, output="yes", num_values=3)
    assert set(pair.columns) <= {"a", "b", "c"}
    assert effect(classifier, X, pair, output="yes", num_values=3).names == pair.columns


def test_of_one_output_there_is_nothing_to_choose(known):
    with pytest.raises(ValueError, match="leave out output='X'"):
        effect(known, X, 0, output="X")


def test_tables_may_be_frames_and_columns_few_values(known):
    class Named:
        def predict_dist(self, table):
            return known.predict(table[["a", "b", "c"]].to_numpy())

    frame = pandas.DataFrame(np.round(X), columns=["a", "b", "c"])
    estimate = effect(Named(), frame, 1, num_values=20)
    np.testing.assert_array_equal(estimate.grids[0], np.unique(frame["b"]))
    np.testing.assert_allclose(
        estimate.mean, effect(known, frame.to_numpy(), 1, num_values=20).mean, rtol=1e-5
    )


NUM_DAYS = 101
DAYS = pandas.date_range("2024-01-01", periods=NUM_DAYS)
# All but two days are within a year of one another, and quantiles leave those two out.
DAYS_APART = pandas.Series(
    [pandas.Timestamp("1900-01-01"), *DAYS[1:-1], pandas.Timestamp(2099, 1, 1)]
)


@pytest.mark.parametrize("days", [3, 45, 700, 1000, 1200, 2000, 9000])
def test_dates_of_any_span_are_drawn_without_a_warning(days):
    grid = np.datetime64("2020-01-15", "D") + np.linspace(0, days, 5).astype("timedelta64[D]")
    curve = np.arange(5.0)
    estimate = Effect((0,), (grid,), curve, curve - 1, curve + 1, np.stack([curve]), ("d",))
    ax = plots.effect(estimate)
    ax.figure.canvas.draw()
    assert 2 <= len(ax.get_xticks()) <= 7


@pytest.mark.parametrize("zone", [None, "US/Eastern"])
@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_grid_of_dates_is_of_quantiles(library, gap, zone):
    dates = DAYS_APART.dt.tz_localize("UTC").dt.tz_convert(zone) if zone else DAYS_APART.copy()
    if gap:
        dates = pandas.concat([dates, pandas.Series([pandas.NaT], dtype=dates.dtype)])
    frame = pandas.DataFrame({"d": dates})
    grid = grid_of(column_of(polars.from_pandas(frame) if library == "polars" else frame, 0), 3)
    # Of a day for each per cent, those at 5%, 50% and 95%.
    np.testing.assert_array_equal(grid, DAYS.to_numpy()[[5, 50, 95]])


def test_gaps_of_frames_are_no_values():
    words = pandas.DataFrame({"s": pandas.array(["u", None, "v", "u"], dtype="string")})
    assert grid_of(column_of(words, 0), 5).tolist() == ["u", "v"]
    numbers = pandas.DataFrame({"i": pandas.array([*range(101), None], dtype="Int64")})
    np.testing.assert_allclose(grid_of(column_of(numbers, 0), 3), [5, 50, 95])


def test_a_value_between_whole_numbers_stays_there():
    for frame in (pandas.DataFrame({"i": [1, 2]}), polars.DataFrame({"i": [1, 2]})):
        table = replaced(frame, 0, np.array([1.5, 1.75]))
        assert column_of(table, 0).tolist() == [1.5, 1.75]


@pytest.mark.parametrize("library", [pandas.DataFrame, polars.DataFrame])
def test_columns_of_frames_have_names(known, library):
    class Named:
        def predict_dist(self, table):
            return known.predict(table[["a", "b", "c"]].to_numpy())

    frame = library(dict(zip("abc", X.T, strict=True)))
    estimate = effect(Named(), frame, ("c", "a"), num_values=3)
    assert (estimate.columns, estimate.names) == ((2, 0), ("c", "a"))
    np.testing.assert_array_equal(estimate.mean, effect(known, X, (2, 0), num_values=3).mean)
    assert plots.effect(estimate).get_xlabel() == "c"
    with pytest.raises(ValueError, match="no column 'd' in the frame"):
        effect(Named(), frame, "d")
    with pytest.raises(ValueError, match="say its number"):
        effect(known, X, "a")
    with pytest.raises(ValueError, match="no column 3: x has 3"):
        effect(known, X, 3)
    y = known.predict(X).mean
    by_name = permutation_importance(
        Named(), frame, y, groups=[["a"], ["b", "c"]], num_shuffles=2, key=KEY
    )
    by_number = permutation_importance(known, X, y, groups=[[0], [1, 2]], num_shuffles=2, key=KEY)
    np.testing.assert_array_equal(by_name.loss, by_number.loss)


def test_columns_that_became_several_inputs_have_effects(known):
    """Both inputs of a column are set at once; one that is one input is as any column."""
    blocks = np.array([[0.0, 1.0], [2.0, 3.0]])
    both = Setting(1, "both", np.array(["low", "high"]), (1, 2), blocks)
    alone = Setting(0, "a", np.array([0.0, 1.0]), (0,), np.array([[0.0], [1.0]]))
    ((one, pair),) = effects_of_inputs(known, X, [(both,), (both, alone)], num_rows=40)
    rest = 10 + 2 * 2 * X[:, 0].mean()
    np.testing.assert_allclose(one.mean, [rest, rest + 2 * 6], rtol=1e-4)
    np.testing.assert_allclose(pair.mean, 10 + 2 * np.array([[0, 2], [6, 8]]), rtol=1e-4)
    assert pair.names == ("both", "a")


def test_pictures_show_curves_and_maps(known):
    ax = plots.effect(effect(known, X, 0, num_values=5), ["a", "b", "c"], target="price")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "price")
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), effect(known, X, 0, num_values=5).mean)
    ax = plots.effect(effect(known, X, (1, 2), num_values=7))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("column 1", "column 2")
    # Of neighbours only one has its number, or they would run into each other.
    np.testing.assert_array_equal(ax.get_xticks(), [0, 2, 4, 6])
    importance = permutation_importance(known, X, X[:, 0], num_shuffles=2, key=KEY)
    ax = plots.importance(importance, ["a", "b", "c"], [0.5, 0.3, 0.2])
    assert len(ax.get_yticks()) == 3
    with pytest.raises(ValueError, match="3 columns and 1 names"):
        plots.importance(importance, ["a"])
    plt.close("all")
