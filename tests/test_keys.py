"""No key is used twice, and none is the child of two parents.

A generator writes down every use of every key: it may be drawn from once, or have children, each
of them once. To JAX `split(key, n)[i]` and `fold_in(key, i)` are the same child.
"""

import math
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import define_prng_impl, threefry_prng_impl

import scalemix as sx
from scalemix import Candidate, _random
from scalemix.networks import MLP

USES = defaultdict(list)
X = np.random.default_rng(0).normal(size=(64, 2))
Y = X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=64)


def recording(name, tag, seed, split, random_bits, fold_in):
    """A generator that gives what another gives, and writes down what it was asked for."""

    def noting(use, function, num_given):
        def call(key, *given):
            traced, static = given[:num_given], given[num_given:]

            def note(key, *values):
                words = tag, *np.asarray(key).ravel().tolist()
                USES[words].append((use, *(np.asarray(v).tolist() for v in values), *static))

            jax.debug.callback(note, key, *traced)
            return function(key, *given)

        return call

    return define_prng_impl(
        key_shape=(2,),
        seed=seed,
        split=noting("split", split, 0),
        random_bits=noting("draw", random_bits, 0),
        fold_in=noting("fold in", fold_in, 1),
        name=name,
        tag=tag,
    )


PLAIN = recording(
    "recorded_threefry",
    "rt",
    threefry_prng_impl.seed,
    threefry_prng_impl.split,
    threefry_prng_impl.random_bits,
    threefry_prng_impl.fold_in,
)
NOISE = recording(
    "recorded_hash",
    "rh",
    _random._seed,
    _random._split,
    _random._random_bits,
    _random._fold_in,
)


@pytest.fixture
def key(monkeypatch):
    """A key whose uses, and those of all that come from it, are written down."""
    monkeypatch.setattr(_random, "HASH", NOISE)
    USES.clear()
    return jax.random.key(5, impl=PLAIN)


def conflicts():
    """Keys that were used in more than one way, or had one child in two ways."""
    jax.effects_barrier()
    assert USES
    misused = {}
    for words, uses in USES.items():
        # The same thing computed again is the same thing.
        different = set(uses)
        children = [child for use in different for child in children_of(*use)]
        drawn = any(use == "draw" for use, *_ in different)
        if len(different) > 1 and (drawn or len(set(children)) < len(children)):
            misused[words] = different
    return misused


def children_of(use, *details):
    """The numbers of the keys that come of a use."""
    if use == "split":
        return range(math.prod(details[0]))
    return details if use == "fold in" else ()


def model():
    return sx.Model(
        MLP(2, "scalar", 3, 1, key=jax.random.key(0)),
        sx.ARD(sx.InverseGamma(2.0, 1.0)),
        sx.likelihoods.Gaussian(),
    )


@pytest.mark.parametrize(
    "method",
    [
        sx.NoiseTraining(steps=3, num_draws=2, num_members=2, validation_fraction=0.2),
        sx.VariationalEM(steps=3, num_members=2, validation_fraction=0.2),
    ],
    ids=lambda method: type(method).__name__,
)
def test_training_and_prediction(method, key):
    posterior = sx.fit(model(), X, Y, method, key=key)
    # Predictions of all members, and of each alone, with as many draws of one as there are members.
    _ = posterior.predict(X, num_draws=4).mean
    for member in posterior.members:
        _ = member.predict(X, num_draws=2).mean
    assert not conflicts()


def test_samples_of_targets(key):
    posterior = sx.fit(model(), X, Y, sx.VariationalEM(steps=3), key=jax.random.key(0))
    posterior.predict(X).sample(key, 4)
    assert not conflicts()


def test_stacking(key):
    method = sx.VariationalEM(steps=3)
    sx.fit_stacked(
        [Candidate(model(), method)] * 2, X, Y, key=key, num_members=2, num_trial_members=2
    )
    assert not conflicts()


@pytest.mark.parametrize("warm_start", [True, sx.VariationalEM(steps=3)], ids=["climb", "trained"])
def test_chains(warm_start, key, monkeypatch):
    """All but what samplers from elsewhere do with the keys that they are given."""
    monkeypatch.setattr(
        "scalemix.posterior.diagnostics.convergence.load_arviz",
        lambda: pytest.fail("nothing to compare"),
    )
    method = sx.MCMC(
        num_chains=2, num_warmup=2, num_samples=2, sampler="mclmc", warm_start=warm_start,
        warm_start_steps=2,
    )  # fmt: skip
    sx.fit(model(), X, Y, method, key=key)
    assert not conflicts()


@pytest.mark.parametrize("impl", ["threefry2x32", _random.HASH], ids=str)
def test_a_key_beside_others_is_none_of_them(impl):
    key = jax.random.key(3, impl=impl)
    children = jax.random.split(key, 1000)
    folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(1000))
    beside = jnp.stack([_random.side_key(key, i) for i in range(3)])
    data = [np.asarray(jax.random.key_data(keys)) for keys in (children, folded, beside)]
    # Why there must be such keys: the first two are the same.
    np.testing.assert_array_equal(data[0], data[1])
    assert len(np.unique(np.concatenate(data), axis=0)) == 1003
