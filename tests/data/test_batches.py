"""Data filled up to a few lengths: the rows that fill count for nothing."""

import logging

import jax
import numpy as np

import scalemix as sx
from scalemix.data.batches import Data, round_up, stack


def test_lengths_are_few_and_close():
    lengths = np.arange(1, 20_000)
    rounded = np.array([round_up(int(n)) for n in lengths])
    assert (rounded >= lengths).all()
    assert (np.diff(rounded) >= 0).all()
    beyond = lengths > 64
    assert (rounded[beyond] <= lengths[beyond] * 1.125).all()
    # Eight in each octave from 64 on.
    assert len(set(rounded[: 2**14])) == 1 + 8 * 8
    assert [round_up(2**k) for k in range(6, 12)] == [2**k for k in range(6, 12)]


def test_rows_that_fill_have_no_weight():
    sets = [Data(np.ones((n, 2)), np.ones(n), np.full(n, 2.0)) for n in (70, 90)]
    stacked = stack(sets)
    assert stacked.x.shape == (2, 96, 2)
    assert stacked.weight.sum(axis=1).tolist() == [140.0, 180.0]
    for i, one in enumerate(sets):
        np.testing.assert_array_equal(stacked.y[i, : len(one.y)], one.y)
        assert not stacked.weight[i, len(one.y) :].any()


def test_folds_of_one_table_are_one_program(caplog):
    network = sx.networks.MLP(2, "scalar", 3, 1, key=jax.random.key(0))
    model = sx.Model(network, sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Gaussian())
    method = sx.NoiseTraining(steps=3, batch_size=16, num_draws=2)
    x = np.random.default_rng(0).normal(size=(90, 2))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for num in (89, 90):
            sx.fit(model, x[:num], x[:num, 0], method, key=jax.random.key(0))
    compilations = [r for r in caplog.messages if r.startswith("Compiling jit(run_chunk)")]
    assert len(compilations) == 1
