"""Members in groups: one program for any number of them, and each as if it were alone."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

import scalemix as sx
from scalemix.inference import groups
from scalemix.inference.groups import GROUP_SIZE, LARGEST, Groups, group_size
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
    two = Groups(2, 4)
    parts = two.split(tree)
    assert [part["shape"].shape for part in parts] == [(4, 2)] * 2
    assert parts[1]["numbers"].tolist() == tree["numbers"][4:].tolist()
    whole = two.join(parts)
    assert whole["shape"] == tree["shape"]
    assert np.array_equal(whole["numbers"], tree["numbers"])
    assert np.array_equal(*(jax.random.key_data(one["keys"]) for one in (whole, tree)))


def test_groups_are_of_one_size_and_keep_all_cores_busy():
    for work, cores in itertools.product(range(1, 65), (1, 2, 3, 4, 16)):
        size = group_size(work, cores)
        assert work % size == 0
        assert size <= LARGEST
        # No core has much more to do than its share. Where a number of members has few divisors,
        # one group is left over; and the usual size may take a tenth longer.
        most = -(-work // size // cores) * size
        assert most <= (work / cores + size) / 0.9


@pytest.mark.parametrize(
    ("work", "size"), [(1, 1), (2, 1), (4, 2), (6, 3), (8, 4), (12, 6), (16, 4), (20, 5), (24, 4)]
)
def test_the_sizes_of_groups_on_two_cores(work, size):
    assert group_size(work, 2) == size


def test_trials_and_the_final_ensemble_of_the_defaults_have_groups_of_one_size():
    few = [group_size(work, 2) for work in (24, 16)]
    assert few == [GROUP_SIZE] * 2


def test_each_member_is_as_if_it_were_alone():
    keys = jax.random.split(KEY, 8)
    models = [MODEL] * 8
    methods = [dataclasses.replace(METHOD, temperature=0.1 * (i + 1)) for i in range(8)]
    together = sx.fit_many(models, [X] * 8, [Y] * 8, methods, keys=keys)
    for i in (0, 5):
        close(together[i], sx.fit(MODEL, X, Y, methods[i], key=keys[i]))
    assert abs(together[0].model.weights["layers.0"] - together[5].model.weights["layers.0"]).max()


def test_trials_and_final_fits_share_their_programs(caplog, monkeypatch):
    # As on two cores with the defaults, whatever this machine has.
    monkeypatch.setattr(groups, "group_size", lambda work, cores: GROUP_SIZE)
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
