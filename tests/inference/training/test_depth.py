"""How layers that a prior may switch off come into play, and what is left of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.inference.training.depth import places_in_depth, shares_of_steps
from scalemix.networks import ResNet

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()


def model_of(depth, kind: type = sx.ADD, width=4):
    network = ResNet(4, "scalar", width, depth, key=KEY)
    return sx.Model(network, kind(sx.HalfCauchy(1.0)), GAUSSIAN)


def test_places_follow_the_network_and_not_the_alphabet():
    model = model_of(13)
    # As an engine sees it, after JAX has taken the model apart and sorted its names.
    rebuilt = jax.tree.map(lambda leaf: leaf, model)
    expected = {"first": 1, "last": 1} | {f"blocks.{i}": i + 1 for i in range(12)}
    assert places_in_depth(model) == places_in_depth(rebuilt) == expected


def test_later_layers_start_and_step_smaller():
    model, method = model_of(4, sx.ARDADD), sx.VariationalEM(steps=1, initial_deviation=0.06)
    learned = method.init(model).learned
    starts = [float(learned.deviations[f"blocks.{i}"][0, 0]) for i in range(3)]
    np.testing.assert_allclose(starts, [0.06, 0.03, 0.02], rtol=1e-5)
    assert float(learned.deviations["last"][0, 0]) == pytest.approx(0.06)
    means = shares_of_steps(model, learned.means)
    shares = [means.network.blocks[i].weight for i in range(3)]
    np.testing.assert_allclose(shares, 1 / np.array([1, 2, 3]))
    others = [means.network.first, means.network.last, means.likelihood]
    others += [block.bias for block in means.network.blocks]
    assert set(jax.tree.leaves(others)) == {1.0}


def test_the_first_step_of_adam_shows_the_shares():
    model, rng = model_of(4), np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    # A constant rate: Adam's first step has that length for every weight with a gradient.
    method = sx.VariationalEM(steps=1, learning_rate=lambda _: 0.01, batch_size=None)
    with pytest.warns(sx.UselessFitWarning):
        after = sx.fit(model, x, y, method, key=KEY).model.weights
    steps = {n: np.abs(after[n] - before).max() for n, before in model.weights.items()}
    expected = {"first": 1.0, "last": 1.0} | {f"blocks.{i}": 1 / (i + 1) for i in range(3)}
    for name, share in expected.items():
        assert steps[name] == pytest.approx(0.01 * share, rel=1e-3)


@pytest.mark.parametrize(("depth", "kind"), [(2, sx.ADD), (2, sx.ARDADD), (5, sx.ARD)])
def test_one_residual_layer_or_none_to_select_is_as_ever(depth, kind):
    assert set(places_in_depth(model_of(depth, kind)).values()) == {1}


class Stages(eqx.Module):
    """A residual network of somebody's own."""

    read: eqx.nn.Linear
    branches: dict[str, eqx.nn.Linear]
    write: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.read = eqx.nn.Linear(2, 5, key=keys[0])
        self.branches = {
            "a": eqx.nn.Linear(5, 5, key=keys[1]),
            "b": eqx.nn.Linear(5, 5, key=keys[2]),
        }
        self.write = eqx.nn.Linear(5, "scalar", key=keys[3])

    def __call__(self, x):
        h = self.read(x)
        for branch in self.branches.values():
            h = h + jnp.tanh(branch(h))
        return self.write(h)


def test_any_residual_network_has_places():
    prior = sx.ADD(sx.HalfCauchy(1.0))
    model = sx.Model(Stages(KEY), prior, GAUSSIAN, example=jnp.zeros(2))
    assert places_in_depth(model) == {"read": 1, "branches.a": 1, "branches.b": 2, "write": 1}


def planted(num_blocks, num_rows, seed):
    """A target of residual tanh blocks of width 4 on 4 inputs, and its values without noise."""
    rng = np.random.default_rng([num_blocks, seed])
    weights, out = rng.normal(size=(num_blocks, 4, 4)), rng.normal(size=4)
    x = h = rng.normal(size=(num_rows, 4))
    for weight in weights:
        h = h + np.tanh(h @ weight)
    target = (h @ out - np.mean(h @ out)) / np.std(h @ out)
    return x, target + 0.1 * rng.normal(size=num_rows), target


def left(posterior):
    on = posterior.relevance().layers_on
    return sum(bool(value[0]) for name, value in on.items() if name.startswith("blocks"))


def fit_planted(kind, num_blocks, width, offered, num_rows, steps):
    x, y, truth = planted(num_blocks, num_rows, 0)
    network = ResNet(4, "scalar", width, offered + 1, key=KEY)
    model = sx.Model(network, kind(sx.HalfCauchy(1.0)), GAUSSIAN)
    method = sx.VariationalEM(steps=steps, num_draws=1, batch_size=64, warm_up=0.5)
    posterior = sx.fit(model, x, y, method, key=KEY)
    rmse = np.sqrt(np.mean((posterior.predict(x).mean - truth) ** 2))
    columns = np.column_stack([x, np.ones(num_rows)])
    linear = truth - columns @ np.linalg.lstsq(columns, truth)[0]
    return posterior, rmse / linear.std()


def test_a_network_that_is_too_deep_keeps_what_it_needs():
    posterior, share = fit_planted(sx.ADD, 2, 12, 6, 300, 800)
    assert 1 <= left(posterior) <= 3
    assert share < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sx.ADD, sx.ARDADD])
@pytest.mark.parametrize("num_blocks", [1, 4])
def test_twenty_layers_keep_what_they_need(kind, num_blocks):
    posterior, share = fit_planted(kind, num_blocks, 32, 20, 700, 4000)
    assert left(posterior) <= num_blocks + 1
    assert share < 0.6
