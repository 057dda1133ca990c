"""Weights that read one column of a table share a scale."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import scalemix as sx
from scalemix.inference.training.scales import best_variances, kl_divergence, log_hyperprior
from scalemix.likelihoods import Categorical
from scalemix.networks import MLP, ColumnLinear, ResNet

KEY = jax.random.key(0)
COLUMNS, PARTS = (0, 1, 1, 2, 1), (0, 1, 2, 3, 2)
BOTH = sx.ARD(sx.HalfCauchy(1.0), by=("column", "part"))
REST = sx.ARD(sx.InverseGamma(3.0, 3.0))
X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
Y = (X[:, 1] > 0).astype(np.int32)


def build(prior=BOTH, network=None):
    network = MLP((COLUMNS, PARTS), 2, 4, 1, key=KEY) if network is None else network
    return sx.Model(network, {"layers.0": prior, "layers.1": REST}, Categorical(2))


def test_scales_of_a_column_reach_all_weights_that_read_it():
    prior = build(sx.ARD(sx.HalfCauchy(1.0), by="column")).site_priors[0]
    expanded = prior.expand({"column": jnp.array([1.0, 2.0, 3.0])})
    np.testing.assert_array_equal(np.broadcast_to(expanded, (4, 5))[2], [1, 2, 2, 3, 2])
    both = build().site_priors[0]
    assert both.scale_shapes == {"column": (3,), "part": (4,)}
    scales = {"part": jnp.arange(1.0, 5.0), "column": jnp.array([1.0, 10.0, 100.0])}
    np.testing.assert_array_equal(
        np.broadcast_to(both.expand(scales), (4, 5))[0], [1, 20, 30, 400, 30]
    )


def test_closed_forms_are_best_for_scales_of_columns(float64):
    """One group is solved at once; two in sweeps, each of which raises the bound to its maximum."""
    rng = np.random.default_rng(0)
    mean, log_deviation = rng.normal(size=(4, 5)), rng.normal(-1, 0.3, size=(4, 5))

    for structure, sweeps in ((sx.ARD(sx.HalfCauchy(1.0), by="column"), 1), (BOTH, 2000)):
        prior = build(structure).site_priors[0]
        sizes = [np.prod(shape, dtype=int) for shape in prior.scale_shapes.values()]

        def by_group(logs, prior=prior, sizes=sizes):
            parts = jnp.split(jnp.exp(logs), np.cumsum(sizes)[:-1])
            return dict(zip(prior.scale_shapes, parts, strict=True))

        # A sweep at a time: as one program, thousands of them would take minutes to compile.
        @jax.jit
        def sweep(logs, prior=prior, by_group=by_group):
            best = best_variances(prior, mean, log_deviation, by_group(logs))
            return jnp.log(jnp.concatenate([best[name] for name in prior.scale_shapes]))

        @jax.jit
        def loss(logs, prior=prior, by_group=by_group):
            variances = by_group(logs)
            divergence = kl_divergence(prior, mean, log_deviation, variances)
            return divergence - log_hyperprior(prior, variances)

        logs = np.zeros(sum(sizes))
        for _ in range(sweeps):
            logs = sweep(logs)
        other = minimize(loss, np.asarray(logs), method="Nelder-Mead", options={"maxiter": 400})
        assert loss(logs) <= other.fun + 1e-6


def test_a_network_that_reads_columns_is_a_network_like_any_other(tmp_path):
    model = build()
    post = sx.fit(model, X, Y, sx.VariationalEM(steps=40), key=KEY)
    relevance = post.relevance()
    assert relevance.inputs.shape == (5,)
    post.save(tmp_path / "file")
    again = sx.load(tmp_path / "file")
    np.testing.assert_array_equal(again.predict(X).mean, post.predict(X).mean)
    assert again.model.structures["layers.0"].by == ("column", "part")
    first = again.model.network.layers[0]
    assert (first.columns, first.parts) == (COLUMNS, PARTS)
    assert "by column" in str(model)


def test_inputs_that_are_off_are_not_read():
    network = eqx.tree_at(
        lambda n: n.layers[0].on,
        MLP((COLUMNS, PARTS), 2, 4, 1, key=KEY),
        jnp.array([1, 0, 1, 1, 1], bool),
    )
    x = jnp.asarray(X[0])
    np.testing.assert_array_equal(network(x), network(x.at[1].set(100.0)))
    assert not np.array_equal(network(x), network(x.at[0].set(100.0)))


def test_residual_networks_read_columns_too():
    network = ResNet((COLUMNS, PARTS), "scalar", 4, 2, key=KEY)
    assert isinstance(network.first, ColumnLinear)
    # The weights are those of a network that is told of no columns.
    plain = ResNet(5, "scalar", 4, 2, key=KEY)
    np.testing.assert_array_equal(network.first.weight, plain.first.weight)
    np.testing.assert_allclose(network(X[0]), plain(X[0]))


@pytest.mark.parametrize("columns", [(0, 2), (1,), (), (-1, 0)])
def test_columns_are_numbered_without_gaps(columns):
    with pytest.raises(ValueError, match="columns must hold the numbers 0, 1"):
        ColumnLinear(columns, 2, key=KEY)


def test_bad_masks_and_bad_names_are_refused():
    with pytest.raises(ValueError, match="parts must hold"):
        ColumnLinear(COLUMNS, 2, (0, 1), key=KEY)
    with pytest.raises(ValueError, match="on must say yes or no to 5 inputs"):
        ColumnLinear(COLUMNS, 2, on=[True], key=KEY)
    for bad in ((), ("unit", "unit"), ("unit", "row")):
        with pytest.raises(ValueError, match="by must be one of"):
            sx.ARD(sx.HalfCauchy(1.0), by=bad)
    with pytest.raises(ValueError, match=r"Give this prior by pattern to layers that have them"):
        sx.Model(MLP((COLUMNS, PARTS), 2, 4, 1, key=KEY), BOTH, Categorical(2))
