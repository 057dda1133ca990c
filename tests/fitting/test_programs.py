"""Numbers are data: another value of one is not another program."""

import dataclasses

import jax
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix.inference import compiled
from tests.fitting.common import KEY, METHOD, X, Y, build, close

EM = sx.VariationalEM(steps=20, chunk_steps=10)


def num_programs():
    return compiled.run_chunk._cached._cache_size()


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


def test_fits_of_several_learning_rates_are_one_program():
    methods = [dataclasses.replace(EM, learning_rate=rate) for rate in (0.01, 0.003)]
    model, keys = build(mixture=sx.InverseGamma(3.0, 3.0)), jax.random.split(KEY, 2)
    before = num_programs()
    together = sx.fit_many(model, [X, X], [Y, Y], methods, keys=keys)
    assert num_programs() == before + 1
    for posterior, method, key in zip(together, methods, keys, strict=True):
        close(posterior, sx.fit(model, X, Y, method, key=key))


def schedule(rate):
    return lambda step: rate / (1 + step)


@pytest.mark.parametrize(
    ("setting", "build_it"),
    [
        ("optimizer", lambda rate: optax.chain(optax.clip(1.0), optax.sgd(rate))),
        ("learning_rate", lambda rate: optax.exponential_decay(rate, 10, 0.5)),
        ("learning_rate", schedule),
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
