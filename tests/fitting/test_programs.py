"""Numbers are data: another value of one is not another program."""

import dataclasses
import functools

import jax
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix.inference.training import programs
from tests.fitting.common import KEY, METHOD, X, Y, build, close

EM = sx.VariationalEM(steps=20, chunk_steps=10)


def num_programs():
    return programs.chunk_program(False)._cached._cache_size()


@pytest.mark.parametrize("method", [METHOD, EM], ids=lambda m: type(m).__name__)
def test_another_learning_rate_is_the_same_program(method):
    model = build(mixture=sx.InverseGamma(3.0, 3.0))
    first = sx.fit(model, X, Y, dataclasses.replace(method, learning_rate=0.011), key=KEY)
    before = num_programs()
    second = sx.fit(model, X, Y, dataclasses.replace(method, learning_rate=0.003), key=KEY)
    assert num_programs() == before
    change = [abs(a - b).max() for a, b in zip(*map(weights_of, (first, second)), strict=True)]
    assert max(change) > 1e-3


def weights_of(posterior):
    return jax.tree.leaves(posterior.model.weights)


def test_runs_shorter_than_a_chunk_are_one_program_of_as_many_steps():
    method = sx.VariationalEM(steps=3)
    first = sx.fit(build(mixture=sx.InverseGamma(3.0, 3.0)), X, Y, method, key=KEY)
    before = num_programs()
    method = dataclasses.replace(method, steps=20)
    longer = sx.fit(build(mixture=sx.InverseGamma(3.0, 3.0)), X, Y, method, key=KEY)
    assert num_programs() == before
    assert [len(fit.history.objective) for fit in (first, longer)] == [3, 20]
    # In chunks or not, a run takes the same steps.
    assert all(map(np.array_equal, weights_of(longer), weights_of(sx.fit(
        build(mixture=sx.InverseGamma(3.0, 3.0)), X, Y, EM, key=KEY))))  # fmt: skip


def test_fits_of_several_learning_rates_are_one_program(caplog):
    methods = [dataclasses.replace(EM, learning_rate=rate) for rate in (0.01, 0.003)]
    # A network of a shape that no other test has.
    network = sx.networks.MLP(3, "scalar", 11, 1, key=KEY)
    model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian())
    keys = jax.random.split(KEY, 2)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        together = sx.fit_many(model, [X, X], [Y, Y], methods, keys=keys)
    compiled = [line for line in caplog.messages if line.startswith("Finished XLA compilation")]
    assert sum("jit(run_chunk)" in line for line in compiled) == 1
    for posterior, method, key in zip(together, methods, keys, strict=True):
        close(posterior, sx.fit(model, X, Y, method, key=key))


@pytest.mark.parametrize(
    ("setting", "build_it"),
    [
        ("optimizer", lambda rate: optax.chain(optax.clip(1.0), optax.sgd(rate))),
        ("learning_rate", lambda rate: optax.exponential_decay(rate, 10, 0.5)),
    ],
)
def test_an_optimizer_built_alike_is_the_same_program(setting, build_it):
    model = build(mixture=sx.InverseGamma(3.0, 3.0))

    def run(rate):
        method = dataclasses.replace(EM, **{setting: build_it(rate)})
        return weights_of(sx.fit(model, X, Y, method, key=KEY))

    first = run(0.01)
    before = num_programs()
    again = run(0.01)
    assert num_programs() == before
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    # Numbers inside a function are part of it.
    other = run(0.5)
    assert num_programs() == before + 1
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


class Scaled:
    """A schedule around another, as `functools.update_wrapper` leaves it."""

    def __init__(self, schedule, factor):
        functools.update_wrapper(self, schedule)
        self.factor = factor

    def __call__(self, step):
        return self.factor * self.__wrapped__(step)


@dataclasses.dataclass
class Unhashable:
    rate: float

    def __call__(self, step):
        return self.rate


BOX = {"rate": 0.01}


def test_a_schedule_of_ones_own_is_never_taken_for_another():
    """Whatever a function hides, another one is another program."""
    model = build(mixture=sx.InverseGamma(3.0, 3.0))

    def run(schedule):
        return weights_of(
            sx.fit(model, X, Y, dataclasses.replace(EM, learning_rate=schedule), key=KEY)
        )

    def constant(step):
        return 0.01

    def same(one, other):
        return all(np.allclose(a, b) for a, b in zip(one, other, strict=True))

    first, *others = (
        [run(make(rate)) for rate in (0.01, 0.5)]
        for make in (lambda rate: Scaled(constant, 100 * rate), Unhashable, from_a_box)
    )
    assert not same(*first)
    for other in others:
        assert all(map(same, first, other))


def from_a_box(rate):
    BOX["rate"] = rate
    return lambda step: BOX["rate"]
