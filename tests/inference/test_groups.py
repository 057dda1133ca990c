"""Members in groups: one program for any number of them, and each as if it were alone."""

import dataclasses

import jax
import numpy as np
import pytest

import scalemix as sx
from scalemix.inference.groups import GROUP_SIZE, Groups
from scalemix.inference.layout import Layout
from tests.fitting.common import KEY, X, Y, build, close

METHOD = sx.VariationalEM(steps=20, chunk_steps=10, batch_size=16)
MODEL = build(mixture=sx.InverseGamma(3.0, 3.0))


def test_parts_come_together_again():
    tree = {
        "numbers": np.arange(24.0).reshape(8, 3),
        "keys": jax.random.split(KEY, 8),
        "shape": jax.ShapeDtypeStruct((8, 2), np.float32),
        "none": None,
    }
    groups = Groups.of(Layout.over(None, 8))
    parts = groups.split(tree)
    assert [part["shape"].shape for part in parts] == [(GROUP_SIZE, 2)] * 2
    assert parts[1]["numbers"].tolist() == tree["numbers"][GROUP_SIZE:].tolist()
    whole = groups.join(parts)
    assert whole["shape"] == tree["shape"]
    assert np.array_equal(whole["numbers"], tree["numbers"])
    assert np.array_equal(*(jax.random.key_data(one["keys"]) for one in (whole, tree)))


def test_numbers_that_do_not_divide_are_one_group():
    assert [Groups.of(Layout.over(None, num)).num for num in (1, 3, 4, 6, 8, 12)] == [
        1, 1, 1, 1, 2, 3,
    ]  # fmt: skip


def test_each_member_is_as_if_it_were_alone():
    keys = jax.random.split(KEY, 8)
    models = [MODEL] * 8
    methods = [dataclasses.replace(METHOD, temperature=0.1 * (i + 1)) for i in range(8)]
    together = sx.fit_many(models, [X] * 8, [Y] * 8, methods, keys=keys)
    for i in (0, 5):
        close(together[i], sx.fit(MODEL, X, Y, methods[i], key=keys[i]))
    assert abs(together[0].model.weights["layers.0"] - together[5].model.weights["layers.0"]).max()


def test_trials_and_final_fits_share_their_programs(caplog):
    # A network of a shape that no other test has.
    network = sx.networks.MLP(3, "scalar", 7, 1, key=KEY)
    model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
    candidates = [
        sx.Candidate(model, dataclasses.replace(METHOD, temperature=0.1 * i)) for i in range(4)
    ]
    with jax.log_compiles(), caplog.at_level("WARNING"):
        sx.fit_stacked(
            candidates, X, Y, key=KEY, num_members=8, num_trial_members=1, trial_share=0.5
        )
    compilations = [
        line for line in caplog.messages if line.startswith("Finished XLA compilation of")
    ]
    for name in ("run_chunk", "init", "visits_of", "rows_of"):
        assert sum(f"jit({name})" in line for line in compilations) == 1, name


def test_the_steps_of_chains_are_compiled_once_while_they_begin(caplog):
    method = sx.MCMC(num_chains=8, num_warmup=4, num_samples=4, sampler="mclmc", chunk_steps=4)
    # A network of a shape that no other test has.
    network = sx.networks.MLP(3, "scalar", 6, 1, key=KEY)
    model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian())
    with jax.log_compiles(), caplog.at_level("WARNING"), pytest.warns(sx.ConvergenceWarning):
        sx.fit(model, X, Y, method, key=KEY)

    def logged(beginning: str) -> int:
        return sum(line.startswith(beginning) for line in caplog.messages)

    assert logged("Compiling jit(_init)") == logged("Compiling jit(_run_chunk)") == 1
    assert logged("Finished XLA compilation of jit(_init)") == 1
    # Settings such as that of the log are a thread's own: what is not seen was compiled in another.
    assert logged("Finished XLA compilation of jit(_run_chunk)") == 0
