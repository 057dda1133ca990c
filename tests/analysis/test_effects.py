"""Effects against a network that is known, and importance of columns that matter or do not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pandas
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

import scalemix as sx
from scalemix.analysis import plots
from scalemix.analysis.effects import effect, permutation_importance, strongest_pair
from scalemix.data.scaling import Scaling
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
    found = effect(known, X, 0, num_values=5, probability=0.999)
    (grid,) = found.grids
    np.testing.assert_allclose(grid, np.quantile(X[:, 0], np.linspace(0.05, 0.95, 5)))
    rest = np.mean(X[:, 1] * X[:, 2])
    np.testing.assert_allclose(found.mean, 10 + 2 * (2 * grid + rest), rtol=1e-4)
    # The band runs from the least slope to the largest, in units of the target.
    least = np.minimum(1 * grid, 3 * grid)
    np.testing.assert_allclose(found.lower, 10 + 2 * (least + rest), rtol=1e-2, atol=1e-2)
    own = 10 + 2 * (2 * grid[None] + (X[:, 1] * X[:, 2])[:, None])
    np.testing.assert_allclose(found.individual, own, rtol=1e-4, atol=1e-4)


def test_columns_that_act_together_are_found(known):
    pair, strength = strongest_pair(known, X, num_values=5)
    assert pair == (1, 2)
    grid_b, grid_c = effect(known, X, pair, num_values=5).grids
    product = np.outer(grid_b - grid_b.mean(), grid_c - grid_c.mean())
    assert strength == pytest.approx(2 * np.std(product), rel=1e-3)
    with pytest.raises(ValueError, match="needs two columns"):
        strongest_pair(known, X[:, :1])


def test_importance_is_zero_for_a_column_that_is_not_read(known):
    y = known.predict(X).mean
    found = permutation_importance(known, X, y, num_shuffles=3, key=KEY)
    assert found.loss[0] > 3 * found.error[0] > 0
    assert (found.loss > 0).all()
    blind = permutation_importance(posterior([0.0]), X, y, num_shuffles=2, key=KEY)
    assert blind.loss[0] == blind.error[0] == 0
    both = permutation_importance(known, X, y, groups=[[0], [1, 2]], num_shuffles=3, key=KEY)
    assert both.loss.shape == (2,)
    assert both.loss[0] == found.loss[0]


def test_tables_may_be_frames_and_columns_few_values(known):
    class Named:
        def predict_dist(self, table):
            return known.predict(table[["a", "b", "c"]].to_numpy())

    frame = pandas.DataFrame(np.round(X), columns=["a", "b", "c"])
    found = effect(Named(), frame, 1, num_values=20)
    np.testing.assert_array_equal(found.grids[0], np.unique(frame["b"]))
    np.testing.assert_allclose(
        found.mean, effect(known, frame.to_numpy(), 1, num_values=20).mean, rtol=1e-5
    )


def test_pictures_show_curves_and_maps(known):
    ax = plots.effect(effect(known, X, 0, num_values=5), ["a", "b", "c"], target="price")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "price")
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), effect(known, X, 0, num_values=5).mean)
    ax = plots.effect(effect(known, X, (1, 2), num_values=4))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("column 1", "column 2")
    found = permutation_importance(known, X, X[:, 0], num_shuffles=2, key=KEY)
    ax = plots.importance(found, ["a", "b", "c"], [0.5, 0.3, 0.2])
    assert len(ax.get_yticks()) == 3
    with pytest.raises(ValueError, match="3 columns and 1 names"):
        plots.importance(found, ["a"])
    plt.close("all")
